"""Paired statistics: laws that hold for any scores, textbook values, and the coverage of the intervals."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from whest.cli.catalogue import _power
from whest.scoring.exact import sign_flip_p, smallest_p
from whest.scoring.paired import Interval, Paired, verdict
from whest.scoring.power import POWER, power_words, smallest_ratio, smallest_ratio_of
from whest.scoring.seeds import split_error
from whest.scoring.serial import group_means

SIZES = st.integers(2, 40)
SCORES = SIZES.flatmap(lambda n: st.tuples(*[arrays(np.float64, n, elements=st.floats(1e-9, 1e3))] * 2))
PROPERTY = settings(max_examples=60, deadline=None)


def skewed(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two seeds of one sampler: MLPs differ by factors, and so do the seeds on each of them."""
    hardness = 3e-6 * rng.lognormal(0, 0.6, n)
    return hardness * rng.lognormal(0, 0.4, n), hardness * rng.lognormal(0, 0.4, n)


@PROPERTY
@given(SCORES)
def test_swapping_the_sides_mirrors_everything(scores: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = scores
    one, other = Paired(a, b, n_resamples=100), Paired(b, a, n_resamples=100)
    assert one.difference == -other.difference
    assert one.is_resolved == other.is_resolved
    assert one.wins + other.wins + one.ties == len(a)
    assert one.n_needed == other.n_needed
    assert one.t_interval is not None
    assert other.t_interval is not None
    assert (one.t_interval.low, one.t_interval.high) == pytest.approx((-other.t_interval.high, -other.t_interval.low))
    if one.ratio_interval and other.ratio_interval and other.ratio_interval.low > 0:
        assert one.ratio_interval.high == pytest.approx(1 / other.ratio_interval.low, rel=1e-4)


@PROPERTY
@given(SCORES, st.floats(1e-3, 1e3))
def test_the_unit_of_the_score_changes_no_verdict(scores: tuple[np.ndarray, np.ndarray], unit: float) -> None:
    a, b = scores
    plain, scaled = Paired(a, b), Paired(a * unit, b * unit)
    assert plain.t_interval is not None
    margin = min(abs(plain.t_interval.low), abs(plain.t_interval.high))
    if margin > 1e-9 * float(np.abs(np.concatenate(scores)).max()):  # else rounding decides
        assert scaled.is_resolved == plain.is_resolved
    assert scaled.ratio == pytest.approx(plain.ratio)


@PROPERTY
@given(st.integers(0, 10_000), st.integers(3, 50))
def test_the_ratio_leaves_out_one_exactly_where_the_difference_leaves_out_zero(seed: int, n: int) -> None:
    a, b = skewed(np.random.default_rng(seed), n)
    paired = Paired(a, b)
    if paired.ratio_interval is not None:
        assert (1 not in paired.ratio_interval) == paired.is_resolved
        assert paired.ratio is not None
        assert paired.ratio in paired.ratio_interval


def test_the_t_interval_and_p_value_are_the_textbooks() -> None:
    a, b = skewed(np.random.default_rng(1), 12)
    paired, expected = Paired(a, b, confidence=0.9), stats.ttest_rel(a, b)
    low, high = expected.confidence_interval(0.9)
    assert paired.t_interval is not None
    assert (paired.t_interval.low, paired.t_interval.high) == pytest.approx((low, high))
    assert paired.p_value == pytest.approx(expected.pvalue)


def test_over_500_null_comparisons_the_intervals_leave_out_zero_3_to_7_percent_of_the_time() -> None:
    rng, missed = np.random.default_rng(20260525), np.zeros(2)
    for _ in range(500):
        paired = Paired(*skewed(rng, int(rng.integers(10, 51))), n_resamples=1000)
        assert paired.t_interval is not None
        assert paired.bootstrap_interval is not None
        missed += [0 not in paired.t_interval, 0 not in paired.bootstrap_interval]
    t, bootstrap = missed / 500
    assert 0.03 <= t <= 0.07, t
    assert 0.03 <= bootstrap <= 0.07, bootstrap


def test_the_ratios_interval_holds_a_true_ratio_as_often_as_it_says() -> None:
    rng, held, n_tries = np.random.default_rng(3), 0, 2000
    for _ in range(n_tries):
        a, b = skewed(rng, 30)
        interval = Paired(1.3 * a, b).ratio_interval
        held += interval is not None and 1.3 in interval
    assert abs(held / n_tries - 0.95) < 6 * math.sqrt(0.05 * 0.95 / n_tries)


def test_as_many_mlps_as_are_needed_resolve_the_difference_four_times_in_five() -> None:
    rng, n_tries = np.random.default_rng(4), 2000
    known = Paired(*(np.array(side) for side in zip(*[(1.5, 0.0), (-0.5, 0.0)] * 500, strict=True)))  # mean ½, sd 1
    n = known.n_needed
    assert n is not None
    power = np.mean([Paired(rng.normal(0.5, 1, n), np.zeros(n)).is_resolved for _ in range(n_tries)])
    assert abs(power - POWER) < 6 * math.sqrt(POWER * (1 - POWER) / n_tries) + 0.01


def test_a_larger_difference_needs_fewer_mlps() -> None:
    a, b = skewed(np.random.default_rng(5), 40)
    needed = [Paired(factor * a, b).n_needed for factor in (1.5, 2, 4, 8)]
    assert all(more is not None and less is not None and more >= less for more, less in pairwise(needed))


def test_a_sampler_against_itself_needs_no_number_of_mlps() -> None:
    rng = np.random.default_rng(8)
    pairs = [Paired(*skewed(rng, 20)) for _ in range(300)]
    guesses = [pair.n_needed for pair in pairs if not pair.is_resolved]
    assert sum(needed is not None for needed in guesses) < 0.15 * len(guesses)
    words = verdict(next(pair for pair in pairs if pair.n_needed is None), "A", "B")
    assert words == "not resolved: on 20 MLPs the difference of A and B is near its error, or none"


def test_the_bootstrap_repeats_with_its_seed() -> None:
    a, b = skewed(np.random.default_rng(6), 20)
    first, same, other = (Paired(a, b, seed=seed).bootstrap_interval for seed in (0, 0, 1))
    assert first == same != other


def test_verdicts_in_words() -> None:
    rng = np.random.default_rng(7)
    b = rng.lognormal(0, 0.5, 50)
    a = b / 1.06 * rng.lognormal(0, 0.05, 50)
    words = verdict(Paired(a, b), "A", "B")
    assert words.startswith("A is 1.0")
    assert "× better than B, 95 % 1.0" in words
    assert words.endswith("of 50 MLPs")
    assert verdict(Paired(b, a), "B", "A").replace("B", "x") == words.replace("B", "x")
    noise = rng.lognormal(0, 0.5, 50)
    seen = Paired(rng.normal(0.25, 1, 50), np.zeros(50))
    assert 1.5 < abs(seen.difference) / (seen.standard_error or 0) < 2, "seen, but not resolved"
    assert verdict(seen, "A", "B").startswith("not resolved: A against B needs ~")
    assert verdict(Paired(b, b), "A", "B") == "A and B score the same on all 50 MLPs"
    assert "one MLP has no error bar" in verdict(Paired(a[:1], b[:1]), "A", "B")
    higher = verdict(Paired(b, 2 * b + 0.01 * noise, lower_is_better=False), "A", "B")
    assert higher.startswith("B is 2.0")
    below_zero = verdict(Paired(b - 10, 2 * b), "A", "B")
    assert "× " not in below_zero, "a ratio of a loss and a gain says nothing"


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([], []), ([math.nan], [1.0]), ([1.0], [math.inf])])
def test_what_cannot_be_paired_is_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match=r"same cases|must be finite"):
        Paired(np.array(a), np.array(b))


