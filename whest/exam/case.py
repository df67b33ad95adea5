"""What an exam run yields: one result a question, and what went before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from whest.exam.answering import Answer
from whest.exam.questions import Question
from whest.exam.recipe import Entry
from whest.meter import Cost

Code = Literal[
    "LEARNER_ERROR",
    "OUT_OF_MEMORY",
    "TRAINED_INIT",
    "NOTHING_PROMOTED",
    "TOO_LARGE",
    "BAD_BUNDLE",
    "NON_FINITE",
    "TIME",
    "INFRASTRUCTURE",
]
"""All but the last are the participant's own, and score 0; INFRASTRUCTURE is ours, and makes the run invalid."""
EARNED: frozenset[Code] = frozenset(("NOTHING_PROMOTED", "TRAINED_INIT", "TOO_LARGE", "TIME"))
"""Broken rules and bad luck, not broken code: the run is scored and ends well."""


@dataclass(frozen=True)
class ExamFailure:
    """Why a question has no answer that counts."""

    code: Code
    message: str
    traceback: str | None = None


@dataclass(frozen=True)
class Sitting:
    """One model's way to the exam: what was trained, packaged and promoted."""

    history: tuple[Entry, ...] = ()
    graded: int | None = None
    """The candidate that faces the exam."""
    bundle: bytes | None = None
    gzipped_bytes: int | None = None
    """As the grader found it."""
    update_cost: Cost | None = None
    steps: int = 0
    n_params: int | None = None
    losses: Sequence[tuple[int, float]] = ()
    failure: ExamFailure | None = None
    protections: Mapping[str, bool] = field(default_factory=dict)

    @property
    def training_flops(self) -> int:
        return self.steps * self.update_cost.flops if self.update_cost else 0


@dataclass(frozen=True)
class ExamCase:
    """One question, as it was answered."""

    index: int
    question: Question
    answer: Answer | None
    failure: ExamFailure | None
    sitting: Sitting

    @property
    def name(self) -> str:
        return f"question-{self.index + 1:03d}"

    @property
    def is_right(self) -> bool:
        return self.failure is None and self.answer is not None and self.answer.given == self.question.answer
