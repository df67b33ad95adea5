"""Comparison on the same cases: paired differences, ratios of means, and the part of an error that is noise.

An MLP that is hard for one estimator is hard for the other too. So the differences spread far less than the scores.
The t interval decides. Fieller's interval for the ratio of means is the same test at every ratio, so it excludes 1
exactly when the t interval excludes 0. The bootstrap interval beside them assumes no normal distribution. All functions
are pure.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import stats

POWER = 0.8
"""The chance that `n_needed` cases resolve a difference as large as the one seen."""

SEEN = 1.5
"""Standard errors from which on a difference counts as seen, though not resolved."""

Scores = Float[np.ndarray, " case"]


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Paired:
    """Two runs' scores on the same cases. Differences and ratios are `a` against `b`."""

    a: Scores
    b: Scores
    lower_is_better: bool = True
    confidence: float = 0.95
    n_resamples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.a.shape != self.b.shape or self.a.ndim != 1 or not self.a.size:
            raise ValueError(f"a and b must be scores of the same cases, got shapes {self.a.shape} and {self.b.shape}")
        if not (np.isfinite(self.a).all() and np.isfinite(self.b).all()):
            raise ValueError("a and b must be finite: a score of NaN or infinity can't be compared")

    @property
    def n_cases(self) -> int:
        return self.a.size

    @cached_property
    def differences(self) -> Scores:
        return self.a - self.b

    @property
    def difference(self) -> float:
        return float(self.differences.mean())

    @property
    def standard_error(self) -> float | None:
        return float(self.differences.std(ddof=1)) / math.sqrt(self.n_cases) if self.n_cases > 1 else None

    @property
    def is_identical(self) -> bool:
        return not self.differences.any()

    @property
    def is_resolved(self) -> bool:
        """Whether the t interval excludes zero. One case is never enough."""
        return self.t_interval is not None and 0 not in self.t_interval

    @property
    def a_is_better(self) -> bool:
        return (self.difference < 0) == self.lower_is_better

    @property
    def wins(self) -> int:
        """The number of cases on which `a` is better."""
        better = self.differences < 0 if self.lower_is_better else self.differences > 0
        return int(better.sum())

    @property
    def ties(self) -> int:
        return int((self.differences == 0).sum())

    @property
    def ratio(self) -> float | None:
        """Mean of `a` over mean of `b`; None unless both means are positive."""
        a, b = float(self.a.mean()), float(self.b.mean())
        return a / b if a > 0 and b > 0 and math.isfinite(a / b) else None

    @property
    def t_interval(self) -> Interval | None:
        error = self.standard_error
        if error is None:
            return None
        reach = self._t * error
        return Interval(self.difference - reach, self.difference + reach)

    @property
    def p_value(self) -> float | None:
        if not self.standard_error:
            return None
        return float(2 * stats.t.sf(abs(self.difference) / self.standard_error, self.n_cases - 1))

    @cached_property
    def bootstrap_interval(self) -> Interval | None:
        """Quantiles of resampled mean differences, with t·√(n/(n − 1)) in place of the normal quantile.

        Without this correction, intervals from a dozen MLPs miss the true difference twice as often as they should.
        """
        n = self.n_cases
        if n < 2:
            return None
        tail = float(stats.norm.cdf(-math.sqrt(n / (n - 1)) * self._t))
        low, high = np.quantile(self._resampled_means(), [tail, 1 - tail])
        return Interval(float(low), float(high))

    @property
    def ratio_interval(self) -> Interval | None:
        """Fieller's interval: every ratio r for which `a − r·b` is not resolved from zero; None if it is unbounded."""
        ratio = self.ratio
        if ratio is None or self.n_cases < 2:
            return None
        scale = float(self.b.mean())
        a, b = self.a / scale, self.b / scale
        noise = np.cov(a, b, ddof=1) / self.n_cases * self._t**2
        square, cross, rest = 1 - noise[1, 1], ratio - noise[0, 1], ratio**2 - noise[0, 0]
        root = cross**2 - square * rest
        if square <= 0 or root < 0:
            return None
        return Interval(float(cross - math.sqrt(root)) / square, float(cross + math.sqrt(root)) / square)

    @property
    def n_needed(self) -> int | None:
        """The cases needed to resolve such a difference with the chance `POWER`.

        None for a difference that is near its own standard error: it may be none at all, as between two runs of one
        sampler, and a number made from it would be a guess.
        """
        error = self.standard_error
        if error is None or abs(self.difference) <= SEEN * error:
            return None
        z = float(stats.norm.ppf((1 + self.confidence) / 2))
        spread = float(self.differences.std(ddof=1)) / abs(self.difference)
        needed = ((z + float(stats.norm.ppf(POWER))) * spread) ** 2 + z**2 / 2  # the last term corrects for t's tails
        return max(2, math.ceil(needed)) if math.isfinite(needed) else None

    @property
    def _t(self) -> float:
        return float(stats.t.ppf((1 + self.confidence) / 2, self.n_cases - 1))

    def _resampled_means(self) -> Float[np.ndarray, " resample"]:
        """Drawn in slices, so that a thousand cases don't fill the memory."""
        rng, n = np.random.default_rng(self.seed), self.n_cases
        rows = max(1, 2_000_000 // n)
        sizes = [min(rows, self.n_resamples - first) for first in range(0, self.n_resamples, rows)]
        return np.concatenate([self.differences[rng.integers(0, n, (size, n))].mean(axis=1) for size in sizes])


def verdict(paired: Paired, a: str, b: str, unit: str = "MLP") -> str:
    """The comparison in words. `unit` names the kind of case, e.g. "MLP"."""
    n = paired.n_cases
    if n < 2:
        return f"not resolved: one {unit} has no error bar ({a} against {b})"
    if paired.is_identical:
        return f"{a} and {b} score the same on all {n} {unit}s"
    if not paired.is_resolved:
        needed = paired.n_needed
        if needed is None:
            return f"not resolved: on {n} {unit}s the difference of {a} and {b} is near its error, or none"
        return f"not resolved: {a} against {b} needs ~{_round(needed)} {unit}s, there are {n}"
    better, worse = (a, b) if paired.a_is_better else (b, a)
    wins = paired.wins if paired.a_is_better else n - paired.wins - paired.ties
    much, ends = _how_much(paired)
    level = f"{100 * paired.confidence:.3g} %"
    return f"{better} is {much} better than {worse}, {level} {ends}, {wins} of {n} {unit}s"


def _how_much(paired: Paired) -> tuple[str, str]:
    """The size of the difference and its interval: a ratio above 1, or the difference if there is no ratio."""
    ratio, interval = paired.ratio, paired.ratio_interval
    if ratio is None or interval is None or interval.low <= 0:
        assert paired.t_interval is not None
        ends = sorted((abs(paired.t_interval.low), abs(paired.t_interval.high)))
        return f"{abs(paired.difference):.3g}", f"{ends[0]:.3g}–{ends[1]:.3g}"
    if ratio < 1:
        ratio, interval = 1 / ratio, Interval(1 / interval.high, 1 / interval.low)
    digits = max(2, 1 - math.floor(math.log10(ratio - 1))) if 1 < ratio < 10 else 1
    digits = min(digits, 6)
    return f"{ratio:.{digits}f}×", f"{interval.low:.{digits}f}–{interval.high:.{digits}f}"


def _round(count: int) -> str:
    """Rounded to two digits, because it is an estimate."""
    return f"{float(f'{count:.2g}'):,.0f}" if count >= 10 else str(count)


@dataclass(frozen=True)
class ErrorSplit:
    """An estimator's MSE in two parts: the bias stays when seeds are averaged, the noise averages out."""

    n_seeds: int
    n_mlps: int
    mse: float
    bias: float
    """Bias squared, without the truth's own noise. It is an unbiased estimate, so it can be below zero."""
    bias_se: float | None
    noise: float
    noise_se: float | None

    @property
    def noise_share(self) -> float | None:
        whole = self.bias + self.noise
        return min(1.0, self.noise / whole) if whole > 0 else None


def split_error(
    mses: Float[np.ndarray, "seed mlp"],
    predictions: Float[np.ndarray, "seed mlp width"],
    floors: Float[np.ndarray, " case"],
) -> ErrorSplit:
    """Bias and noise from replicates that differ only in their seed.

    With K predictions p_k of an MLP, `noise = mean_j Var_k(p_kj)` with K − 1 in the denominator is unbiased, and so is
    `bias² = mean_k MSE_k − noise − floor`. The floor is subtracted because the truth's error is common to all seeds
    and would look like bias.
    """
    n_seeds, n_mlps = mses.shape
    if n_seeds < 2:
        raise ValueError(f"n_seeds={n_seeds}: noise and bias can be separated only with 2 seeds or more")
    noise = predictions.astype(np.float64).var(axis=0, ddof=1).mean(axis=1)
    bias = mses.mean(axis=0) - noise - floors
    return ErrorSplit(
        n_seeds, n_mlps, float(mses.mean()), float(bias.mean()), _error(bias), float(noise.mean()), _error(noise)
    )


def _error(values: Scores) -> float | None:
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else None
