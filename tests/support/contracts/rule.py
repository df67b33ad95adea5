"""The contract of a scoring rule: a pure function of cases whose score a report's rows give again.

    class TestMine(UnorderedRuleContract):
        subjects = {"mine on whitebox": whitebox_subject(MyRule(0.1), recompute)}

`whitebox_subject` and `exam_subject` serve every rule of those tasks; a rule of another task brings a `RuleSubject`.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError, asdict, dataclass
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import exam_cases
from tests.support.contracts.contract import Contract
from tests.support.whitebox_cases import BUDGET, FLOPS_PER_SAMPLE, suites
from whest.limits import Limits
from whest.scoring.score import Direction, Rule, Score
from whest.tasks.task import PAIRS
from whest.tasks.whitebox.report import _case_json

Recompute = Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]
LIMITS = Limits(BUDGET, 1.0, 20.0, 8.0)
steady = settings(
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
"""The same examples every time, however busy the machine; a contract's tests belong to several classes."""


@dataclass(frozen=True)
class RuleSubject:
    """A rule with what its task would hand it and write of it."""

    rule: Rule
    task: str
    cases: st.SearchStrategy[Sequence[Any]]
    """Lists of cases, the empty one among them."""
    score: Callable[[Sequence[Any]], Score]
    results: Callable[[Sequence[Any], Any], dict[str, Any]]
    """What the report's `results` hold of cases and score, as far as `recompute` reads them."""
    recompute: Recompute

    @property
    def config(self) -> dict[str, Any]:
        limits = {"flop_budget": LIMITS.budget, "lambda_flops_per_second": LIMITS.lam}
        return {"scoring": asdict(self.rule), **limits}  # type: ignore[call-overload]


def whitebox_subject(rule: Any, recompute: Recompute) -> RuleSubject:
    def results(cases: Sequence[Any], score: Any) -> dict[str, Any]:
        pairs = zip(cases, score.cases, strict=True)
        return {"per_mlp": [_case_json(case, scored, LIMITS) for case, scored in pairs]}

    def score(cases: Sequence[Any]) -> Score:
        return rule.score(cases, LIMITS, FLOPS_PER_SAMPLE)

    return RuleSubject(rule, "whitebox", suites(min_size=0), score, results, recompute)


def exam_subject(rule: Any, recompute: Recompute) -> RuleSubject:
    asked = exam_cases.OUTCOMES.map(lambda outcomes: exam_cases.cases(outcomes, 0.25))
    return RuleSubject(rule, "exam", asked, rule.score_exam, exam_cases.rows, recompute)


def numbers(value: Any) -> list[float]:
    """Every number of a score, also of the parts it is made of."""
    if isinstance(value, Mapping):
        return [number for part in value.values() for number in numbers(part)]
    if isinstance(value, list | tuple):
        return [number for part in value for number in numbers(part)]
    return [value] if isinstance(value, int | float) else []


class RuleContract(Contract):
    """The subjects are `RuleSubject`s."""

    def test_it_says_who_it_is_and_its_constants_are_fixed(self, subject: RuleSubject) -> None:
        rule = subject.rule
        assert rule.name in PAIRS[subject.task]
        assert rule.version >= 1
        assert rule.direction in get_args(Direction)
        for constant in asdict(rule):  # type: ignore[call-overload]
            with pytest.raises(FrozenInstanceError):
                setattr(rule, constant, 0)

    def test_no_cases_are_no_score(self, subject: RuleSubject) -> None:
        assert (subject.score([]).score, subject.score([]).score_se) == (None, None)

    @steady
    @given(st.data())
    def test_the_same_cases_give_the_same_score_and_every_figure_is_finite(
        self, subject: RuleSubject, data: st.DataObject
    ) -> None:
        """Whatever failed: a figure that isn't known is None."""
        cases = data.draw(subject.cases)
        before = repr(cases)
        score = subject.score(cases)
        assert score == subject.score(cases)
        assert score.direction == subject.rule.direction
        assert repr(cases) == before
        assert all(math.isfinite(number) for number in numbers([asdict(score), asdict(score.front)]))

    @steady
    @given(st.data())
    def test_a_report_s_rows_give_the_score_again(self, subject: RuleSubject, data: st.DataObject) -> None:
        """As they are read back from JSON, where NaN and infinity are refused. Runs are paired by a figure of a row."""
        cases = data.draw(subject.cases)
        score = subject.score(cases)
        results = json.loads(json.dumps(subject.results(cases, score), allow_nan=False))
        assert subject.recompute(subject.config, results) == score.score
        rows = results.get("per_mlp", results.get("per_case"))
        assert len(rows) == len(cases)
        assert all(score.by_case.field in row for row in rows)


class UnorderedRuleContract(RuleContract):
    """For rules whose cases are in no order: MLPs and questions are, the blocks of a stream are not."""

    @steady
    @given(st.data())
    def test_the_order_of_cases_has_no_part_in_it(self, subject: RuleSubject, data: st.DataObject) -> None:
        cases = data.draw(subject.cases)
        score, mixed = subject.score(cases).score, subject.score(data.draw(st.permutations(list(cases)))).score
        assert (mixed is None) == (score is None)
        if score is not None:
            assert mixed == pytest.approx(score, rel=1e-9, abs=1e-9)
