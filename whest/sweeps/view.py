"""How a sweep is shown: its table on the console, and pictures of score against budget and error against compute."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whest.notation import figure, plus_minus, short_path
from whest.page.drawing import literal
from whest.page.palette import GRID, INK, MUTED, SERIES
from whest.sweeps.table import SweepRow, best_of, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = Sequence[SweepRow]
MARKERS = "osD^vP*X"
MOST_FLOORS, MOST_CURVES = 6, 16
"""With more curves the legend would be longer than the picture: then one colour per estimator, points without lines."""


MOST_PRINTED, MOST_FAILED, MOST_BEST, MOST_TIES = 100, 20, 12, 8
"""A terminal's share of a large sweep: the jobs of the table, the failed ones among them, the lines below it, and the
jobs that a line names."""


def print_sweep(rows: Rows, best: list[str], console: Console) -> None:
    """The table and the best jobs. Of a sweep of many jobs only a part, and where the rest is."""
    table = Table(box=None, header_style="bold", title=f"sweep of {len(rows)} jobs", title_justify="left")
    for column in ("job", "estimator", "budget", "score", "failed", "best", "status"):
        table.add_column(column, justify="left" if column in ("estimator", "best", "status") else "right")
    shown = printed(rows)
    for row in shown:
        table.add_row(
            str(row.job),
            escape(row.label or row.overrides),
            figure(row.flop_budget),
            plus_minus(row.score, row.score_se),
            "" if row.n_failed is None else str(row.n_failed),
            row.best or "",
            " ".join(filter(None, (row.status, row.problem and f"({escape(row.problem)})"))),
        )
    console.print(table)
    if len(shown) < len(rows):
        console.print(f"{len(rows) - len(shown)} more jobs are in sweep.csv and on the page", soft_wrap=True)
    for line in best:
        console.print(escape(line), soft_wrap=True)


def printed(rows: Rows) -> list[SweepRow]:
    """The rows for a terminal, by budget and score. Of many: first the unfinished ones, then the best."""
    ranked = sorted(rows, key=lambda row: (row.flop_budget or 0, row.score if row.score is not None else 9e99))
    if len(ranked) <= MOST_PRINTED:
        return ranked
    failed = [row for row in ranked if row.status != "finished"][:MOST_FAILED]
    best = [row for row in ranked if row.best == "best" and row.status == "finished"]
    others = [row for row in ranked if row.best != "best" and row.status == "finished"]
    chosen = {row.job for row in [*failed, *best, *others][:MOST_PRINTED]}
    return [row for row in ranked if row.job in chosen]


def print_places(folder: Path, console: Console) -> None:
    made = [
        path.name
        for path in (folder / "sweep.csv", folder / "sweep.html", *sorted(folder.glob("*.png")))
        if path.exists()
    ]
    console.print(f"saved    {short_path(folder)}: {', '.join(made)}", soft_wrap=True)


def save_figures(rows: Rows, folder: Path) -> list[Path]:
    from matplotlib.figure import Figure

    paths = []
    for name, draw in FIGURES.items():
        drawn = Figure(figsize=(7, 4.3), layout="constrained")
        axes = drawn.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
        draw(axes, rows)
        paths.append(folder / f"{name}.png")
        drawn.savefig(paths[-1], dpi=130)
    return paths


def draw_score_against_budget(axes: "Axes", rows: Rows) -> None:
    """Curves with a band of one standard error. Dotted: the floor, the score of the same error at no cost."""
    shown = [row for row in rows if row.score is not None and row.flop_budget]
    for label, colour, marker, points in _curves(shown):
        budgets, scores = [row.flop_budget for row in points], [row.score for row in points]
        errors = [row.score_se or 0.0 for row in points]
        low = [max(s - e, s / 100 if s > 0 else s - e) for s, e in zip(scores, errors, strict=True)]  # type: ignore[operator]
        high = [s + e for s, e in zip(scores, errors, strict=True)]  # type: ignore[operator]
        line = "-" if _few_curves(shown) else "none"
        axes.plot(budgets, scores, marker=marker, linestyle=line, color=colour, label=literal(label))  # type: ignore[arg-type]
        if line == "-":
            axes.fill_between(budgets, low, high, color=colour, alpha=0.2, linewidth=0)  # type: ignore[arg-type]
            floors = [(row.multiplier_floor or 0) * (row.error or 0) for row in points]
            if all(floors):
                axes.plot(budgets, floors, linestyle=":", color=colour, linewidth=1)  # type: ignore[arg-type]
    sampling = sorted({(row.flop_budget, row.sampling_mse_at_budget) for row in shown if row.sampling_mse_at_budget})
    if len({budget for budget, _ in sampling}) == len(sampling) > 0:
        axes.plot(*zip(*sampling, strict=True), color=INK, linestyle="--", linewidth=1, label="plain sampling")
    dotted = " (dotted: the score of the same error at no cost)" if any(r.multiplier_floor for r in shown) else ""
    title = f"Score against budget{dotted}"
    _finish(axes, [row.score for row in shown], "budget (FLOPs)", "score ± SE", title)


def draw_error_against_compute(axes: "Axes", rows: Rows) -> None:
    """The error of each job against its compute, for all budgets. A line joins the Pareto front."""
    shown = [row for row in rows if row.error and row.compute]
    for label, colour, marker, points in _curves(shown):
        computes, errors = [row.compute for row in points], [row.error for row in points]
        bars = [row.error_se or 0.0 for row in points]
        axes.errorbar(computes, errors, bars, fmt=marker, color=colour, capsize=3, label=literal(label))  # type: ignore[arg-type]
    front = sorted((row.compute, row.error) for row in shown if row.on_front)
    if front:
        axes.plot(*zip(*front, strict=True), drawstyle="steps-post", color=INK, linewidth=1, label="Pareto front")
    _draw_sampling(axes, shown)
    floors = sorted({(row.flop_budget or 0) * (row.multiplier_floor or 0) for row in shown} - {0})
    for i, floor in enumerate(floors if len(floors) <= MOST_FLOORS else []):
        axes.axvline(floor, color=MUTED, linestyle=":", label=None if i else "floor of a budget: less gains nothing")
    heights = [row.error for row in shown]
    measures = " / ".join(dict.fromkeys(row.measure or "error" for row in shown)) or "error"
    _finish(axes, heights, "effective compute (FLOPs)", f"{measures} ± SE", "Error against compute")


def _draw_sampling(axes: "Axes", rows: Rows) -> None:
    """The MSE of plain sampling at any compute: for one dataset, MSE times compute is constant."""
    prices = {(row.sampling_mse_at_budget or 0) * (row.flop_budget or 0) for row in rows} - {0}
    if not prices or max(prices) > 1.01 * min(prices):
        return
    ends = [min(row.compute or 0 for row in rows), max(row.flop_budget or 0 for row in rows)]
    heights = [max(prices) / end for end in ends]
    axes.plot(ends, heights, color=INK, linestyle="--", linewidth=1, label="plain sampling")


FIGURES: dict[str, Callable[["Axes", Rows], None]] = {
    "score_against_budget": draw_score_against_budget,
    "error_against_compute": draw_error_against_compute,
}


def _few_curves(rows: Rows) -> bool:
    return len({row.label for row in rows}) <= MOST_CURVES


def _curves(rows: Rows) -> list[tuple[str, str, str, list[SweepRow]]]:
    """For each curve: label, colour, marker, and its points in order of budget."""
    names = [(row.label if _few_curves(rows) else row.estimator) or "" for row in rows]
    found = []
    for i, name in enumerate(dict.fromkeys(names)):
        points = [row for row, own in zip(rows, names, strict=True) if own == name]
        points.sort(key=lambda row: row.flop_budget or 0)
        found.append((name, SERIES[i % len(SERIES)], MARKERS[i // len(SERIES) % len(MARKERS)], points))
    return found


def _finish(axes: "Axes", heights: Sequence[float | None], x: str, y: str, title: str) -> None:
    is_log = bool(heights) and all(height is not None and height > 0 for height in heights)
    axes.set(xscale="log", yscale="log" if is_log else "linear", xlabel=x, ylabel=y, title=title)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    else:
        axes.text(0.5, 0.5, "no job has this figure", transform=axes.transAxes, ha="center")


def best_lines(rows: Rows) -> list[str]:
    """One sentence per budget: the best job, and the jobs that are not resolved from it."""
    lines, best = [], best_of(rows)
    for row, ties in spread(best, MOST_BEST):
        names = [other.label or "" for other in ties]
        more = f" and {len(names) - MOST_TIES} more" if len(names) > MOST_TIES else ""
        tied = f", not resolved from {', '.join(names[:MOST_TIES])}{more}" if ties else ""
        lines.append(f"best at {figure(row.flop_budget)}: {row.label}, {plus_minus(row.score, row.score_se)}{tied}")
    if len(best) > MOST_BEST:
        lines.append(f"{len(best) - MOST_BEST} more protocols have a best job: sweep.csv marks it")
    return lines


def best_words(rows: Rows) -> str:
    """The best score in one cell; of several budgets, the first and the last."""
    best = [row for row, _ in best_of(rows)]
    if len(best) < 2:
        return f"best {plus_minus(best[0].score, best[0].score_se)}" if best else "no score"
    return f"best {figure(best[0].score)} … {figure(best[-1].score)}, {len(best)} protocols"
