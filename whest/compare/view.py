"""How a comparison is shown: on the console, and as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whest.compare.comparison import Comparison, Pair, Side, Split
from whest.notation import failed_words, figure, plus_minus
from whest.page.drawing import literal
from whest.page.palette import ACCENT, ALARM, GRID, INK, MUTED, SERIES
from whest.scoring.paired import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAIR_COLUMNS = ("run", "ratio", "difference: t", "bootstrap", "sign-flip p", "wins", "needed", "resolves")


def print_comparison(comparison: Comparison, folder: Path, console: Console) -> None:
    console.print()
    console.print(f"[bold]{escape(comparison.title)}[/], {escape(comparison.metric)}")
    console.print(_table(("run", "mean ± SE", "failed"), _side_rows(comparison)))
    console.print()
    console.print(f"{escape(comparison.sides[0].name)} against", soft_wrap=True)
    console.print(_table(PAIR_COLUMNS[:-1], [row[:-1] for row in pair_rows(comparison)]))
    if comparison.splits:
        console.print()
        console.print(_table(SPLIT_COLUMNS, [split_row(split) for split in comparison.splits]))
    console.print()
    for pair in comparison.pairs:
        colour = "bold green" if pair.is_resolved else "bold yellow"
        console.print(f"[{colour}]{escape(pair.verdict)}[/]", soft_wrap=True)
    for note in (*power_notes(comparison), *comparison.notes):
        console.print(f"note     {escape(note)}", soft_wrap=True)
    console.print(f"saved    {folder / 'comparison.json'}, comparison.png, comparison.html", soft_wrap=True)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if i else "left", no_wrap=i > 0)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _side_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    return [(side.name, side_words(side, comparison.unit), str(side.n_failed)) for side in comparison.sides]


def side_words(side: Side, unit: str) -> str:
    """The side's mean; if every case failed, this fact in its place."""
    if side.all_failed:
        return failed_words(len(side.scores), unit)
    return plus_minus(side.mean, side.standard_error)


def pair_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    return [_pair_row(pair) for pair in comparison.pairs]


def _pair_row(pair: Pair) -> tuple[str, ...]:
    """Where the scores decided how many cases there are, the statistics of a fixed number would be wrong."""
    paired, fixed = pair.paired, pair.fixed
    if fixed is None:
        told = ("–", "–") if pair.has_failed else (figure(paired.ratio), f"{paired.wins} of {paired.n_cases}")
        return (pair.b.name, told[0], "–", "–", "–", told[1], "–", "–")
    return (
        pair.b.name,
        f"{figure(paired.ratio)} {between(paired.ratio_interval)}",
        between(paired.t_interval),
        between(paired.bootstrap_interval),
        "–" if paired.sign_flip_p is None else f"{paired.sign_flip_p:.3g}",
        f"{paired.wins} of {paired.n_cases}",
        "–" if paired.n_needed is None else f"{paired.n_needed:,}",
        "–" if paired.smallest_ratio is None else f"{paired.smallest_ratio:.3g}×",
    )


def power_notes(comparison: Comparison) -> list[str]:
    """What ratio the cases could resolve at all, for each pair whose difference is not resolved."""
    open_pairs = [pair for pair in comparison.pairs if pair.fixed and not pair.is_resolved]
    return [
        f"{pair.paired.n_cases} {comparison.unit}s resolve a ratio of {pair.paired.smallest_ratio:.3g} four times in "
        f"five, if {pair.a.name} and {pair.b.name} spread as they do here"
        for pair in open_pairs
        if pair.paired.smallest_ratio is not None
    ]


SPLIT_COLUMNS = ("estimator", "seeds", "MSE", "bias²", "noise", "noise's share")


def split_row(split: Split) -> tuple[str, ...]:
    error = split.error
    share = "–" if error.noise_share is None else f"{100 * error.noise_share:.3g} %"
    return (
        split.name,
        str(error.n_seeds),
        figure(error.mse),
        plus_minus(error.bias, error.bias_se),
        plus_minus(error.noise, error.noise_se),
        share,
    )


def between(interval: Interval | None) -> str:
    return "–" if interval is None else f"[{interval.low:.3g}, {interval.high:.3g}]"


def draw_comparison(comparison: Comparison) -> "Figure":
    """Left: the two scores of every case. Right: the ratios with their intervals."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, 4.3), layout="constrained")
    left, right = drawn.subplots(1, 2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
    draw_scores(left, comparison)
    draw_ratios(right, comparison)
    return drawn


def draw_scores(axes: "Axes", comparison: Comparison) -> None:
    first = comparison.sides[0]
    for i, side in enumerate(comparison.sides[1:]):
        colour = SERIES[i % len(SERIES)]
        axes.scatter(first.scores, side.scores, s=18, alpha=0.7, color=colour, label=literal(side.name))
    ends = [min(side.scores.min() for side in comparison.sides), max(side.scores.max() for side in comparison.sides)]
    axes.plot(ends, ends, color=INK, linewidth=0.8)
    scale = "log" if ends[0] > 0 else "linear"
    axes.set(
        xscale=scale,
        yscale=scale,
        xlabel=literal(first.name),
        title=f"Each {comparison.unit}'s scores; equal on the line",
    )
    axes.legend(frameon=False)


def draw_ratios(axes: "Axes", comparison: Comparison) -> None:
    shown = [pair for pair in comparison.pairs if pair.paired.ratio is not None and not pair.has_failed]
    for place, pair in enumerate(shown):
        _draw_ratio(axes, place, pair)
    axes.axvline(1, color=INK, linewidth=0.8)
    intervals = [pair.fixed.ratio_interval if pair.fixed else None for pair in shown]
    if all(interval is not None and interval.low > 0 for interval in intervals):
        axes.set_xscale("log")  # so that half and double are equally far from 1
    axes.set_yticks(range(len(shown)), [literal(pair.b.name) for pair in shown])
    axes.set_ylim(-0.8, len(shown) - 0.2)
    axes.invert_yaxis()
    name = literal(comparison.sides[0].name)
    axes.set(
        xlabel=f"mean of {name} over mean of the other",
        title=f"Ratios; all intervals hold with {100 * comparison.confidence:g} %",
    )


def _draw_ratio(axes: "Axes", place: int, pair: Pair) -> None:
    ratio, interval = pair.paired.ratio, pair.fixed.ratio_interval if pair.fixed else None
    colour = ACCENT if pair.is_resolved else MUTED
    if interval is not None:
        axes.plot([interval.low, interval.high], [place, place], color=colour, linewidth=2, marker="|", markersize=12)
    assert ratio is not None
    axes.plot([ratio], [place], marker="o", color=colour if interval else ALARM)
