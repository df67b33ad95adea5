"""The material of an exam run: training text, a public validation set, and the exam, each with its hash."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from whest.cases.exam import QuestionSet
from whest.errors import ConfigError
from whest.tasks.exam.puzzles import EXAMINED, VALIDATED, demo_questions, demo_text
from whest.tasks.exam.questions import load_questions, read_questions, refuse_shown_answers, write_questions


@dataclass(frozen=True)
class Material:
    """The text to learn from, the questions for validation, and the questions that count."""

    name: str
    text: bytes
    validation: QuestionSet
    exam: QuestionSet
    exam_path: Path | None
    """The exam's file; None for the demo exam. The training process never gets this path."""
    is_demo: bool
    """Whether it is the demo exam, which anybody can make."""
    seed: int

    @property
    def text_sha256(self) -> str:
        return hashlib.sha256(self.text).hexdigest()

    def protocol(self) -> dict[str, Any]:
        """The bytes that two runs must share to be comparable."""
        return {"exam": self.exam.sha256, "text": self.text_sha256, "validation": self.validation.sha256}

    def describe(self) -> dict[str, Any]:
        counted: dict[str, int] = {}
        for question in self.exam.questions:
            counted[question.family] = counted.get(question.family, 0) + 1
        return {
            "name": self.name,
            "seed": self.seed,
            "is_demo": self.is_demo,
            "n_questions": len(self.exam.questions),
            "families": counted,
            "n_validation": len(self.validation.questions),
            "n_text_bytes": len(self.text),
            "sha256": self.exam.sha256,
            "exam_sha256": self.exam.sha256,
            "text_sha256": self.text_sha256,
            "validation_sha256": self.validation.sha256,
        }


@dataclass(frozen=True)
class ExamData:
    """`data=exam`: the demo from `seed`, or parts of it from files."""

    seed: Annotated[int, Field(ge=0, lt=2**63)]
    n_questions: Annotated[int, Field(ge=1, le=100_000)]
    n_validation: Annotated[int, Field(ge=1, le=100_000)]
    n_text_bytes: Annotated[int, Field(ge=1024, le=10**9)]
    exam: Path | None
    text: Path | None
    validation: Path | None

    def load(self) -> Material:
        demo = _demo_set(self.seed, "exam", EXAMINED, self.n_questions)
        exam = load_questions(self.exam, "data.exam") if self.exam else demo
        if self.exam:
            refuse_shown_answers(exam.questions, f"data.exam={self.exam}")
        validation = (
            load_questions(self.validation, "data.validation")
            if self.validation
            else _demo_set(self.seed, "validation", VALIDATED, self.n_validation)
        )
        text = _read_text(self.text) if self.text else demo_text(self.seed, self.n_text_bytes)
        is_demo = exam.sha256 == demo.sha256
        name = f"demo exam, seed {self.seed}" if is_demo else f"exam {exam.sha256[:12]}"
        path = self.exam.absolute() if self.exam else None
        return Material(name, text, validation, exam, path, is_demo, self.seed)


def _demo_set(seed: int, purpose: str, families: tuple[str, ...], n_questions: int) -> QuestionSet:
    return read_questions(write_questions(demo_questions(seed, purpose, families, n_questions)), purpose)


def _read_text(path: Path) -> bytes:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"data.text={path} can't be read ({error.strerror}): give a file of text") from None
    if len(text) < 1024:
        raise ConfigError(f"data.text={path} has {len(text)} bytes: a learner needs at least 1024")
    return text
