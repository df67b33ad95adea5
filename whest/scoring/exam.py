"""Measures of an exam's questions, before any rule uses them: right or wrong, bits of the answers, failures."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol

from whest.cases.exam import Candidate, ExamCase, Sitting
from whest.scoring.score import CaseFigure, Front, Score, mean_or_none, standard_error

OURS = "INFRASTRUCTURE"
"""The code of a failure that we caused. A run with it is invalid and has no score."""


@dataclass(frozen=True, kw_only=True)
class QuestionMeasures:
    """The figures of one question."""

    right: float
    """100 or 0, so that their mean is the percentage."""
    failed: bool
    bits: float | None
    """Code length of the right answer: the sum over its bytes."""

    @property
    def own_figures(self) -> dict[str, float | None]:
        """The figures that a rule adds to these measures."""
        measured = {field.name for field in fields(QuestionMeasures)}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in measured}


@dataclass(frozen=True, kw_only=True)
class ExamMeasures:
    """The figures of the whole exam."""

    n_questions: int
    n_right: int
    n_failed_cases: int
    right_percent: float | None
    right_percent_se: float | None
    bits_per_byte: float | None
    """Over the answers whose code length is known; a diagnostic."""
    training_flops: int
    training_steps: int
    n_params: int | None
    n_candidates: int
    promoted: int | None
    """The number of the candidate that was graded."""
    validation_score: float | None
    """That candidate's score on the public validation set, in per cent. It is feedback and does not decide who is
    graded."""
    bundle_gzipped_bytes: int | None
    invalid: str | None
    """Why the run does not count and should be repeated."""
    failure_breakdown: dict[str, int]
    """`error` counts the failed questions; the other keys count them by error code."""


@dataclass(frozen=True, kw_only=True)
class ExamScore(ExamMeasures, Score):
    """The result of a rule on the exam task."""

    by_case: ClassVar[CaseFigure] = CaseFigure("right", "right answers (%)", unit="question", direction="higher")

    cases: tuple[QuestionMeasures, ...]

    @property
    def front(self) -> Front:
        wrong = None if self.right_percent is None else 100 - self.right_percent
        return Front("wrong answers (%)", wrong, self.right_percent_se, float(self.training_flops))


class ExamRule(Protocol):
    """A rule that can score an exam."""

    def score_exam(self, cases: Sequence[ExamCase]) -> ExamScore: ...


def measure_question(case: ExamCase) -> QuestionMeasures:
    nats = case.answer.nats if case.answer else None
    return QuestionMeasures(
        right=100.0 if case.is_right else 0.0,
        failed=case.failure is not None,
        bits=None if nats is None else nats / math.log(2),
    )


def measure_exam(cases: Sequence[ExamCase], measured: Sequence[QuestionMeasures]) -> ExamMeasures:
    weighed = [(m.bits, len(case.question.answer)) for case, m in zip(cases, measured, strict=True)]
    known = [(bits, n_bytes) for bits, n_bytes in weighed if bits is not None]
    right = [question.right for question in measured]
    sitting = cases[-1].sitting if cases else Sitting()
    candidates = [entry for entry in sitting.history if isinstance(entry, Candidate)]
    graded = next((candidate for candidate in candidates if candidate.number == sitting.graded), None)
    codes = Counter(case.failure.code for case in cases if case.failure is not None)
    ours = next((case.failure.message for case in cases if case.failure and case.failure.code == OURS), None)
    return ExamMeasures(
        n_questions=len(cases),
        n_right=sum(case.is_right for case in cases),
        n_failed_cases=sum(codes.values()),
        right_percent=None if ours else mean_or_none(right),
        right_percent_se=None if ours else standard_error(right),
        bits_per_byte=sum(bits for bits, _ in known) / sum(n for _, n in known) if known else None,
        training_flops=sitting.training_flops,
        training_steps=sitting.steps,
        n_params=sitting.n_params,
        n_candidates=len(candidates),
        promoted=sitting.graded,
        validation_score=graded.validation_score if graded else None,
        bundle_gzipped_bytes=sitting.gzipped_bytes,
        invalid=ours,
        failure_breakdown={"error": sum(codes.values()), **{code.lower(): n for code, n in sorted(codes.items())}},
    )
