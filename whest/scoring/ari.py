"""ARI's rule: the percentage of questions answered byte for byte; higher is better.

A question counts as a whole or not at all. A run that promoted nothing, or whose bundle was refused, scores 0; one that
failed through no fault of its own has no score and is run again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from whest.cases.exam import ExamCase
from whest.document import case_rows
from whest.scoring.exam import OURS, ExamScore, measure_exam, measure_question
from whest.scoring.score import Direction, mean_or_none


@dataclass(frozen=True, kw_only=True)
class AriScore(ExamScore):
    """The exam's; its standard error is over questions, while a board's is over seeds."""


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
    """What a report's own rows make the score: a check, never a ranking."""
    rows = case_rows(dict(results))
    if any(row.get("error_code") == OURS for row in rows):
        return None
    return mean_or_none([0.0 if "error_code" in row else row["right"] for row in rows])
