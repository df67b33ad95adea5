"""What a sweep varied: the axis of its chart, its curves, and its seeds, which are folded into a mean."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whest.sweeps.table import SweepRow

SEEDS = ("seed", "estimator.seed", "dataset.seed")
BUDGET = "budget"
MOST_FACETS = 9
"""The most charts beside each other, one per value of a key."""


@dataclass(frozen=True)
class Point:
    """The jobs that differ only in their seed: their mean score and its error."""

    curve: str
    x: float | None
    """The value of the axis; None if the sweep has no numeric axis."""
    score: float
    error: float | None
    rows: Sequence[SweepRow]

    @property
    def words(self) -> str:
        """The jobs of the point, for a reader who points at it."""
        jobs = ", ".join(str(row.job) for row in self.rows[:8])
        return f"job {jobs}" if len(self.rows) == 1 else f"{len(self.rows)} seeds, jobs {jobs}"


def words_of(row: SweepRow) -> dict[str, str]:
    """The overrides of a job, by key. The estimator's own keys are there too."""
    pairs = (word.partition("=") for word in row.overrides.split())
    return {key.lstrip("+"): value for key, sign, value in pairs if sign}


def varied(rows: Sequence[SweepRow]) -> list[str]:
    """The keys whose values differ between jobs, in the order of the command."""
    words = [words_of(row) for row in rows]
    keys = dict.fromkeys(key for own in words for key in own)
    return [key for key in keys if len({own.get(key) for own in words}) > 1]


def axis_of(rows: Sequence[SweepRow]) -> str | None:
    """The key of the axis: the budget if it varies, else the first varied key with only numbers; no seed."""
    keys = [key for key in varied(rows) if key not in SEEDS]
    numeric = [key for key in keys if all(_number(words_of(row).get(key)) is not None for row in rows)]
    if len({row.flop_budget for row in rows}) > 1:
        return BUDGET
    return numeric[0] if numeric else None


def facets_of(rows: Sequence[SweepRow]) -> dict[str, list[SweepRow]]:
    """The rows by the value of one more key, if three or more keys vary: one chart per value. Else no facets."""
    axis = axis_of(rows)
    keys = [key for key in varied(rows) if key not in (*SEEDS, axis)]
    values = {key: list(dict.fromkeys(words_of(row).get(key) for row in rows)) for key in keys}
    chosen = min(keys, key=lambda key: len(values[key]), default=None)
    if axis is None or chosen is None or len(keys) < 2 or len(values[chosen]) > MOST_FACETS:
        return {}
    return {
        f"{_short(chosen)}={value}": [row for row in rows if words_of(row).get(chosen) == value]
        for value in values[chosen]
    }


def points_of(rows: Sequence[SweepRow]) -> list[Point]:
    """One point per job, or per group of jobs that differ only in their seed; by curve and place."""
    scored = [row for row in rows if row.score is not None]
    axis, keys = axis_of(scored), varied(scored)
    curves = [key for key in keys if key not in (*SEEDS, axis, BUDGET, "estimator")]
    groups: dict[tuple[str, float | None], list[SweepRow]] = {}
    for row in scored:
        own = words_of(row)
        name = " ".join([row.estimator or "", *(f"{_short(key)}={own[key]}" for key in curves if key in own)])
        place = None if axis is None else row.flop_budget if axis == BUDGET else _number(own.get(axis))
        groups.setdefault((name, place), []).append(row)
    found = [_point(curve, x, group) for (curve, x), group in groups.items()]
    names = list(dict.fromkeys(point.curve for point in found))
    return sorted(found, key=lambda point: (names.index(point.curve), point.x if point.x is not None else 0.0))


def _point(curve: str, x: float | None, group: Sequence[SweepRow]) -> Point:
    """The mean over the seeds. Its error comes from their spread; that of a single job is the job's own."""
    scores = np.array([row.score for row in group], dtype=float)
    error = float(scores.std(ddof=1)) / math.sqrt(len(scores)) if len(scores) > 1 else group[0].score_se
    return Point(curve, x, float(scores.mean()), error, tuple(group))


def _short(key: str) -> str:
    return key.removeprefix("estimator.")


def _number(word: str | None) -> float | None:
    try:
        value = float(word or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
