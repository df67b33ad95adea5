"""The recipe: how a learner is trained, and which candidate takes the exam. Candidates are added and never removed.

The choice of the model is part of the measurement, so only the recipe makes it: the candidate promoted last before the
deadline is graded, also if another one was better on the public validation set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from whest.cases.exam import Candidate, Entry, Promotion


@dataclass(frozen=True)
class Recipe:
    """`task.recipe`: the number of training calls, the length of rows, and the promoted candidate."""

    calls: Annotated[int, Field(ge=1, le=1000)]
    """The number of training calls. Each gets an equal share of the remaining budget and makes one candidate."""
    row_length: Annotated[int, Field(ge=2, le=1025)]
    """Bytes per training row, and the window for an answer: BOS and the bytes before it."""
    promote: Literal["last", "none"] | Annotated[int, Field(ge=1)]
    """last: promote every candidate, so that the last one counts; N: only candidate N; none: no candidate."""

    def promotes(self, candidate: int) -> bool:
        return self.promote == "last" or self.promote == candidate


def graded_candidate(history: Sequence[Entry], deadline_s: float | None) -> int | None:
    """The candidate that takes the exam: the last one promoted before the deadline; None if none was promoted."""
    packaged: set[int] = set()
    chosen = None
    for entry in history:
        if isinstance(entry, Candidate):
            packaged.add(entry.number)
        if isinstance(entry, Promotion) and entry.candidate in packaged:
            chosen = entry.candidate if deadline_s is None or entry.at_s <= deadline_s else chosen
    return chosen
