"""PRISM's rule: the vectors of its definition, and the laws behind them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.prism_rule import RULE
from whest.boards.policies import normalised_weights
from whest.cases.prequential import HeldOut
from whest.scoring.prism import OnlineRun, PrismScore

BITS = math.log(2)


def scored(
    *bits: float, delta: float | None = None, val: float | None = None, n_bytes: int = 100, whole: bool = True
) -> PrismScore:
    """The score of batches with these bits per byte."""
    held_out = None if val is None else HeldOut(val, val + (delta or 0.0))
    return RULE.score(OnlineRun([b * BITS for b in bits], n_bytes, held_out, whole))


def after_uniform(bpb: float, n: int = 100) -> tuple[float, ...]:
    """Batches with this mean; the first has the uniform 8 bits per byte, so it is not an anomaly."""
    return (8.0, *([(n * bpb - 8.0) / (n - 1)] * (n - 1)))


@pytest.mark.parametrize(
    ("bpb", "delta", "gap", "expected"),
    [
        (100 / 200, None, None, 0.6666667),
        (1.0, 0.4, 0.0, 0.500236876),
        (1.0, 0.8, 0.0, 0.500413988),
        (1.0, 0.1, 0.0, 0.500062137),
        (1.0, 0.3, 2.5, 0.250090808),
        (1.0, 0.3, 0.1, 0.500181616),
    ],
)
def test_vectors(bpb: float, delta: float | None, gap: float | None, expected: float) -> None:
    assert RULE.formula(bpb, delta, gap) == pytest.approx(expected, abs=1e-7 if delta is None else 1e-9)


def test_bits_over_bytes() -> None:
    score = RULE.score(OnlineRun([100 * BITS / 200], 200, None))
    assert score.bpb == pytest.approx(0.5)
    assert score.covered_bytes == 200
    assert score.base == pytest.approx(0.6666667)
    assert score.score == 0.0, "half a bit a byte on the first batch is an anomaly"


def test_held_out_text_only_orders_what_is_nearly_equal() -> None:
    ours = RULE.formula(1.000, -9, 0)
    assert ours > RULE.formula(1.006, 9, 0)
    assert ours < RULE.formula(1.004, 9, 0)


def test_gap_is_held_out_less_what_was_learnt_last() -> None:
    score = scored(*[8.0] * 9, 0.2, val=3.0, delta=5.0)
    assert score.train_bpb_converged == pytest.approx(0.2)
    assert score.gap == pytest.approx(2.8)
    assert score.memorised
    assert score.penalty == 0.5


def test_last_tenth_is_at_least_one_batch() -> None:
    assert scored(8.0, 3.0).train_bpb_converged == pytest.approx(3.0)
    assert scored(*[8.0] * 18, 4.0, 2.0).train_bpb_converged == pytest.approx(3.0)


def test_weights_of_the_board() -> None:
    weights = normalised_weights([1 / 1.5, 1 / 1.4, 0.0])
    assert weights[0] == pytest.approx(0.4827586, abs=1e-7)
    assert weights[1] == pytest.approx(0.5172414, abs=1e-7)
    assert not weights[2]
    assert sum(weight or 0.0 for weight in weights) == pytest.approx(1)


@pytest.mark.parametrize(("first", "is_anomaly"), [(3.999, True), (4.0, False), (8.0, False)])
def test_smuggled_weights_are_zeroed(first: float, is_anomaly: bool) -> None:
    score = scored(first, 1.0, 1.0, val=1.0, delta=7.0)
    assert score.step0_anomaly == is_anomaly
    assert (score.score == 0.0) == is_anomaly


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), None])
def test_a_batch_that_is_not_finite_is_charged_twice_the_uniform_rate(bad: float | None) -> None:
    score = RULE.score(OnlineRun([8 * BITS, bad], 100, None))
    assert score.bpb == pytest.approx((8 + 16) / 2)
    assert score.n_charged_batches == 1


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (scored(), "no byte was covered"),
        (scored(8.0, n_bytes=0), "no byte was covered"),
        (scored(8.0, 200.0), "104 bits per byte"),
        (scored(0.0), "0 bits per byte"),
        (scored(8.0, -20.0), "-6 bits per byte"),
        (scored(8.0, 4.0, whole=False), "it was stopped before the end"),
    ],
)
def test_degenerate_runs_have_failed(score: PrismScore, reason: str) -> None:
    assert score.score is None
    assert score.failure is not None
    assert reason in score.failure


SANE = st.floats(0.1, 60)
DELTAS = st.floats(-20, 20) | st.none()
GAPS = st.floats(-20, 20) | st.none()


@given(SANE, st.floats(0.00501, 4), DELTAS, DELTAS, GAPS)
def test_fewer_bits_always_win_beyond_the_window(
    bpb: float, more: float, delta: float | None, other: float | None, gap: float | None
) -> None:
    assert RULE.formula(bpb, delta, gap) > RULE.formula(bpb + more, other, gap)


@given(SANE, DELTAS, st.floats(-20, 1.0), st.floats(1.0001, 20))
def test_a_memoriser_has_exactly_half(bpb: float, delta: float | None, small: float, large: float) -> None:
    assert RULE.formula(bpb, delta, large) == pytest.approx(RULE.formula(bpb, delta, small) / 2, rel=1e-12)


@given(SANE, GAPS, st.floats(-5, 5), st.floats(0.001, 3))
def test_more_learnt_on_held_out_text_is_never_worse(bpb: float, gap: float | None, delta: float, more: float) -> None:
    assert RULE.formula(bpb, delta + more, gap) >= RULE.formula(bpb, delta, gap)
    assert abs(RULE.tie_break(bpb, delta, gap)) <= RULE.tie_cap * RULE.penalty(gap)


@given(st.lists(st.floats(4.5, 40), min_size=1, max_size=30), st.integers(1, 500))
def test_score_is_the_formula_of_the_mean(bits: list[float], n_bytes: int) -> None:
    score = scored(*bits, n_bytes=n_bytes)
    assert score.bpb == pytest.approx(math.fsum(bits) / len(bits))
    assert score.covered_bytes == n_bytes * len(bits)
    assert score.bpb is not None
    assert score.score == RULE.formula(score.bpb, None, None)
    assert 0 < score.score < 1


def test_constants_are_the_rules_own() -> None:
    lenient = replace(RULE, gap_limit=3.0)
    assert lenient.formula(1.0, None, 2.5) == 0.5


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
def test_a_run_without_a_finite_batch_has_failed(bad: float | None) -> None:
    run = OnlineRun([bad] * 5, 100, None)
    score = RULE.score(run)
    assert (score.score, score.failure, score.n_charged_batches) == (None, "no batch had a finite loss", 5)
    assert RULE.scored(run, 1).score == pytest.approx(1 / 17), "as version 1 had it"
    assert RULE.score(OnlineRun([*[bad] * 4, 8 * BITS], 100, None)).score is not None