def test_an_interval_holds_its_ends() -> None:
    assert all(value in Interval(1, 2) for value in (1, 1.5, 2))
    assert 2.1 not in Interval(1, 2)


def test_bias_and_noise_come_apart_without_bias_of_their_own() -> None:
    """Known values: bias² 4e-4 on every neuron, noise 1e-3, a mean error of the truth of 2e-4; three seeds."""
    rng = np.random.default_rng(8)
    n_seeds, n_mlps, width = 3, 400, 64
    truth_error = rng.normal(0, math.sqrt(2e-4), (n_mlps, width))
    answers = 0.02 + rng.normal(0, math.sqrt(1e-3), (n_seeds, n_mlps, width))
    mses = np.square(answers - truth_error).mean(axis=2)
    split = split_error(mses, answers, np.full(n_mlps, 2e-4))
    assert split.bias_se is not None
    assert split.noise_se is not None
    assert abs(split.bias - 4e-4) < 6 * split.bias_se
    assert abs(split.noise - 1e-3) < 6 * split.noise_se
    assert split.mse == pytest.approx(split.bias + split.noise + 2e-4)
    assert split.noise_share == pytest.approx(split.noise / (split.noise + split.bias))
    with pytest.raises(ValueError, match="n_seeds=1: noise and bias"):
        split_error(mses[:1], answers[:1], np.zeros(n_mlps))


def test_the_sign_flip_test_is_the_enumeration_of_all_signs() -> None:
    rng = np.random.default_rng(9)
    for n in (2, 5, 9):
        d = rng.normal(0.3, 1, n)
        expected = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
        assert sign_flip_p(d) == pytest.approx(expected)
        assert Paired(d, np.zeros(n)).sign_flip_p == pytest.approx(expected)
    assert sign_flip_p(np.abs(d)) == smallest_p(9) == 2 / 2**9
    assert sign_flip_p(np.zeros(4)) == 1
    assert sign_flip_p(1e-300 * np.array([0.1, 0.2, 0.3])) == 0.25, "equal sums by another order of addition count"
    assert sign_flip_p(np.ones(1)) is None
    assert sign_flip_p(np.ones(14)) is None


