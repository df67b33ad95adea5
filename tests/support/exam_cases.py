"""An exam's cases to score, and their rows in a report."""

from typing import Any

from hypothesis import strategies as st

from whest.cases.exam import Answer, Code, ExamCase, ExamFailure, Question, Sitting
from whest.scoring.exam import ExamScore
from whest.tasks.exam.report import _case_json

Outcome = bool | Code
OUTCOMES = st.lists(st.one_of(st.booleans(), st.sampled_from(["NON_FINITE", "TIME", "INFRASTRUCTURE"])), max_size=30)


def case(index: int, outcome: Outcome, wall_time_s: float = 0.0) -> ExamCase:
    question = Question(b"so", b"me", "x")
    if isinstance(outcome, bool):
        given = b"me" if outcome else b"no"
        return ExamCase(index, question, Answer(given, 2.0, wall_time_s), None, Sitting())
    answer = None if outcome in ("INFRASTRUCTURE", "NOTHING_PROMOTED") else Answer(None, None, wall_time_s)
    return ExamCase(index, question, answer, ExamFailure(outcome, "why"), Sitting())


def cases(outcomes: list[Outcome], wall_time_s: float = 0.0) -> list[ExamCase]:
    return [case(index, outcome, wall_time_s) for index, outcome in enumerate(outcomes)]


def rows(asked: list[ExamCase], score: ExamScore) -> dict[str, Any]:
    return {"per_case": [_case_json(one, scored, False) for one, scored in zip(asked, score.cases, strict=True)]}
