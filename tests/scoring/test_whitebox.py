"""The challenge's rule, against its published vectors and its properties."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.support.places import CONF
from whest.cases.prediction import ErrorCode, Failure, Prediction
from whest.cases.whitebox import WhiteboxCase
from whest.config.build import build_target
from whest.cost import Charge, Cost, Timing
from whest.errors import ConfigError
from whest.estimator.calling import checked_prediction
from whest.limits import Limits
from whest.scoring.whest import WhestCase, WhestRule, WhestScore
from whest.truth.truth import Truth

RULE = WhestRule(multiplier_floor=0.1)
BUDGET = 1000.0
FLOPS_PER_SAMPLE = 10.0
FLAGS = ("budget_exhausted", "time_exhausted", "residual_wall_time_exhausted", "combined_budget_exhausted")


def limits(
    budget: float = BUDGET, lam: float = 0.0, wall: float | None = None, residual: float | None = None
) -> Limits:
    return Limits(budget, lam, wall, residual)


def make_truth(*layers: Sequence[float], error: float = 0.0, avg_variance: float = 1.0) -> Truth:
    means = np.array(layers, np.float32)
    return Truth(means, np.full_like(means, error), avg_variance, 100)


def make_case(
    truth: Truth, means: Any = None, flops: int = 0, timing: Timing | None = None, failure: Failure | None = None
) -> WhiteboxCase:
    """`means` None without a failure: refused before the run."""
    values = None if means is None else np.atleast_2d(np.array(means, np.float32))
    cost = Cost((Charge("", "dot_general", flops, 1),) if flops else ())
    return WhiteboxCase(0, "megan-chang", truth, Prediction(values, cost, timing or Timing(), failure), None)


def score(*cases: WhiteboxCase, under: Limits | None = None) -> WhestScore:
    return RULE.score(cases, under or limits(), FLOPS_PER_SAMPLE)


def score_one(case: WhiteboxCase, under: Limits | None = None) -> WhestCase:
    return RULE.score_case(case, under or limits(), FLOPS_PER_SAMPLE)


def raised_flags(scored: WhestCase) -> set[str]:
    return {name for name, raised in asdict(scored.flags).items() if raised}


COUNTED = make_truth([1, 2, 3, 4])
"""Zeros score 7.5 on it."""


# Published vectors


def test_the_shipped_rule_has_the_published_floor() -> None:
    node = OmegaConf.to_container(OmegaConf.load(CONF / "scoring" / "whest.yaml"))
    assert isinstance(node, dict)
    node.pop("_target_")
    assert build_target(WhestRule, node, "scoring") == RULE


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.30, 0.000290), (0.1, 0.0000967), (0.05, 0.0000967), (0.0, 0.0000967), (1.0, 0.000967)],
)
def test_worked_example(share: float, expected: float) -> None:
    case = make_case(make_truth([0.42, 0.38, 0.51]), [0.40, 0.35, 0.55], flops=round(share * BUDGET))
    scored = score_one(case)
    assert scored.final_layer_mse == pytest.approx(0.0029 / 3, rel=1e-5)
    assert round(scored.final_layer_mse, 6) == 0.000967
    assert scored.adjusted_final_layer_score == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("share", "multiplier"), [(0, 0.1), (0.05, 0.1), (0.1, 0.1), (0.3, 0.3), (0.6, 0.6), (0.8, 0.8), (1, 1.0)]
)
def test_multiplier_is_the_share_of_the_budget_floored_at_a_tenth(share: float, multiplier: float) -> None:
    scored = score_one(make_case(COUNTED, [0, 0, 0, 0], flops=round(share * BUDGET)))
    assert scored.score_multiplier == pytest.approx(multiplier, rel=1e-12)
    assert scored.adjusted_final_layer_score == pytest.approx(7.5 * multiplier, rel=1e-12)
    assert not scored.failed


def test_compute_is_flops_plus_priced_residual_time() -> None:
    case = make_case(COUNTED, [1, 2, 3, 4], flops=10**9, timing=Timing(residual_wall_time_s=0.5))
    scored = score_one(case, limits(budget=6.8e10, lam=1e11))
    assert scored.effective_compute == 5.1e10
    assert scored.score_multiplier == pytest.approx(0.75)


def test_only_residual_time_is_priced() -> None:
    timing = Timing(backend_time_s=100.0, overhead_time_s=50.0, residual_wall_time_s=0.0)
    assert score_one(make_case(COUNTED, [0] * 4, flops=5, timing=timing), limits(lam=1e11)).effective_compute == 5


def test_flops_and_residual_time_together_over_budget_fail() -> None:
    """F = .7B and λR = .5B: each alone is within the budget."""
    case = make_case(COUNTED, [1, 2, 3, 4], flops=700, timing=Timing(residual_wall_time_s=0.5))
    scored = score_one(case, limits(lam=1000.0))
    assert raised_flags(scored) == {"combined_budget_exhausted"}
    assert scored.adjusted_final_layer_score == 7.5
    assert scored.score_multiplier == 1.0
    assert scored.effective_compute == pytest.approx(1200)


def test_one_failure_does_not_spoil_the_suite() -> None:
    fine = make_case(COUNTED, [0, 0, 0, 0], flops=100)
    failed = make_case(COUNTED, failure=Failure("PREDICT_ERROR", "ValueError: no"))
    suite = score(fine, failed)
    assert suite.adjusted_final_layer_score == pytest.approx(4.125)
    assert suite.score == suite.adjusted_final_layer_score
    assert suite.direction == "lower"
    assert suite.n_failed_mlps == 1
    assert suite.best_mlp_adjusted_final_layer_score == pytest.approx(0.75)
    assert suite.worst_mlp_adjusted_final_layer_score == 7.5
    assert suite.mean_score_multiplier == pytest.approx(0.55)
    assert suite.final_layer_mse == 7.5


@pytest.mark.parametrize(
    ("flops", "residual", "lam"), [(1000, 0.0, 0.0), (500, 0.5, 1000.0), (0, 1.0, 1000.0), (1000, 9.0, 0.0)]
)
def test_the_whole_budget_may_be_spent(flops: int, residual: float, lam: float) -> None:
    case = make_case(COUNTED, [0] * 4, flops=flops, timing=Timing(residual_wall_time_s=residual))
    scored = score_one(case, limits(lam=lam))
    assert scored.effective_compute == BUDGET
    assert not scored.failed
    assert scored.score_multiplier == 1.0


def test_one_flop_more_than_the_budget_fails() -> None:
    scored = score_one(make_case(COUNTED, [1, 2, 3, 4], flops=1001))
    assert raised_flags(scored) == {"budget_exhausted", "combined_budget_exhausted"}
    assert scored.adjusted_final_layer_score == 7.5


def test_largest_round_s_budget_is_compared_exactly() -> None:
    under = limits(budget=2199023255552.0)
    assert not score_one(make_case(COUNTED, [0] * 4, flops=2**41), under).failed
    assert score_one(make_case(COUNTED, [0] * 4, flops=2**41 + 1), under).failed


def test_mse_by_layer() -> None:
    scored = score_one(make_case(make_truth([1, 2], [3, 5]), [[1, 4], [3, 2]]))
    assert scored.per_layer_mse == (2.0, 4.5)
    assert scored.final_layer_mse == 4.5
    assert scored.all_layers_mse == 3.25


def test_predictions_are_compared_in_double_precision() -> None:
    """(1e-12)² is lost beside 1 in float32, and so is a difference of float64 predictions rounded to it."""
    truth = make_truth([0.0])
    case = replace(make_case(truth), prediction=Prediction(np.array([[1e-12]]), Cost(())))
    assert score_one(case).final_layer_mse == pytest.approx(1e-24, rel=1e-12, abs=0)


# Failures


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_every_error_scores_as_zeros_without_discount(code: ErrorCode) -> None:
    suite = score(make_case(COUNTED, failure=Failure(code, "it broke")))
    (scored,) = suite.cases
    assert scored.failed
    assert raised_flags(scored) == set()
    assert (scored.score_multiplier, scored.adjusted_final_layer_score, scored.final_layer_mse) == (1.0, 7.5, 7.5)
    assert suite.n_failed_mlps == 1
    assert asdict(suite.failure_breakdown) == dict.fromkeys(FLAGS, 0) | {"error": 1}


@pytest.mark.parametrize(
    ("timing", "under", "flag"),
    [
        (Timing(backend_time_s=2.1), limits(wall=2.0), "time_exhausted"),
        (Timing(1.0, 0.5, 0.6), limits(wall=2.0), "time_exhausted"),
        (Timing(residual_wall_time_s=0.41), limits(residual=0.4), "residual_wall_time_exhausted"),
        (Timing(residual_wall_time_s=1.1), limits(lam=1000.0), "combined_budget_exhausted"),
    ],
)
def test_each_cap_raises_its_own_flag_alone(timing: Timing, under: Limits, flag: str) -> None:
    suite = score(make_case(COUNTED, [1, 2, 3, 4], timing=timing), under=under)
    assert raised_flags(suite.cases[0]) == {flag}
    assert suite.cases[0].adjusted_final_layer_score == 7.5
    assert asdict(suite.failure_breakdown) == dict.fromkeys((*FLAGS, "error"), 0) | {flag: 1}
    assert suite.n_failed_mlps == 1


@pytest.mark.parametrize(
    ("timing", "under"),
    [
        (Timing(backend_time_s=2.0), limits(wall=2.0)),
        (Timing(residual_wall_time_s=0.4), limits(residual=0.4)),
        (Timing(backend_time_s=1e9), limits()),
        (Timing(backend_time_s=1e9), limits(residual=0.4)),
    ],
)
def test_a_cap_may_be_reached_and_a_null_cap_is_off(timing: Timing, under: Limits) -> None:
    assert not score_one(make_case(COUNTED, [1, 2, 3, 4], timing=timing), under).failed


def test_all_flags_at_once_count_as_one_failed_mlp() -> None:
    timing = Timing(backend_time_s=5.0, residual_wall_time_s=5.0)
    under = limits(lam=1.0, wall=1.0, residual=1.0)
    suite = score(make_case(COUNTED, [1, 2, 3, 4], flops=2000, timing=timing), under=under)
    assert asdict(suite.failure_breakdown) == dict.fromkeys(FLAGS, 1) | {"error": 0}
    assert suite.n_failed_mlps == 1


def test_an_error_keeps_the_flags_of_what_it_spent() -> None:
    """An answer with NaNs that also took too long has both flags."""
    case = make_case(COUNTED, failure=Failure("NON_FINITE", "NaN"), flops=5, timing=Timing(backend_time_s=3.0))
    suite = score(case, under=limits(wall=1.0))
    assert raised_flags(suite.cases[0]) == {"time_exhausted"}
    assert suite.failure_breakdown.error == 1
    assert suite.n_failed_mlps == 1
    assert suite.cases[0].effective_compute == 5


def test_refused_before_the_run_reports_what_it_would_have_spent() -> None:
    suite = score(make_case(COUNTED, flops=5000), under=limits(lam=1e11))
    (scored,) = suite.cases
    assert raised_flags(scored) == {"budget_exhausted"}
    assert scored.effective_compute == 5000
    assert scored.adjusted_final_layer_score == 7.5
    assert suite.mean_compute_utilization == 5.0, "unclamped"
    assert suite.mean_score_multiplier == 1.0
    assert suite.failure_breakdown.error == 0
    assert suite.failure_breakdown.budget_exhausted == 1


def test_a_prediction_too_large_to_square_keeps_the_score_finite() -> None:
    """Double-precision answers may be finite where their squares are not."""
    prediction = checked_prediction(np.full((1, 2), 1e200), Cost(()), Timing())
    suite = score(WhiteboxCase(0, "test", make_truth([1, 2]), prediction, None))
    assert suite.score is not None
    assert math.isfinite(suite.score)


# The suite's other figures


def test_no_cases_leave_every_figure_null() -> None:
    suite = score()
    assert suite.per_layer_mse == suite.cases == ()
    assert suite.n_failed_mlps == 0
    assert asdict(suite.failure_breakdown) == dict.fromkeys((*FLAGS, "error"), 0)
    rest = {"per_layer_mse", "cases", "n_failed_mlps", "failure_breakdown", "direction"}
    assert {name for name, value in vars(suite).items() if value is not None} == rest


def test_one_mlp_has_no_standard_error() -> None:
    suite = score(make_case(COUNTED, [0] * 4, flops=500))
    assert suite.adjusted_final_layer_score_se is None
    assert suite.final_layer_mse_se is None
    assert suite.adjusted_final_layer_score == 3.75


def test_standard_errors_over_mlps() -> None:
    suite = score(*(make_case(make_truth([value]), [0], flops=500) for value in (1, 2, 3)))
    mses = np.array([1, 4, 9])
    assert suite.final_layer_mse_se == pytest.approx(mses.std(ddof=1) / np.sqrt(3))
    assert suite.adjusted_final_layer_score_se == pytest.approx(0.5 * mses.std(ddof=1) / np.sqrt(3))


def test_truth_s_own_variance_is_taken_off() -> None:
    """Floors .25 and 1; MSEs 9 and 4; multipliers .5 and .1."""
    first = make_case(make_truth([1, 1], [3, 3], error=0.5), [[0, 0], [0, 0]], flops=500)
    second = make_case(make_truth([1, 1], [2, 2], error=1.0), [[0, 0], [0, 0]])
    suite = score(first, second)
    assert suite.truth_floor_mse == pytest.approx((0.25 + 1) / 2)
    assert suite.final_layer_mse_corrected == pytest.approx((8.75 + 3) / 2)
    assert suite.adjusted_final_layer_score_corrected == pytest.approx((8.75 * 0.5 + 3 * 0.1) / 2)
    assert suite.final_layer_mse == pytest.approx(6.5), "the ranked figures stay as they are"


def test_correction_takes_truth_s_noise_off_on_average() -> None:
    """A perfect prediction against noisy truth has corrected MSE 0 ± 6·σ²·√(2/n)."""
    exact, sigma, n = np.linspace(0, 1, 20_000, dtype=np.float32), 0.1, 20_000
    noisy = exact + np.random.default_rng(1).normal(0, sigma, n).astype(np.float32)
    suite = score(make_case(make_truth(noisy, error=sigma), exact))
    assert suite.final_layer_mse == pytest.approx(sigma**2, rel=6 * np.sqrt(2 / n))
    assert suite.final_layer_mse_corrected == pytest.approx(0, abs=6 * sigma**2 * np.sqrt(2 / n))


def test_comparison_with_plain_sampling() -> None:
    """C = 500 pays for 50 samples, B = 1000 for 100; the ratio does not depend on the multiplier."""
    suite = score(make_case(make_truth([1.0], avg_variance=2.0), [0.5], flops=500))
    assert suite.sampling_mse_at_compute == pytest.approx(2 / 50)
    assert suite.sampling_mse_at_budget == pytest.approx(2 / 100)
    assert suite.ratio_to_sampling == pytest.approx(0.25 / (2 / 50))


def test_ratio_to_sampling_is_of_suite_means() -> None:
    first = make_case(make_truth([1.0], avg_variance=2.0), [0.5], flops=500)
    second = make_case(make_truth([1.0], avg_variance=4.0), [0.0], flops=50)
    expected = (0.25 * 0.5 + 1 * 0.1) / (2 / 50 * 0.5 + 4 / 5 * 0.1)
    assert score(first, second).ratio_to_sampling == pytest.approx(expected)


def test_a_sampler_s_own_ratio_is_one() -> None:
    """An estimator whose squared error is its variance divided by its number of samples."""
    n_samples, variance = 40, 3.0
    case = make_case(make_truth([0.0], avg_variance=variance), [math.sqrt(variance / n_samples)], flops=10 * n_samples)
    assert score(case).ratio_to_sampling == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(("flops", "known"), [(0, False), (9, False), (10, True)])
def test_sampling_is_null_below_one_sample(flops: int, known: bool) -> None:
    suite = score(make_case(COUNTED, [0] * 4, flops=flops))
    assert (suite.sampling_mse_at_compute is not None) == known
    assert (suite.ratio_to_sampling is not None) == known
    assert suite.sampling_mse_at_budget is not None


def test_a_budget_below_one_sample_has_no_sampling_figure() -> None:
    assert score(make_case(COUNTED, [0] * 4), under=limits(budget=9)).sampling_mse_at_budget is None


@pytest.mark.parametrize("floor", [0, -0.1, 1.5])
def test_multiplier_floor_outside_its_range_is_refused(floor: float) -> None:
    with pytest.raises(ConfigError, match=r"scoring\.multiplier_floor"):
        build_target(WhestRule, {"multiplier_floor": floor}, "scoring")


# Properties


steady = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
"""The same examples every time, also on a busy machine."""
reals = st.floats(-1e6, 1e6, width=32)
times = st.floats(0, 10)


@st.composite
def suites(draw: st.DrawFn) -> list[WhiteboxCase]:
    """Cases of one shape: answered, refused or failed, cheap or expensive."""
    depth, width = draw(st.integers(1, 3)), draw(st.integers(1, 4))

    def layers() -> np.ndarray:
        values = draw(st.lists(reals, min_size=depth * width, max_size=depth * width))
        return np.array(values, np.float32).reshape(depth, width)

    def case() -> WhiteboxCase:
        truth = Truth(layers(), np.abs(layers()), draw(st.floats(0, 1e6)), 100)
        flops = draw(st.integers(0, 2 * int(BUDGET)))
        timing = Timing(draw(times), draw(times), draw(times))
        kind = draw(st.sampled_from(["answered", "answered", "refused", "failed"]))
        if kind == "refused":
            return make_case(truth, flops=int(BUDGET) + 1 + flops)
        if kind == "failed":
            return make_case(truth, None, flops, timing, Failure(draw(st.sampled_from(get_args(ErrorCode))), "broke"))
        return make_case(truth, layers(), flops, timing)

    return [case() for _ in range(draw(st.integers(1, 4)))]


rulebooks = st.builds(
    Limits,
    budget=st.just(BUDGET),
    lam=st.sampled_from([0.0, 1.0, 100.0]),
    wall_time_limit_s=st.none() | st.floats(0.1, 30),
    residual_wall_time_limit_s=st.none() | st.floats(0.1, 10),
)


@steady
@given(suites(), rulebooks)
def test_score_is_never_above_the_raw_error(cases: list[WhiteboxCase], under: Limits) -> None:
    suite = score(*cases, under=under)
    assert suite.adjusted_final_layer_score is not None
    assert suite.final_layer_mse is not None
    assert suite.adjusted_final_layer_score <= suite.final_layer_mse * (1 + 1e-12)
    assert suite.adjusted_final_layer_score >= 0.1 * suite.final_layer_mse * (1 - 1e-12)
    for scored in suite.cases:
        assert 0.1 <= scored.score_multiplier <= 1
        assert scored.adjusted_final_layer_score == scored.final_layer_mse * scored.score_multiplier


@steady
@given(suites(), rulebooks)
def test_suite_is_the_mean_of_its_cases(cases: list[WhiteboxCase], under: Limits) -> None:
    suite = score(*cases, under=under)
    scored = suite.cases
    assert len(scored) == len(cases)
    for name in ("adjusted_final_layer_score", "final_layer_mse", "all_layers_mse", "truth_floor_mse"):
        expected = math.fsum(getattr(case, name) for case in scored) / len(scored)
        assert getattr(suite, name) == pytest.approx(expected, rel=1e-12)
    assert suite.mean_effective_compute == pytest.approx(np.mean([case.effective_compute for case in scored]))
    assert suite.mean_compute_utilization == pytest.approx(suite.mean_effective_compute / BUDGET)
    assert suite.n_failed_mlps == sum(case.failed for case in scored)
    assert suite.best_mlp_adjusted_final_layer_score == min(case.adjusted_final_layer_score for case in scored)
    assert suite.worst_mlp_adjusted_final_layer_score == max(case.adjusted_final_layer_score for case in scored)


@steady
@given(suites(), rulebooks)
def test_a_case_scores_the_same_in_any_company(cases: list[WhiteboxCase], under: Limits) -> None:
    assert score(*cases, under=under).cases == tuple(score_one(case, under) for case in cases)
    backwards = score(*cases[::-1], under=under)
    assert backwards.adjusted_final_layer_score == pytest.approx(score(*cases, under=under).score, rel=1e-12)


@steady
@given(suites(), rulebooks)
def test_layers_add_up(cases: list[WhiteboxCase], under: Limits) -> None:
    suite = score(*cases, under=under)
    for scored in suite.cases:
        assert scored.per_layer_mse[-1] == scored.final_layer_mse
        assert np.mean(scored.per_layer_mse) == pytest.approx(scored.all_layers_mse, rel=1e-12)
    assert suite.per_layer_mse[-1] == pytest.approx(suite.final_layer_mse, rel=1e-12)
    assert np.mean(suite.per_layer_mse) == pytest.approx(suite.all_layers_mse, rel=1e-12)


@steady
@given(suites(), rulebooks)
def test_failures_score_as_zeros_and_every_figure_is_finite(cases: list[WhiteboxCase], under: Limits) -> None:
    suite = score(*cases, under=under)
    for case, scored in zip(cases, suite.cases, strict=True):
        assert scored.failed == (bool(raised_flags(scored)) or case.prediction.means is None)
        if scored.failed:
            zeros = np.mean(np.square(case.truth.means[-1], dtype=np.float64))
            assert scored.score_multiplier == 1.0
            assert scored.adjusted_final_layer_score == pytest.approx(zeros, rel=1e-12)
    figures = [value for value in vars(suite).values() if isinstance(value, float)]
    assert all(math.isfinite(value) for value in (*figures, *suite.per_layer_mse))


@steady
@given(suites(), rulebooks)
def test_flags_say_what_was_exceeded_and_nothing_else(cases: list[WhiteboxCase], under: Limits) -> None:
    suite = score(*cases, under=under)
    for case, scored in zip(cases, suite.cases, strict=True):
        timing, flops = case.prediction.timing, case.prediction.cost.flops
        wall, residual = under.wall_time_limit_s, under.residual_wall_time_limit_s
        assert scored.flags.budget_exhausted == (flops > BUDGET)
        assert scored.flags.time_exhausted == (wall is not None and timing.wall_time_s > wall)
        over_residual = residual is not None and timing.residual_wall_time_s > residual
        assert scored.flags.residual_wall_time_exhausted == over_residual
        assert scored.effective_compute == flops + under.lam * timing.residual_wall_time_s
        over = scored.effective_compute > BUDGET and not case.prediction.refused
        assert scored.flags.combined_budget_exhausted == over
    counts = asdict(suite.failure_breakdown)
    assert counts.pop("error") == sum(case.prediction.failure is not None for case in cases)
    assert counts == {flag: sum(getattr(scored.flags, flag) for scored in suite.cases) for flag in FLAGS}


@steady
@given(st.lists(reals, min_size=1, max_size=4), st.data())
def test_spending_less_never_scores_worse(values: list[float], data: st.DataObject) -> None:
    """More compute never improves the score of the same answer, and exceeding the budget doesn't if it beats zeros."""
    less, more = sorted(data.draw(st.tuples(*[st.integers(0, int(BUDGET))] * 2)))
    answer = data.draw(st.lists(reals, min_size=len(values), max_size=len(values)))
    cheap, dear, over = (
        score_one(make_case(make_truth(values), answer, flops=flops)) for flops in (less, more, int(BUDGET) + 1)
    )
    assert cheap.adjusted_final_layer_score <= dear.adjusted_final_layer_score
    if dear.final_layer_mse <= over.final_layer_mse:
        assert dear.adjusted_final_layer_score <= over.adjusted_final_layer_score
