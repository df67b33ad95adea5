"""The interval that may be looked at after every case."""

import math

import numpy as np
import pytest
from scipy import stats

from whest.compare.until import IDENTICAL, Decision, Spent, is_over, is_told, look
from whest.scoring.sequential import FIRST, MIXTURE, Sequence, reach


def evidence(n: int, t: float, mixture: float) -> float:
    """E_n by integrating the noncentral t's likelihood ratio over δ ~ N(0, g): the definition, not the closed form."""
    grid = np.linspace(-8, 8, 20_001) * math.sqrt(mixture)
    ratio = stats.nct.pdf(t, n - 1, grid * math.sqrt(n)) / stats.t.pdf(t, n - 1)
    return float(np.trapezoid(ratio * stats.norm.pdf(grid, 0, math.sqrt(mixture)), grid))


@pytest.mark.parametrize(("n", "mixture"), [(20, 0.04), (15, 1.0), (80, 0.1)])
def test_at_its_reach_the_evidence_is_one_over_alpha(n: int, mixture: float) -> None:
    half = reach(n, 2.0, 0.05, mixture)
    assert half is not None
    assert evidence(n, math.sqrt(n) * half / 2.0, mixture) == pytest.approx(20, rel=1e-3)


def test_the_running_sums_are_those_of_all_cases() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.lognormal(0, 1, 40), rng.lognormal(0, 1, 40)
    sequence = Sequence(0.95, a=a.tolist(), b=b.tolist())
    d, n = a - b, 40
    assert sequence.mean == pytest.approx(d.mean())
    half = reach(n, d.std(ddof=1), 0.05)
    assert half is not None
    more = stats.skew(d) * (n / (n - 1)) ** -1.5 * n**2 / ((n - 1) * (n - 2))
    more *= d.std(ddof=1) * (2 * n * (half / d.std(ddof=1)) ** 2 + 1) / (6 * n)
    assert sequence.interval is not None
    assert sequence.interval.low == pytest.approx(d.mean() - half + max(-half, min(0, more)))
    assert sequence.interval.high == pytest.approx(d.mean() + half + min(half, max(0, more)))
    assert sequence.wins + Sequence(0.95, a=b.tolist(), b=a.tolist()).wins == n


@pytest.mark.parametrize("is_skewed", [False, True])
def test_under_the_null_few_of_many_sequences_ever_leave_out_zero(is_skewed: bool) -> None:
    rng, n_tries, missed = np.random.default_rng(2), 400, 0
    for _ in range(n_tries):
        d = rng.exponential(1, 200) - 1 if is_skewed else rng.normal(0, 1, 200)
        sequence = Sequence(0.95)
        for value in d:
            sequence.add(float(value), 0.0)
            if sequence.is_decided:
                missed += 1
                break
    assert missed / n_tries < 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_tries)


def test_a_difference_is_decided_and_named() -> None:
    rng = np.random.default_rng(3)
    sequence = Sequence(0.95)
    while not is_over(sequence, 500):
        hard = rng.lognormal(0, 0.5)
        sequence.add(2 * hard, hard)
    assert FIRST <= sequence.n < 60
    decision = Decision("A", "B", sequence, 500, (Spent(10, 1.0), Spent(20, 2.0)), 3, 1000, 0.5)
    assert decision.verdict.startswith(f"B is 2× better than A, decided after {sequence.n} MLPs ({sequence.n} of ")
    assert decision.verdict.endswith("95 % at every look")
    assert decision.to_json()["is_decided"]
    assert look(sequence, "A", "B").endswith("decided")
    assert "3 truths drawn now with 1e+03 samples in 0.5 s" in decision.cost
    typical = Sequence(0.95, "log", a=sequence.a, b=sequence.b)
    assert typical.ratio == pytest.approx(2)
    assert "typical ratio of A to B lies in [2, 2]" in Decision("A", "B", typical, 500, decision.spent, 0, 0, 0).verdict


def test_what_is_never_decided_ends_too() -> None:
    same = Sequence(0.95)
    while not is_over(same, 500):
        same.add(1.0, 1.0)
    assert same.n == IDENTICAL
    assert "score the same on all 24 MLPs" in Decision("A", "B", same, 500, (Spent(0, 0), Spent(0, 0)), 0, 0, 0).verdict
    mixed = Sequence(0.95)
    while not is_over(mixed, 30):
        mixed.add(1.0 + mixed.n % 2, 1.5)
    assert mixed.n == 30
    verdict = Decision("A", "B", mixed, 30, (Spent(0, 0), Spent(0, 0)), 0, 0, 0).verdict
    assert verdict.startswith("not decided after 30 MLPs (compare.max_mlps is 30): the difference of A to B lies in [-")
    assert Sequence(0.95, a=[1.0] * 5, b=[2.0] * 5).interval is None, "five are too few for a skewness"


def test_the_interval_is_unbounded_at_first_and_then_narrows() -> None:
    assert reach(1, 1.0, 0.05) is None
    assert reach(3, 1.0, 0.05) is None
    reaches = [reach(n, 1.0, 0.05, MIXTURE) for n in (30, 100, 1000)]
    assert all(one is not None for one in reaches)
    assert reaches == sorted(reaches, reverse=True)  # type: ignore[type-var]
    assert [n for n in range(1, 60) if is_told(n)] == [12, 17, 24, 34, 48]
