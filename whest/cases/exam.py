"""What an exam run yields: one result a question, and what went before it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from whest.cost import Cost


@dataclass(frozen=True)
class Question:
    """What is shown, what must come next byte for byte, and what kind of question it is."""

    prefix: bytes
    answer: bytes
    family: str


@dataclass(frozen=True)
class QuestionSet:
    """Questions with the hash of the file they were, or would be, read from."""

    questions: tuple[Question, ...]
    sha256: str


@dataclass(frozen=True)
class Answer:
    """What was answered; null where the program gave no finite numbers."""

    given: bytes | None
    nats: float | None
    """The code length of the right answer: a diagnostic."""
    wall_time_s: float


Event = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A training call: what it was told was left, and what it used."""

    number: int
    asked_at_s: float
    flops_left: float | None
    seconds_left: float | None
    steps: int
    flops_used: int
    wall_time_s: float


@dataclass(frozen=True)
class Refusal:
    """A call that was asked for too late."""

    number: int
    asked_at_s: float
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A packaged model; its size is what the harness found, never what it was told."""

    number: int
    packaged_at_s: float
    steps: int
    sha256: str
    gzipped_bytes: int
    validation_right: int
    validation_asked: int

    @property
    def validation_score(self) -> float:
        return 100 * self.validation_right / self.validation_asked


@dataclass(frozen=True)
class Promotion:
    """The recipe's word that a candidate is the one."""

    candidate: int
    at_s: float


Entry = Call | Refusal | Candidate | Promotion


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
    program_bytes: int | None = None
    """All programs of the learner under gzip."""
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


def entry_json(entry: Entry) -> Event:
    return {"event": type(entry).__name__.lower(), **asdict(entry)}


def events(history: Sequence[Entry]) -> list[Mapping[str, Any]]:
    return [entry_json(entry) for entry in history]
