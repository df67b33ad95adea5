"""The cases of an exam: one result per question, and the history of the training before it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from whest.cost import Cost


@dataclass(frozen=True)
class Question:
    """The text shown, the answer that must follow in every byte, and the kind of the question."""

    prefix: bytes
    answer: bytes
    family: str


@dataclass(frozen=True)
class QuestionSet:
    """Questions, and the hash of their file. Generated questions have the hash of the file they would be stored in."""

    questions: tuple[Question, ...]
    sha256: str


@dataclass(frozen=True)
class Answer:
    """The answer to a question. `given` and `nats` are None if the program's numbers were not finite."""

    given: bytes | None
    nats: float | None
    """The code length of the right answer; a diagnostic."""
    wall_time_s: float


Event = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A training call: the allowance left when it started, and what it used."""

    number: int
    asked_at_s: float
    flops_left: float | None
    seconds_left: float | None
    steps: int
    flops_used: int
    wall_time_s: float


@dataclass(frozen=True)
class Refusal:
    """A training call that was refused because it came too late."""

    number: int
    asked_at_s: float
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A packaged model. The harness measures its size itself."""

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
    """The recipe's choice of the candidate to be graded."""

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
"""All codes except the last are the participant's failures and score 0. INFRASTRUCTURE is our failure and makes the run
invalid."""

EARNED: frozenset[Code] = frozenset(("NOTHING_PROMOTED", "TRAINED_INIT", "TOO_LARGE", "TIME"))
"""Failures that are not errors in code, such as a broken rule: the run is scored, and its exit code is 0."""


@dataclass(frozen=True)
class ExamFailure:
    """Why a question has no valid answer."""

    code: Code
    message: str
    traceback: str | None = None


@dataclass(frozen=True)
class Sitting:
    """The history of one model before the exam: its training, candidates and promotion."""

    history: tuple[Entry, ...] = ()
    graded: int | None = None
    """The number of the candidate that takes the exam."""
    bundle: bytes | None = None
    gzipped_bytes: int | None = None
    """Measured by the grader."""
    update_cost: Cost | None = None
    steps: int = 0
    n_params: int | None = None
    program_bytes: int | None = None
    """All programs of the learner under gzip."""
    constant_bytes: int | None = None
    """Of the constants in these programs."""
    losses: Sequence[tuple[int, float]] = ()
    failure: ExamFailure | None = None
    protections: Mapping[str, str] = field(default_factory=dict)

    @property
    def training_flops(self) -> int:
        return self.steps * self.update_cost.flops if self.update_cost else 0


@dataclass(frozen=True)
class ExamCase:
    """One question and its answer."""

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
