"""FHERMA's rule: accuracy minus a deduction for time, times a factor for failures; higher is better.

    score = (1 − r_f)^k · (s_t·a − ε·ln(1 + β·t))

A case is an MLP. `a` is the percentage of final-layer neurons within the tolerance of the truth, over the cases that
answered. `r_f` is the share of MLPs that failed. `t` is the mean wall time of the MLPs that were attempted, without
compiling. On an exam, a case is a question and `a` is the percentage of right answers among the given ones. The score
has no lower limit: a slow and wrong answer scores below zero.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from whest.cases.exam import ExamCase
from whest.cases.whitebox import WhiteboxCase
from whest.document import case_rows
from whest.limits import Limits
from whest.scoring.exam import OURS, ExamScore, QuestionMeasures, measure_exam, measure_question
from whest.scoring.score import CaseFigure, Direction
from whest.scoring.whitebox import CaseMeasures, WhiteboxScore, measure_case, measure_suite, row_failed

Factor = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Tally:
    """The values of one case that the formula uses."""

    accuracy: float | None
    """Per cent of final-layer neurons within the tolerance; None if the case failed."""
    attempted: bool
    """Whether it ran: a program that was refused because of its cost took no time."""
    wall_time_s: float


@dataclass(frozen=True, kw_only=True)
class FhermaCase(CaseMeasures):
    """One MLP's measures and its part in the score."""

    accuracy: float | None
    attempted: bool


@dataclass(frozen=True, kw_only=True)
class FhermaScore(WhiteboxScore):
    """The score of a suite; its standard error is a jackknife over MLPs."""

    by_case: ClassVar[CaseFigure] = CaseFigure(
        "accuracy", "final-layer neurons within the tolerance (%)", direction="higher"
    )

    accuracy: float | None
    failure_rate: float | None
    mean_wall_time_s: float | None
    time_deduction: float | None
    failure_factor: float | None
    cases: tuple[FhermaCase, ...]


@dataclass(frozen=True, kw_only=True)
class FhermaQuestion(QuestionMeasures):
    """One question's measures and its part in the score."""

    accuracy: float | None
    attempted: bool


@dataclass(frozen=True, kw_only=True)
class FhermaExamScore(ExamScore):
    """The score of an exam; its standard error is a jackknife over questions."""

    by_case: ClassVar[CaseFigure] = CaseFigure("accuracy", "right answers (%)", unit="question", direction="higher")

    accuracy: float | None
    failure_rate: float | None
    mean_wall_time_s: float | None
    time_deduction: float | None
    failure_factor: float | None
    cases: tuple[FhermaQuestion, ...]


