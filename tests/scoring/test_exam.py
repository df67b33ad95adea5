"""Rules on an exam's cases: per cent right under ari, FHERMA's formula on questions; both recomputed from the rows."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whest.cases.exam import Answer, Code, ExamCase, ExamFailure, Question, Sitting
from whest.scoring import ari, fherma
from whest.scoring.ari import AriRule
from whest.scoring.exam import ExamScore
from whest.scoring.fherma import FhermaRule
from whest.tasks.exam.report import _case_json

steady = settings(deadline=None, derandomize=True)
FHERMA = FhermaRule(accuracy_scale=10, failure_power=3, time_weight=3, time_scale=1, tolerance=0.01)
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


@pytest.mark.parametrize(("n_right", "expected"), [(0, 0), (39, 39), (42, 42), (100, 100)])
def test_ari_is_the_percentage_of_right_answers(n_right: int, expected: float) -> None:
    score = AriRule().score_exam(cases([i < n_right for i in range(100)]))
    assert (score.score, score.n_right, score.direction) == (expected, n_right, "higher")


def test_ari_a_nearly_right_answer_is_wrong() -> None:
    question = Question(b"so", b"me", "x")
    near = ExamCase(0, question, Answer(b"mE", 0.1, 0.0), None, Sitting())
    assert AriRule().score_exam([near]).score == 0


def test_ari_nothing_promoted_scores_zero_and_says_so() -> None:
    score = AriRule().score_exam(cases(["NOTHING_PROMOTED"] * 5))
    assert (score.score, score.invalid, score.promoted) == (0, None, None)
    assert score.failure_breakdown == {"error": 5, "nothing_promoted": 5}


def test_ari_our_own_failure_is_no_score() -> None:
    score = AriRule().score_exam(cases([True, True, "INFRASTRUCTURE"]))
    assert (score.score, score.invalid) == (None, "why")


def test_bits_of_the_answers_are_a_mean_over_bytes() -> None:
    score = AriRule().score_exam(cases([True, False]))
    assert score.bits_per_byte == pytest.approx(2.0 / 0.6931471805599453 / 2)


@steady
@given(OUTCOMES)
def test_ari_is_made_again_from_the_rows(outcomes: list[Outcome]) -> None:
    asked = cases(outcomes)
    score = AriRule().score_exam(asked)
    assert ari.recompute({}, rows(asked, score)) == score.score
    if score.score is not None:
        assert score.score == pytest.approx(100 * sum(outcome is True for outcome in outcomes) / len(outcomes))
        assert score.front.error == pytest.approx(100 - score.score)


@pytest.mark.parametrize(
    ("n_right", "n_failed", "time_s", "expected"),
    [
        (95, 0, 10, 942.806314),
        (95, 0, 1000, 929.273736),
        (100, 25, 0, 421.875),
        (0, 0, 10, -7.193686),
        (0, 100, 10, 0),
    ],
)
def test_fherma_on_questions_is_its_formula(n_right: int, n_failed: int, time_s: float, expected: float) -> None:
    """Accuracy is over the questions that were answered."""
    answered = 100 - n_failed
    outcomes: list[Outcome] = [i < n_right * answered / 100 for i in range(answered)]
    score = FHERMA.score_exam(cases([*outcomes, *["NON_FINITE"] * n_failed], time_s))
    assert score.score == pytest.approx(expected, abs=5e-7)


@steady
@given(OUTCOMES)
def test_fherma_is_made_again_from_the_rows(outcomes: list[Outcome]) -> None:
    asked = cases(outcomes, 0.25)
    score = FHERMA.score_exam(asked)
    config = {"scoring": asdict(FHERMA)}
    assert fherma.recompute(config, rows(asked, score)) == score.score
    assert (score.score is None) == (not outcomes or "INFRASTRUCTURE" in outcomes)
