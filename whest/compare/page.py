"""A comparison's page: the verdict, the ratios with their intervals, and the scores of every case."""

from whest.compare.comparison import Comparison, Pair
from whest.compare.view import PAIR_COLUMNS, SPLIT_COLUMNS, pair_rows, power_notes, split_row
from whest.notation import figure
from whest.page import (
    Axis,
    Block,
    Chart,
    Code,
    Guide,
    Headline,
    Interval,
    Intervals,
    Page,
    Series,
    Table,
    Text,
)
from whest.page.blocks import COLOURS, Tone


def comparison_page(comparison: Comparison, command: str) -> Page:
    first = comparison.pairs[0]
    name, level = comparison.sides[0].name, f"{100 * first.paired.confidence:.3g} %"
    blocks: list[Block] = [
        _headline(first),
        *[Text(pair.verdict) for pair in comparison.pairs[1:]],
        *_ratios(comparison),
        _case_chart(comparison),
        _difference_chart(comparison),
        Table(PAIR_COLUMNS, pair_rows(comparison), f"{name} against each, {level} intervals"),
        Table(
            (comparison.unit, *(side.name for side in comparison.sides)),
            [(case, *(float(side.scores[i]) for side in comparison.sides)) for i, case in enumerate(comparison.cases)],
            comparison.metric,
        ),
    ]
    if comparison.splits:
        rows = [split_row(split) for split in comparison.splits]
        blocks.append(Table(SPLIT_COLUMNS, rows, "Bias, and the noise that averages out over seeds"))
    blocks += [Text(note) for note in (*power_notes(comparison), *comparison.notes)]
    blocks.append(Code(command, "The command that repeats it."))
    return Page(" against ".join(s.name for s in comparison.sides), comparison.title, blocks, kind="comparison")


def _headline(pair: Pair) -> Headline:
    """The verdict in large letters. What limits it, or the interval of a decision, stands below."""
    cut = ": the " if pair.decision is not None else "; "
    value, _, note = pair.verdict.partition(cut)
    tone: Tone = "good" if pair.is_resolved else "warn"
    return Headline("verdict", value, (cut.lstrip(":; ") + note) if note else "", tone)


def _ratios(comparison: Comparison) -> list[Block]:
    """The ratio of the means with its interval, one row per pair. Left of the line the first run has less."""
    rows = [_ratio(pair) for pair in comparison.pairs if pair.paired.ratio is not None]
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