@dataclass(frozen=True)
class FhermaRule:
    """`scoring=fherma`."""

    name: ClassVar[str] = "fherma"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "higher"

    accuracy_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """s_t: points per per cent of accuracy."""
    failure_power: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """k."""
    time_weight: Factor
    """ε."""
    time_scale: Factor
    """β, in 1/s."""
    tolerance: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """The largest error of a neuron's mean that counts as right."""

    def formula(self, accuracy: float, failure_rate: float, mean_time_s: float) -> float:
        return self.failure_factor(failure_rate) * (self.accuracy_scale * accuracy - self.time_deduction(mean_time_s))

    def failure_factor(self, failure_rate: float) -> float:
        return float((1 - failure_rate) ** self.failure_power)

    def time_deduction(self, mean_time_s: float) -> float:
        return self.time_weight * math.log1p(self.time_scale * mean_time_s)

    def score(self, cases: Sequence[WhiteboxCase], limits: Limits, flops_per_sample: float) -> FhermaScore:
        scored = tuple(self.score_case(case, limits, flops_per_sample) for case in cases)
        tallies = [
            Tally(case.accuracy, case.attempted, answered.prediction.timing.wall_time_s)
            for case, answered in zip(scored, cases, strict=True)
        ]
        return FhermaScore(
            **vars(measure_suite(cases, scored, limits)),
            direction=self.direction,
            cases=scored,
            **self._figures(tallies),
        )

    def score_exam(self, cases: Sequence[ExamCase]) -> FhermaExamScore:
        """A run that failed because of our infrastructure has no score under any rule."""
        scored = tuple(self.score_question(case) for case in cases)
        measured = measure_exam(cases, scored)
        tallies = [
            Tally(question.accuracy, question.attempted, case.answer.wall_time_s if case.answer else 0.0)
            for question, case in zip(scored, cases, strict=True)
        ]
        figures = self._figures(tallies if measured.invalid is None else [])
        return FhermaExamScore(**vars(measured), direction=self.direction, cases=scored, **figures)

    def score_question(self, case: ExamCase) -> FhermaQuestion:
        measured = measure_question(case)
        accuracy = None if measured.failed else measured.right
        return FhermaQuestion(**vars(measured), accuracy=accuracy, attempted=case.answer is not None)

    def _figures(self, tallies: Sequence[Tally]) -> dict[str, Any]:
        """The score of the cases, and the figures it is made of."""
        accuracy, failure_rate, mean_time_s = summarise(tallies) if tallies else (None, None, None)
        return {
            "score": self.score_tallies(tallies),
            "score_se": self.jackknife(tallies),
            "accuracy": accuracy,
            "failure_rate": failure_rate,
            "mean_wall_time_s": mean_time_s,
            "time_deduction": None if mean_time_s is None else self.time_deduction(mean_time_s),
            "failure_factor": None if failure_rate is None else self.failure_factor(failure_rate),
        }

    def score_case(self, case: WhiteboxCase, limits: Limits, flops_per_sample: float) -> FhermaCase:
        measured = measure_case(case, limits, flops_per_sample)
        accuracy = None
        if not measured.failed and case.prediction.means is not None:
            errors = case.prediction.means[-1].astype(np.float64) - case.truth.means[-1].astype(np.float64)
            accuracy = 100 * float(np.mean(np.abs(errors) < self.tolerance))
        return FhermaCase(**vars(measured), accuracy=accuracy, attempted=not case.prediction.refused)

    def score_tallies(self, tallies: Sequence[Tally]) -> float | None:
        return self.formula(*summarise(tallies)) if tallies else None

    def jackknife(self, tallies: Sequence[Tally]) -> float | None:
        """Standard error from the scores with each case left out in turn: the formula isn't a mean over cases."""
        n = len(tallies)
        if n < 2:
            return None
        without = [self.formula(*summarise([*tallies[:i], *tallies[i + 1 :]])) for i in range(n)]
        return float(np.sqrt((n - 1) * np.var(without)))


def summarise(tallies: Sequence[Tally]) -> tuple[float, float, float]:
    """Accuracy in per cent, failure rate and mean time. Accuracy is 0 if no case answered."""
    accuracies = [tally.accuracy for tally in tallies if tally.accuracy is not None]
    times = [tally.wall_time_s for tally in tallies if tally.attempted]
    failure_rate = 1 - len(accuracies) / len(tallies)
    return _mean(accuracies), failure_rate, _mean(times)


def recompute(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    """The score, computed again from a report's rows. It checks a report; it never ranks."""
    tallies = _read_tallies(results)
    return None if tallies is None else _read_rule(config).score_tallies(tallies)


def recompute_se(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    """Its standard error, likewise."""
    tallies = _read_tallies(results)
    return None if tallies is None else _read_rule(config).jackknife(tallies)


def _read_rule(config: Mapping[str, Any]) -> FhermaRule:
    return FhermaRule(**{field.name: config["scoring"][field.name] for field in fields(FhermaRule)})


def _read_tallies(results: Mapping[str, Any]) -> list[Tally] | None:
    """None for a run that failed because of our infrastructure."""
    rows = case_rows(dict(results))
    return None if any(row.get("error_code") == OURS for row in rows) else [_read_tally(row) for row in rows]


def _read_tally(row: Mapping[str, Any]) -> Tally:
    failed = row_failed(row) if "mlp_name" in row else "error_code" in row
    return Tally(None if failed else row["accuracy"], row["attempted"], row["wall_time_s"])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
