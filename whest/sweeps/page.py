"""A sweep's page: the best job at each budget and how sure that is, the curves, and every job."""

from collections.abc import Sequence
from typing import Any

from whest.document import PAGE
from whest.notation import figure, plus_minus
from whest.page import (
    Axis,
    Block,
    Cell,
    Chart,
    Code,
    Column,
    Fact,
    Facts,
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
from whest.page.blocks import COLOURS
from whest.sweeps.axes import BUDGET, SEEDS, Point, axis_of, facets_of, points_of
from whest.sweeps.table import SweepRow, best_of, spread

Rows = Sequence[SweepRow]
MOST_FACTS, MOST_FLOORS, MOST_INTERVALS = 12, 6, 40


RELOAD_S = 5
"""How often a browser loads the page of a running sweep."""


def sweep_page(rows: Rows, title: str, command: str = "", n_jobs: int | None = None, is_running: bool = False) -> Page:
    """The page. While the sweep runs, it has the finished jobs, and the browser loads it anew every few seconds."""
    n_open = sum(row.status != "finished" for row in rows)
    blocks: list[Block] = [_headline(rows)]
    if n_open:
        blocks.insert(0, Text(f"{n_open} of {len(rows)} jobs are not finished; the table says why.", "warn"))
    if is_running:
        of = f" of {n_jobs}" if n_jobs is not None else ""
        blocks.insert(
            0, Text(f"The sweep is running: {len(rows)}{of} jobs are done. This page reloads every {RELOAD_S} s.")
        )
    charts: list[Block] = [block for block in (*_score_blocks(rows), _front_chart(rows)) if block is not None]
    dates = sorted(row.started_at for row in rows if row.started_at)
    datasets = ", ".join(dict.fromkeys(row.dataset for row in rows if row.dataset))
    when = f" · {dates[0][:16].replace('T', ' ')} UTC" if dates else ""
    made: list[Block] = [Code(command, "The command.")] if command else []
    protocols = list(dict.fromkeys(row.protocol_hash for row in rows if row.protocol_hash))
    made.append(Facts([("protocol", protocol) for protocol in protocols[:8]]))
    sections = [Section("Score", charts), Section("Jobs", [_table(rows)]), Section("Reproduce", made)]
    subtitle = f"{len(rows)} jobs{f' on {datasets}' if datasets else ''}{when}"
    return Page(title, subtitle, [*blocks, *sections], kind="sweep", reload_s=RELOAD_S if is_running else None)


def title_of(rows: Rows, folder: str) -> str:
    """What was varied, as the page's title; the folder's name if nothing was."""
    found: dict[str, set[str]] = {}
    for word in (word for row in rows for word in row.overrides.split()):
        key, _, value = word.lstrip("+").partition("=")
        found.setdefault(key.removeprefix("estimator."), set()).add(value)
    varied = [key for key, values in found.items() if len(values) > 1]
    return f"sweep of {', '.join(varied)}" if varied else f"sweep {folder}"


def _headline(rows: Rows) -> Headline:
    """Which job is best at each budget, and whether that is sure."""
    best = best_of(rows)
    if not best:
        return Headline("best", "none", "no job has a score", "bad")
    if len(best) == 1:
        top, ties = best[0]
        return Headline(f"best of {len(rows)} jobs", without_seed(top), f"{_score(top)}; {_sure(top, ties)}")
    winners = list(dict.fromkeys(without_seed(top) for top, _ in best))
    everywhere = f"{winners[0]}, at every budget" if len(winners) == 1 else f"{len(winners)} jobs, by budget"
    facts = [
        Fact(f"best at {figure(top.flop_budget)} FLOPs", without_seed(top), f"{_score(top)}; {_sure(top, ties)}")
        for top, ties in spread(best, MOST_FACTS)
    ]
    part = f"; {len(facts)} of the budgets are shown" if len(facts) < len(best) else ""
    return Headline("best at each budget", everywhere, f"{len(best)} protocols, {len(rows)} jobs{part}", facts=facts)


def _score(row: SweepRow) -> str:
    return f"score {plus_minus(row.score, row.score_se)}"


def _sure(top: SweepRow, ties: Rows) -> str:
    """Whether the difference from all others is resolved. Another seed of the same job is no other."""
    others = list(dict.fromkeys(without_seed(row) for row in ties))
    names = [name for name in others if name != without_seed(top)]
    return f"not resolved from {', '.join(names[:4])}" if names else "clearly the best"


def without_seed(row: SweepRow) -> str:
    """The job's label without the words that choose its seed."""
    words = (row.label or "").split()
    return " ".join(word for word in words if word.partition("=")[0] not in SEEDS)


def _score_blocks(rows: Rows) -> list[Block]:
    """The score along the axis of the sweep; without one, the scores one below the other."""
    points, axis = points_of(rows), axis_of([row for row in rows if row.score is not None])
    if not points:
        return [Text("No job has a score.")]
    if not axis:
        return [_score_intervals(points, rows)]
    facets = facets_of([row for row in rows if row.score is not None])
    if not facets:
        return [_score_chart(points, axis, rows)]
    scores = [point.score for point in points]
    ends = (min(scores), max(scores))
    return [_score_chart(points_of(group), axis, group, name, ends) for name, group in facets.items()]


def _score_intervals(points: Sequence[Point], rows: Rows) -> Intervals:
    is_lower = rows[0].lower_is_better
    ranked = sorted(points, key=lambda point: point.score if is_lower else -point.score)[:MOST_INTERVALS]
    found = [
        Interval(
            point.curve,
            point.score,
            point.score - (point.error or 0),
            point.score + (point.error or 0),
            plus_minus(point.score, point.error),
        )
        for point in ranked
    ]
    wide = max(point.score for point in points) > 20 * min(point.score for point in points)
    better = "lower" if is_lower else "higher"
    which = f"The best {len(found)} of {len(points)} scores" if len(found) < len(points) else "Scores, the best first"
    return Intervals(found, f"{which}; {better} is better. Bars are one standard error.", is_log=wide)


def _score_chart(
    points: Sequence[Point], axis: str, rows: Rows, facet: str = "", ends: tuple[float, float] | None = None
) -> Chart:
    """Curves with a band of one standard error, and plain sampling at each budget.

    `facet` names the jobs of one of several charts, which share the scale `ends`.
    """
    names = list(dict.fromkeys(point.curve for point in points))
    series = [_curve(name, [p for p in points if p.curve == name], i) for i, name in enumerate(names)]
    places = [point.x for point in points if point.x is not None]
    is_budget = axis == BUDGET
    sampling = sorted({(r.flop_budget, r.sampling_mse_at_budget) for r in rows if r.sampling_mse_at_budget})
    if is_budget and len({budget for budget, _ in sampling}) == len(sampling) > 1:
        xs, ys = zip(*sampling, strict=True)
        series.append(Series("plain sampling", xs, ys, "line", "ink", is_dashed=True))
    is_spread = min(places) > 0 and (is_budget or max(places) > 20 * min(places))
    label = "budget (FLOPs)" if is_budget else axis
    folded = " Seeds are folded: mean ± standard error over them." if any(len(p.rows) > 1 for p in points) else ""
    return Chart(
        Axis(label, is_log=is_spread),
        Axis("score", is_log=(ends[0] if ends else min(p.score for p in points)) > 0, **_scale(ends)),
        series,
        alt=f"Score against {label}{f' for {facet}' if facet else ''}, {len(names)} curves.",
        caption=f"{f'{facet}: s' if facet else 'S'}core against {label}, with a band of one standard error.{folded}",
    )


def _scale(ends: tuple[float, float] | None) -> dict[str, Any]:
    """The ends of a scale that several charts share, with some room."""
    if ends is None or ends[0] == ends[1]:
        return {}
    low, high = ends
    if low > 0:
        room = (high / low) ** 0.08
        return {"low": low / room, "high": high * room}
    return {"low": low - 0.08 * (high - low), "high": high + 0.08 * (high - low)}


def _curve(name: str, points: Sequence[Point], i: int) -> Series:
    return Series(
        name,
        [point.x or 0.0 for point in points],
        [point.score for point in points],
        colour=COLOURS[i % len(COLOURS)],
        low=[point.score - (point.error or 0) for point in points],
        high=[point.score + (point.error or 0) for point in points],
        is_band=len(points) > 1,
        names=[name] * len(points),
        notes=[point.words for point in points],
    )


def _front_chart(rows: Rows) -> Chart | None:
    """The error of each job against its compute. A line joins the Pareto front."""
    shown = [row for row in rows if row.error and row.compute]
    if not shown:
        return None
    names = list(dict.fromkeys(row.estimator or "" for row in shown))
    series = [_jobs(name, [r for r in shown if r.estimator == name], i) for i, name in enumerate(names)]
    front = sorted((row.compute or 0.0, row.error or 0.0) for row in shown if row.on_front)
    if front:
        xs, ys = zip(*front, strict=True)
        series.append(Series("Pareto front", xs, ys, "steps", "ink", is_faint=True))
    series += _sampling(shown)
    floors = sorted(
        {(row.flop_budget, row.multiplier_floor) for row in shown if row.flop_budget and row.multiplier_floor}
    )
    guides = [Guide(f"floor of budget {figure(budget)}", x=budget * floor, colour="muted") for budget, floor in floors]
    measures = " / ".join(dict.fromkeys(row.measure or "error" for row in shown))
    return Chart(
        Axis("effective compute (FLOPs)", is_log=True),
        Axis(measures, is_log=True),
        series,
        alt=f"{measures} against compute for {len(shown)} jobs; {len(front)} are on the Pareto front.",
        caption="Error against compute, for all budgets. Left of a budget's floor, less compute gains nothing.",
        guides=guides if len(guides) <= MOST_FLOORS else [],
    )


def _jobs(name: str, rows: Rows, i: int) -> Series:
    return Series(
        name,
        [row.compute or 0.0 for row in rows],
        [row.error for row in rows],
        "points",
        COLOURS[i % len(COLOURS)],
        low=[(row.error or 0.0) - (row.error_se or 0.0) for row in rows],
        high=[(row.error or 0.0) + (row.error_se or 0.0) for row in rows],
        names=[row.label or "" for row in rows],
        notes=[f"job {row.job}, budget {figure(row.flop_budget)}" for row in rows],
    )


def _sampling(rows: Rows) -> list[Series]:
    """The MSE of plain sampling at any compute: for one dataset, MSE times compute is constant."""
    prices = {(row.sampling_mse_at_budget or 0) * (row.flop_budget or 0) for row in rows} - {0}
    if not prices or max(prices) > 1.01 * min(prices):
        return []
    ends = [min(row.compute or 0 for row in rows), max(row.flop_budget or 0 for row in rows)]
    return [Series("plain sampling", ends, [max(prices) / end for end in ends], "line", "ink", is_dashed=True)]


COLUMNS: tuple[Column | str, ...] = (
    Column("job", "a link to the run's page"),
    "estimator",
    "budget",
    Column("score", is_numeric=True),
    "± SE",
    "error",
    "of",
    "compute",
    "best",
    "front",
    "status",
    "problem",
)


def _table(rows: Rows) -> Table:
    """Every job, the best score first; jobs without a score last."""
    sign = 1 if not rows or rows[0].lower_is_better else -1
    ranked = sorted(rows, key=lambda row: (row.score is None, sign * (row.score or 0.0)))
    return Table(COLUMNS, [_row(row) for row in ranked], "Every job, the best score first.")


def _row(row: SweepRow) -> tuple[str | float | Cell | None, ...]:
    """A row of the table. The number of a finished job links to the page in its folder."""
    return (
        Cell(str(row.job), row.job, href=f"{row.job}/{PAGE}") if row.score is not None else row.job,
        row.label or row.overrides,
        row.flop_budget,
        row.score,
        row.score_se,
        row.error,
        row.measure or "",
        row.compute,
        row.best or "",
        "front" if row.on_front else "",
        row.status,
        row.problem or "",
    )
