"""A comparison's page: the verdict, the ratios with their intervals, and the scores of every case."""

from collections.abc import Sequence
from pathlib import Path

from whest.compare.comparison import Comparison, Pair
from whest.compare.differences import difference_blocks, layer_blocks, page_link, run_facts
from whest.compare.entrants import Entrant
from whest.compare.view import PAIR_COLUMNS, SPLIT_COLUMNS, pair_rows, power_notes, split_row
from whest.notation import figure
from whest.page import (
    Axis,
    Block,
    Cell,
    Chart,
    Code,
    Column,
    Guide,
    Headline,
    Interval,
    Intervals,
    Page,
    Section,
    Series,
    Table,
    Text,
)
from whest.page.blocks import COLOURS, Tone, Value


def comparison_page(
    comparison: Comparison, command: str, entrants: Sequence[Entrant] = (), folder: Path | None = None
) -> Page:
    """The page of a comparison in `folder`. `entrants` are the runs behind it, whose pages it links to."""
    first = comparison.pairs[0]
    sections: dict[str, Sequence[Block]] = {
        f"Each {comparison.unit}": [_case_chart(comparison), _difference_chart(comparison), _ratio_table(comparison)],
        f"{comparison.unit}s": [_case_table(comparison, entrants, folder)],
        "By layer": layer_blocks(entrants) if entrants else [],
        "Bias and noise": _splits(comparison),
        "Config and source": difference_blocks(entrants) if entrants else [],
        "Runs": [run_facts(entrants, folder)] if entrants else [],
        "Reproduce": [Code(command, "The command that repeats it.")],
    }
    return Page(
        " against ".join(s.name for s in comparison.sides),
        comparison.title,
        [
            _headline(first),
            *[Text(pair.verdict) for pair in comparison.pairs[1:]],
            *[Text(note) for note in power_notes(comparison)],
            *[Text(note, "warn") for note in comparison.notes],
            *_ratios(comparison),
            *(Section(title, blocks) for title, blocks in sections.items() if blocks),
        ],
        kind="comparison",
    )


def ratio_words(pair: Pair) -> str:
    """The ratio of the means with its interval, in a sentence."""
    ratio, interval = pair.paired.ratio, pair.paired.ratio_interval
    if ratio is None or interval is None or pair.has_failed:
        return ""
    level = f"{100 * pair.paired.confidence:.3g} %"
    return (
        f"The mean of {pair.a.name} is {figure(ratio)} times that of {pair.b.name}; with {level} it is between "
        f"{figure(interval.low)} and {figure(interval.high)} times."
    )


def _ratio_table(comparison: Comparison) -> Table:
    level = f"{100 * comparison.pairs[0].paired.confidence:.3g} %"
    caption = f"{comparison.sides[0].name} against each, {level} intervals"
    return Table(PAIR_COLUMNS, pair_rows(comparison), caption)


def _case_table(comparison: Comparison, entrants: Sequence[Entrant], folder: Path | None) -> Table:
    """The scores of every case, each with a link to its run's page, and the differences from the first run."""
    first, *others = comparison.sides
    pages = {one.name: page_link(one, folder) for one in entrants}
    links = {name: f"{page}#{comparison.unit.lower()}s" for name, page in pages.items() if page is not None}
    columns: list[Column | str] = [comparison.unit, *(Column(side.name, is_numeric=True) for side in comparison.sides)]
    columns += [Column(f"{first.name} − {side.name}", is_numeric=True) for side in others]
    rows: list[Sequence[Value | Cell]] = [
        (
            case,
            *(
                Cell(f"{side.scores[i]:#.3g}", sort=float(side.scores[i]), href=links.get(side.name))
                for side in comparison.sides
            ),
            *(float(first.scores[i] - side.scores[i]) for side in others),
        )
        for i, case in enumerate(comparison.cases)
    ]
    how = " A figure leads to its run's page." if links else ""
    return Table(columns, rows, f"{comparison.metric} of each {comparison.unit}.{how}")