def test_under_the_null_the_sign_flip_test_keeps_its_level_with_skewed_scores() -> None:
    rng, n_tries = np.random.default_rng(10), 2000
    refused = np.mean([Paired(*skewed(rng, 8)).sign_flip_p <= 0.05 for _ in range(n_tries)])  # type: ignore[operator]
    assert refused < 0.05 + 6 * math.sqrt(0.05 * 0.95 / n_tries)


def test_a_verdict_of_few_mlps_says_that_it_rests_on_normality() -> None:
    five = Paired(np.full(5, 1.0) + 0.01 * np.arange(5), np.full(5, 3.0))
    assert five.is_resolved
    assert five.rests_on_normality
    words = verdict(five, "A", "B")
    assert "rests on normality alone: the exact sign-flip test has p = 0.0625" in words
    assert words.endswith("and 5 MLPs cannot go below 0.0625")
    six = Paired(np.full(6, 1.0) + 0.01 * np.arange(6), np.full(6, 3.0))
    assert not six.rests_on_normality
    assert "normality" not in verdict(six, "A", "B")
    mixed = Paired(np.array([-0.5, 1.5, 1.6, 1.4, 1.5, 1.6, 1.5]), np.zeros(7))
    assert mixed.is_resolved == ("normality" in verdict(mixed, "A", "B") or (mixed.sign_flip_p or 1) <= 0.05)


@pytest.mark.parametrize(("n", "spread", "correlation"), [(5, 0.1, 0.0), (20, 0.3, 0.0), (50, 0.5, 0.8)])
def test_the_smallest_ratio_is_resolved_four_times_in_five(n: int, spread: float, correlation: float) -> None:
    rng, n_tries = np.random.default_rng(11), 2000
    ratio = smallest_ratio(n, (spread, spread), correlation)
    assert ratio is not None
    both = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], (n_tries, n))
    better, worse = 1 + spread * both[..., 0], ratio * (1 + spread * both[..., 1])
    t = (better - worse).mean(axis=1) / ((better - worse).std(axis=1, ddof=1) / math.sqrt(n))
    power = np.mean(np.abs(t) > stats.t.ppf(0.975, n - 1))
    assert abs(power - POWER) < 4 * math.sqrt(POWER * (1 - POWER) / n_tries)


def test_a_spread_that_hides_every_ratio_has_none() -> None:
    assert smallest_ratio(5, (1.0, 1.0)) is None
    assert smallest_ratio(1, (0.1, 0.1)) is None
    assert smallest_ratio_of([1.0]) is None
    assert smallest_ratio_of([1.0, None]) is None
    assert smallest_ratio_of([0.0, 0.0]) is None
    a, b = 1 + 0.3 * np.sin(np.arange(50)), 1 + 0.3 * np.cos(np.arange(50))
    alone, together = smallest_ratio_of(list(a)), Paired(a, b).smallest_ratio
    assert alone == pytest.approx(together, rel=0.02), "the two are not correlated and spread alike"
    shifted = Paired(a, 1.001 * a)
    assert shifted.smallest_ratio == pytest.approx(1, abs=1e-6), "what is always the same share is seen at once"


def test_intervals_of_a_stream_hold_where_its_blocks_are_alike() -> None:
    """Differences with a correlation of 0.5 between neighbours: single blocks miss far too often, groups hardly."""
    rng, n_tries, missed = np.random.default_rng(12), 400, np.zeros(2)
    for _ in range(n_tries):
        d = rng.normal(0, 1, 164)
        for t in range(1, d.size):
            d[t] += 0.5 * d[t - 1]
        pairs = [Paired(d[100:], np.zeros(64), is_serial=serial) for serial in (False, True)]
        missed += [pair.is_resolved for pair in pairs]
    single, grouped = missed / n_tries
    assert single > 0.2
    assert grouped < 0.12


def test_a_stream_is_compared_by_groups() -> None:
    a, b = skewed(np.random.default_rng(13), 64)
    serial, grouped = Paired(a, b, is_serial=True), Paired(group_means(a, 8), group_means(b, 8))
    for name in ("t_interval", "ratio_interval", "bootstrap_interval"):
        assert vars(getattr(serial, name)) == pytest.approx(vars(getattr(grouped, name)))
    assert serial.sign_flip_p == grouped.sign_flip_p
    assert serial.wins == Paired(a, b).wins
    short = Paired(a[:7], b[:7], is_serial=True)
    assert short.t_interval is None
    assert not short.is_resolved
    assert verdict(short, "A", "B", "block") == "not resolved: 7 blocks in a row have no error bar (A against B)"
    assert group_means(np.arange(10.0), 4).tolist() == [1, 4, 6.5, 8.5]


def test_job_list_says_what_a_suite_resolves() -> None:
    assert _power(50) == "it resolves 1.06× at 10%, 1.19× at 30%, 1.85× at 100% spread of the scores"
    assert _power(5) == "it resolves 1.27× at 10%, 2.24× at 30% spread of the scores, and no ratio at 100%"
    assert power_words(None, 5) == ("no ratio", "5 MLPs can't tell two scores with a spread like this apart")
    assert power_words(1.1562, 50)[0] == "1.16×"
