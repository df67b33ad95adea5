"""ARI's rule: the percentage of questions whose answer is right in every byte; higher is better.

There is no partial credit for a question. A run scores 0 if it promoted nothing or if its bundle was refused. A run
that failed because of our infrastructure has no score and should be repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from whest.cases.exam import ExamCase
from whest.document import case_rows
from whest.scoring.exam import OURS, ExamScore, measure_exam, measure_question
from whest.scoring.score import Direction, mean_or_none, standard_error


@dataclass(frozen=True, kw_only=True)
class AriScore(ExamScore):
    """The score of an exam. Its standard error is over questions; on a board it is over seeds."""


@dataclass(frozen=True)
class AriRule:
    """`scoring=ari`."""

    name: ClassVar[str] = "ari"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "higher"

    def score_exam(self, cases: Sequence[ExamCase]) -> AriScore:
        questions = tuple(measure_question(case) for case in cases)
        measured = measure_exam(cases, questions)
        return AriScore(
            **vars(measured),
            score=measured.right_percent,
            score_se=measured.right_percent_se,
            direction=self.direction,
            cases=questions,
        )


def recompute(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    """The score, computed again from a report's rows. It checks a report; it never ranks."""
    return mean_or_none(_rights(results))


def recompute_se(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    """Its standard error, likewise."""
    return standard_error(_rights(results))


def _rights(results: Mapping[str, Any]) -> list[float]:
    """100 or 0 per question; none for a run that failed because of our infrastructure."""
    rows = case_rows(dict(results))
    if any(row.get("error_code") == OURS for row in rows):
        return []
    return [0.0 if "error_code" in row else row["right"] for row in rows]