def _splits(comparison: Comparison) -> list[Block]:
    rows = [split_row(split) for split in comparison.splits]
    return [Table(SPLIT_COLUMNS, rows, "Bias, and the noise that averages out over seeds")] if rows else []


def _headline(pair: Pair) -> Headline:
    """The verdict in large letters. What limits it, the interval of a decision or the ratio in words stands below."""
    cut = ": the " if pair.decision is not None else "; "
    value, _, note = pair.verdict.partition(cut)
    tone: Tone = "good" if pair.is_resolved else "warn"
    words = (cut.lstrip(":; ") + note) if note else ""
    ratio = ratio_words(pair) if pair.decision is None else ""
    return Headline("verdict", value, f"{words}. {ratio}" if words and ratio else words or ratio, tone)


def _ratios(comparison: Comparison) -> list[Block]:
    """The ratio of the means with its interval, one row per pair. Left of the line the first run has less."""
    rows = [_ratio(pair) for pair in comparison.pairs if pair.paired.ratio is not None and not pair.has_failed]
    caption = (
        f"Mean of {comparison.sides[0].name} over the mean of the other; the line is 1, where both are equal. "
        f"All intervals hold together with {100 * comparison.confidence:g} %."
    )
    return [Intervals(rows, caption, is_log=True, mark=1.0)] if rows else []


def _ratio(pair: Pair) -> Interval:
    ratio, interval = pair.paired.ratio or 0.0, pair.fixed.ratio_interval if pair.fixed else None
    low, high = (interval.low, interval.high) if interval else (ratio, ratio)
    text = f"{figure(ratio)}, from {figure(low)} to {figure(high)}" if interval else f"{figure(ratio)}, no interval"
    return Interval(pair.b.name, ratio, low, high, text, "accent" if pair.is_resolved else "muted")


def _case_chart(comparison: Comparison) -> Chart:
    """The two scores of every case; on the line they are equal."""
    first, others = comparison.sides[0], comparison.sides[1:]
    ends = [float(min(side.scores.min() for side in comparison.sides))]
    ends.append(float(max(side.scores.max() for side in comparison.sides)))
    is_log = ends[0] > 0
    series = [
        Series(
            side.name,
            first.scores.tolist(),
            side.scores.tolist(),
            "points",
            COLOURS[i % len(COLOURS)],
            names=comparison.cases,
        )
        for i, side in enumerate(others)
    ]
    equal = Series("equal", ends, ends, "line", "ink", is_faint=True)
    return Chart(
        Axis(first.name, is_log=is_log),
        Axis(others[0].name if len(others) == 1 else "the other", is_log=is_log),
        [*series, equal],
        alt=f"The scores of {first.name} against the others on each of {len(comparison.cases)} {comparison.unit}s.",
        caption=f"Each {comparison.unit}'s two scores. On the line they are equal.",
    )


def _difference_chart(comparison: Comparison) -> Chart:
    """The difference of the scores on every case, in order."""
    first = comparison.sides[0]
    series = []
    for i, side in enumerate(comparison.sides[1:]):
        differences = first.scores - side.scores
        order = differences.argsort()
        series.append(
            Series(
                f"{first.name} − {side.name}",
                list(range(1, len(order) + 1)),
                differences[order].tolist(),
                "points",
                COLOURS[i % len(COLOURS)],
                names=[comparison.cases[place] for place in order],
            )
        )
    return Chart(
        Axis(f"{comparison.unit}s, in order of the difference", is_integer=True),
        Axis(f"difference of {comparison.metric.replace('_', ' ')}"),
        series,
        alt=f"The differences of the scores on {len(comparison.cases)} {comparison.unit}s, in order.",
        caption=f"{first.name} minus the other, on each {comparison.unit}.",
        guides=[Guide("no difference", y=0.0, is_dashed=False)],
    )
