"""The recipe: how a learner is trained and which candidate faces the exam. Candidates are only ever added.

Choosing a model is part of what is measured, so it is the recipe's alone: the candidate promoted last before the
deadline is graded, whatever any other one did on the public validation set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from whest.cases.exam import Candidate, Entry, Promotion


@dataclass(frozen=True)
class Recipe:
    """`recipe.*`: in how many calls a learner is trained, on rows of which length, and what is promoted."""

    calls: Annotated[int, Field(ge=1, le=1000)]
    """Training calls, each with an equal share of what is left; a candidate is packaged after each."""
    row_length: Annotated[int, Field(ge=2, le=1025)]
    """Bytes of a training row, and the window that answers are given in: BOS and the bytes before the answer."""
    promote: Literal["last", "none"] | Annotated[int, Field(ge=1)]
    """last: each candidate as it is packaged, so that the latest counts; N: the N-th alone; none: nothing."""

    def promotes(self, candidate: int) -> bool:
        return self.promote == "last" or self.promote == candidate


def graded_candidate(history: Sequence[Entry], deadline_s: float | None) -> int | None:
    """The candidate that faces the exam: the latest promotion at the deadline; null where nothing was promoted."""
    packaged: set[int] = set()
    chosen = None
    for entry in history:
        if isinstance(entry, Candidate):
            packaged.add(entry.number)
        if isinstance(entry, Promotion) and entry.candidate in packaged:
            chosen = entry.candidate if deadline_s is None or entry.at_s <= deadline_s else chosen
    return chosen
