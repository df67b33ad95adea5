"""The result of every rule on every task: a score, its error and its direction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

Direction = Literal["lower", "higher"]


@dataclass(frozen=True)
class CaseFigure:
    """The figure that shows each case's part in the score. Runs are paired by it, and sweeps find ties by it."""

    field: str
    """The key in a report's row."""
    label: str
    """The name shown to people."""
    unit: str = "MLP"
    """The kind of a case, in the singular; the plural adds an s."""
    direction: Direction = "lower"


@dataclass(frozen=True)
class Front:
    """A run as a point of error against compute."""

    measure: str
    error: float | None
    error_se: float | None
    compute: float | None


@dataclass(frozen=True, kw_only=True)
class Score:
    """The figure that ranks. A rule's own type adds the figures behind it; each number becomes a metric."""

    by_case: ClassVar[CaseFigure]

    score: float | None
    """None if no case was finished."""
    score_se: float | None
    direction: Direction

    @property
    def front(self) -> Front:
        """The error that is drawn against compute. Smaller is better, also if the score ranks the other way."""
        raise NotImplementedError


class Rule(Protocol):
    """A pure function of cases, with its constants as fields."""

    name: ClassVar[str]
    version: ClassVar[int]
    direction: ClassVar[Direction]
    __dataclass_fields__: ClassVar[dict[str, Any]]


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """The mean; None if there are no values or one is missing."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of the mean; None for fewer than two values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
