"""What every rule answers, whatever its task: a score, its error and its direction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Direction = Literal["lower", "higher"]


@dataclass(frozen=True, kw_only=True)
class Score:
    """The figure that ranks. A rule's own type adds the figures behind it; each number of it becomes a metric."""

    score: float | None
    """Null where nothing was finished."""
    score_se: float | None
    direction: Direction


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """The mean; null where there is nothing, or one figure is missing."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def standard_error(values: Sequence[float]) -> float | None:
    """Of their mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
