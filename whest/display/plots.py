"""Plots for papers: error against compute, score against budget, error by layer; in a style that prints.

Curves differ by line, marker and lightness, so that they can be told apart in black and white. Text stays text. The
same runs give the same bytes.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.document import Json, case_rows, case_score, front_of
from whest.errors import ConfigError
from whest.files import write_atomically
from whest.notation import short_number
from whest.page.drawing import literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "legend.fontsize": 6.5,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "whest",
    "savefig.dpi": 300,
}
INKS = ("#000000", "#2f6fd0", "#7a2410", "#d98a3a", "#4b2a7b", "#3fa387", "#555555", "#b0b0b0")
"""The colours of curves, of different lightness where they are neighbours."""
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 2)), (0, (2, 2)))
MARKERS = "osD^vPX*"
DATELESS: Mapping[str, Mapping[str, Any]] = {
    ".pdf": {"CreationDate": None, "Creator": "whest", "Producer": "matplotlib"},
    ".svg": {"Date": None, "Creator": "whest"},
    ".png": {"Software": "whest"},
}
"""By the ending of the file: what it says about itself. Without a date, the same runs give the same bytes."""


@dataclass(frozen=True)
class Drawn:
    """One run of a plot: its name, and its report."""

    name: str
    report: Json

    @property
    def results(self) -> Json:
        return dict(self.report["results"])

    @property
    def budget(self) -> float:
        return float(self.report["run_config"]["flop_budget"])


Runs = Sequence[Drawn]


def save_plot(kind: str, runs: Runs, path: Path, width_in: float, height_in: float) -> Path:
    """Draw a plot into a file. Its ending chooses the format."""
    import matplotlib
    from matplotlib.figure import Figure

    if path.suffix not in DATELESS:
        raise ConfigError(f"output={path} must end in {', '.join(DATELESS)}: the ending chooses the format")
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        KINDS[kind](figure.add_subplot(), runs)
        figure.savefig(buffer, format=path.suffix[1:], metadata=dict(DATELESS[path.suffix]))
    write_atomically(path, buffer.getvalue())
    return path


def curves(runs: Runs) -> dict[str, list[Drawn]]:
    """The runs by name, in order of budget: runs of one estimator under several budgets are one curve."""
    found: dict[str, list[Drawn]] = {}
    for run in runs:
        found.setdefault(run.name, []).append(run)
    return {name: sorted(group, key=lambda run: run.budget) for name, group in found.items()}


def look(place: int) -> dict[str, Any]:
    """The look of the curve at this place: ink, line and marker."""
    return {
        "color": INKS[place % len(INKS)],
        "linestyle": LINES[place % len(LINES)],
        "marker": MARKERS[place % len(MARKERS)],
    }


def draw_frontier(axes: "Axes", runs: Runs) -> None:
    """The error of each run against its compute, plain sampling, and the Pareto front."""
    shown = [(run, front_of(run.results)) for run in runs]
    known = [(run, front) for run, front in shown if front.get("error") and front.get("compute")]
    _require(known, "frontier", "an error and a compute above 0")
    for place, (name, group) in enumerate(curves([run for run, _ in known]).items()):
        fronts = [front_of(run.results) for run in group]
        style = look(place) | {"linestyle": "none", "label": literal(name)}
        bars = [front.get("error_se") or 0.0 for front in fronts]
        axes.errorbar(
            [front["compute"] for front in fronts],
            [front["error"] for front in fronts],
            bars,
            capsize=1.5,
            elinewidth=0.7,
            **style,
        )
    best: list[tuple[float, float]] = []
    for compute, error in sorted((float(front["compute"]), float(front["error"])) for _, front in known):
        if not best or error < best[-1][1]:
            best.append((compute, error))
    axes.step(*zip(*best, strict=True), where="post", color="#000000", linewidth=0.7, label="Pareto front", zorder=1)
    _draw_sampling(axes, [run for run, _ in known], [float(front["compute"]) for _, front in known])
    measures = " / ".join(dict.fromkeys(str(front.get("measure") or "error") for _, front in known))
    _finish(axes, "effective compute (FLOPs)", measures, "log")


def _draw_sampling(axes: "Axes", runs: Runs, computes: Sequence[float]) -> None:
    """The error of plain sampling: on one dataset, error times compute is constant."""
    prices = {(run.results.get("sampling_mse_at_budget") or 0) * run.budget for run in runs} - {0}
    if not prices or max(prices) > 1.01 * min(prices):
        return
    ends = [min(computes), max(*computes, *(run.budget for run in runs))]
    heights = [max(prices) / end for end in ends]
    axes.plot(ends, heights, color="#6f6f6f", linestyle=(0, (1, 1)), linewidth=0.7, label="plain sampling", zorder=1)


def draw_budget(axes: "Axes", runs: Runs) -> None:
    """The score of each estimator against the budget, with its standard error."""
    known = [run for run in runs if run.results.get("score") is not None]
    _require(known, "budget", "a score")
    for place, (name, group) in enumerate(curves(known).items()):
        axes.errorbar(
            [run.budget for run in group],
            [run.results["score"] for run in group],
            [run.results.get("score_se") or 0.0 for run in group],
            capsize=1.5,
            elinewidth=0.7,
            label=literal(name),
            **look(place),
        )
    is_log = all(run.results["score"] > 0 for run in known)
    better = known[0].results["direction"]
    _finish(axes, "budget (FLOPs)", f"score ± SE ({better} is better)", "log" if is_log else "linear")


def draw_layers(axes: "Axes", runs: Runs) -> None:
    """The mean squared error of each layer, with its standard error over the MLPs."""
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    known = [run for run in runs if run.results.get("per_layer_mse")]
    _require(known, "layers", "errors by layer, which task=whitebox has")
    lowest = np.inf
    for place, run in enumerate(known):
        by_mlp = np.array([row["per_layer_mse"] for row in case_rows(run.results)], dtype=float)
        means = np.nanmean(by_mlp, axis=0)
        errors = np.nanstd(by_mlp, axis=0, ddof=1) / np.sqrt(len(by_mlp)) if len(by_mlp) > 1 else np.zeros_like(means)
        layers = np.arange(1, len(means) + 1)
        axes.errorbar(layers, means, errors, capsize=1.5, elinewidth=0.7, label=_layer_name(run, known), **look(place))
        lowest = min(lowest, float(means[-1]))
    _finish(axes, "layer", f"mean squared error of an {case_score(known[0].results)['unit']}", "log", "linear")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=max(axes.get_ylim()[0], lowest / 30))  # an exact first layer would squeeze the rest


def _layer_name(run: Drawn, runs: Runs) -> str:
    """The run's name, with its budget if another run has the same name."""
    is_alone = sum(other.name == run.name for other in runs) == 1
    return literal(run.name if is_alone else f"{run.name}, {short_number(run.budget)} FLOPs")


KINDS: dict[str, Callable[["Axes", Runs], None]] = {
    "frontier": draw_frontier,
    "budget": draw_budget,
    "layers": draw_layers,
}
"""The kinds of plots: `plot.kind`."""


def _require(known: Sequence[object], kind: str, need: str) -> None:
    if not known:
        raise ConfigError(f"plot.kind={kind}: none of the runs has {need}: choose other runs or another kind")


def _finish(axes: "Axes", x: str, y: str, y_scale: str, x_scale: str = "log") -> None:
    axes.set(xscale=x_scale, yscale=y_scale, xlabel=x, ylabel=y)
    axes.grid(color="#d9d9d9", linewidth=0.4)
    axes.set_axisbelow(True)
    axes.legend()
