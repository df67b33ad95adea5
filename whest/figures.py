"""Pictures of a run: error by layer, score by MLP, FLOPs by operation, prediction against truth.

They are drawn from the report's own document, so that a run of last month can be drawn as well; what the document
leaves out, every neuron's truth and prediction, comes as `Answers`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogFormatter, MaxNLocator

from whest.palette import ACCENT, ALARM, GRID, INK, MUTED
from whest.report import Json, Report

MAX_LINES = 60
"""More MLPs than this would only blacken a chart."""
LEAST_BARS = 7
"""Room for so many, so that one bar alone is no thicker than the others."""


@dataclass(frozen=True)
class Answers:
    """Truth and prediction of every MLP that has a valid answer; and what truth's noise adds to each layer's MSE."""

    truth: Float[np.ndarray, "mlp depth width"]
    predicted: Float[np.ndarray, "mlp depth width"]
    layer_floor: Float[np.ndarray, " depth"] | None


def answers_of(report: Report) -> Answers | None:
    """What can be drawn neuron by neuron; null where no MLP was answered."""
    pairs = zip(report.cases, report.score.cases, strict=True)
    answered = [(c.truth, c.prediction.means) for c, s in pairs if c.prediction.means is not None and not s.failed]
    if not answered:
        return None
    floor = np.mean([np.square(case.truth.standard_errors).mean(axis=1) for case in report.cases], axis=0)
    return Answers(
        truth=np.stack([truth.means for truth, _ in answered]),
        predicted=np.stack([means for _, means in answered]),
        layer_floor=floor if np.isfinite(floor).all() else None,  # a dataset from elsewhere may bring no errors
    )


def save_figures(report: Report, folder: Path) -> list[Path]:
    """Draw what can be drawn from the finished MLPs; an empty run has no pictures."""
    if not report.cases:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    results, answers = report.to_json()["results"], answers_of(report)
    floor = None if answers is None else answers.layer_floor
    on = f"{report.config['estimator']['name']} on {report.config['dataset']['name']}".replace("$", r"\$")
    return [
        _save(
            lambda axes: draw_layer_error(axes, results, floor), f"Error by layer — {on}", folder / "layer_error.png"
        ),
        _save(
            lambda axes: draw_mlp_scores(axes, results),
            f"Score by MLP ({results['direction']} is better) — {on}",
            folder / "mlp_scores.png",
        ),
        _save(
            lambda axes: draw_final_layer(axes, answers),
            f"Final layer: prediction against truth — {on}",
            folder / "prediction_against_truth.png",
        ),
    ]


def _save(draw: Callable[[Axes], None], title: str, path: Path) -> Path:
    figure = Figure(figsize=(7, 4.3), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    draw(axes)
    axes.set_title(title)
    figure.savefig(path, dpi=130)
    return path


def draw_layer_error(axes: Axes, results: Json, floor: Float[np.ndarray, " depth"] | None) -> None:
    """Mean squared error layer by layer, with the noise of the truth beneath it."""
    by_mlp = np.array([row["per_layer_mse"] for row in results["per_mlp"]], dtype=float)  # null becomes not-a-number
    layers = np.arange(1, by_mlp.shape[1] + 1)
    for row in by_mlp[:MAX_LINES]:
        axes.plot(layers, row, color=MUTED, alpha=0.4, linewidth=0.8)
    axes.plot(layers, by_mlp.mean(axis=0), color=ACCENT, marker="o", markersize=4.5, label="mean over MLPs")
    if floor is not None:
        axes.plot(layers, np.where(floor > 0, floor, np.nan), color=ALARM, linestyle="--", label="noise of the truth")
    axes.set(xlabel="layer", ylabel="mean squared error")
    if _set_scale(axes, by_mlp) == "log":
        shown = [by_mlp[:, -1].min(), *([floor[-1]] if floor is not None and floor[-1] > 0 else [])]
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(shown) / 30))  # an exact first layer would squeeze the rest
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)


def draw_mlp_scores(axes: Axes, results: Json) -> None:
    """Each MLP's part in the score, in order; failed ones stand out."""
    field, measure = case_score(results)
    rows = sorted(results["per_mlp"], key=lambda row: math.inf if row[field] is None else row[field])
    scores = np.array([row[field] for row in rows], dtype=float)
    failed = np.array([has_failed(row) for row in rows])
    places = np.arange(1, len(rows) + 1)
    if np.isfinite(scores).any():
        axes.axhline(float(np.nanmean(scores)), color=INK, linewidth=1, label="mean")
    for is_chosen, colour, label in ((~failed, ACCENT, "answered"), (failed, ALARM, "failed")):
        if is_chosen.any():
            axes.plot(places[is_chosen], scores[is_chosen], "o", markersize=4.5, color=colour, label=label)
    axes.set(xlabel="MLPs, in order of score", ylabel=measure)
    _set_scale(axes, scores[np.isfinite(scores)])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)


def case_score(results: Json) -> tuple[str, str]:
    """The figure of a `per_mlp` row that shows its part in the score, and its name."""
    told = results.get("case_score", {"field": "adjusted_final_layer_score", "label": "adjusted final-layer score"})
    return told["field"], told["label"]


def has_failed(row: Json) -> bool:
    """Whether a `per_mlp` row was scored as zeros."""
    return "error_code" in row or any(value is True for key, value in row.items() if key.endswith("_exhausted"))


def draw_shares(axes: Axes, flops: Sequence[tuple[str, float]], total: float, colours: Sequence[str]) -> None:
    """What each took of the FLOPs, the dearest on top; its share is written beside the bar."""
    bars = axes.barh([name for name, _ in flops], [spent for _, spent in flops], color=colours, height=0.6)
    axes.bar_label(bars, [f"{spent / total:.2%}" for _, spent in flops], padding=4, color=INK)
    axes.grid(visible=False, axis="y")
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set(
        xlabel="FLOPs an MLP",
        xlim=(0, 1.3 * max(spent for _, spent in flops)),
        ylim=(max(len(flops), LEAST_BARS) - 0.5, -0.5),
    )


def draw_layer(axes: Axes, truth: np.ndarray, predicted: np.ndarray, size: float = 2.2) -> None:
    """A dot a neuron: predicted mean against true mean, with the line where they are equal."""
    low, top = min(float(truth.min()), float(predicted.min())), max(float(truth.max()), float(predicted.max()))
    axes.plot([low, top], [low, top], color=MUTED, linewidth=0.8)
    axes.plot(truth, predicted, "o", markersize=size, color=ACCENT, alpha=0.4, markeredgewidth=0)


def draw_layer_residual(axes: Axes, truth: np.ndarray, predicted: np.ndarray) -> None:
    """What prediction against truth is too small to show: their difference."""
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.plot(truth, predicted - truth, "o", markersize=2.6, color=ACCENT, alpha=0.4, markeredgewidth=0)
    axes.set(xlabel="true mean", ylabel="prediction − truth")


def draw_final_layer(axes: Axes, answers: Answers | None) -> None:
    """Every final-layer neuron of every MLP that was answered."""
    axes.set(xlabel="true mean", ylabel="predicted mean")
    if answers is None:
        axes.text(0.5, 0.5, "no MLP was answered", transform=axes.transAxes, ha="center")
    else:
        draw_layer(axes, answers.truth[:, -1].ravel(), answers.predicted[:, -1].ravel())


def _set_scale(axes: Axes, values: np.ndarray) -> str:
    """Logarithmic where every value has a logarithm; its labels as people type them, which is also cheap to draw."""
    known = values[np.isfinite(values)]
    if not known.size or not (known > 0).all():
        return "linear"
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    return "log"
