"""Comparison on the same cases: paired differences and ratios of means.

An MLP that is hard for one estimator is hard for the other too. So the differences spread far less than the scores.
The t interval decides. Fieller's interval for the ratio of means is the same test at every ratio, so it excludes 1
exactly when the t interval excludes 0. The bootstrap interval and the exact sign-flip test beside them assume no normal
distribution. Cases of a stream are taken in groups (`serial.py`). All functions are pure.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import special  # scipy.stats has the same functions, and takes 0.9 s to import

from whest.scoring.exact import sign_flip_p, smallest_p
from whest.scoring.power import POWER, smallest_ratio
from whest.scoring.serial import group_means, n_groups

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
    is_serial: bool = False
    """Whether the cases are in the order of a stream, where neighbours are alike."""

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
    def n_units(self) -> int:
        """The number of independent parts: the cases, or the groups of a stream."""
        return n_groups(self.n_cases) if self.is_serial else self.n_cases

    @cached_property
    def unit_differences(self) -> Scores:
        """The differences of the cases, or the mean differences of the groups of a stream."""
        return self._units(self.differences)

    @property
    def standard_error(self) -> float | None:
        return float(self.unit_differences.std(ddof=1)) / math.sqrt(self.n_units) if self.n_units > 1 else None

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
        return float(2 * special.stdtr(self.n_units - 1, -abs(self.difference) / self.standard_error))

    @cached_property
    def sign_flip_p(self) -> float | None:
        """The exact test's p-value; None for one case or group, and for more than 13."""
        return sign_flip_p(self.unit_differences) if self.n_units > 1 else None

    @property
    def rests_on_normality(self) -> bool:
        """Whether the t interval resolves a difference that the exact test doesn't."""
        return self.is_resolved and self.sign_flip_p is not None and self.sign_flip_p > 1 - self.confidence

    @property
    def smallest_ratio(self) -> float | None:
        """The smallest ratio that this number of cases resolves with the chance `POWER`, at this spread."""
        if self.ratio is None or self.n_units < 2:
            return None
        better, worse = sorted((self._units(self.a), self._units(self.b)), key=lambda scores: float(scores.mean()))
        cov = np.cov(better / better.mean(), worse / worse.mean(), ddof=1)
        spreads = math.sqrt(cov[0, 0]), math.sqrt(cov[1, 1])
        correlation = float(cov[0, 1]) / (spreads[0] * spreads[1]) if all(spreads) else 0.0
        return smallest_ratio(self.n_units, spreads, correlation, self.confidence)

    @cached_property
    def bootstrap_interval(self) -> Interval | None:
        """Quantiles of resampled mean differences, with t·√(n/(n − 1)) in place of the normal quantile.

        Without this correction, intervals from a dozen MLPs miss the true difference twice as often as they should.
        """
        n = self.n_units
        if n < 2:
            return None
        tail = float(special.ndtr(-math.sqrt(n / (n - 1)) * self._t))
        low, high = np.quantile(self._resampled_means(), [tail, 1 - tail])
        return Interval(float(low), float(high))

    @property
    def ratio_interval(self) -> Interval | None:
        """Fieller's interval: every ratio r for which `a − r·b` is not resolved from zero; None if it is unbounded."""
        ratio = self.ratio
        if ratio is None or self.n_units < 2:
            return None
        scale = float(self.b.mean())
        a, b = self._units(self.a) / scale, self._units(self.b) / scale
        noise = np.cov(a, b, ddof=1) / self.n_units * self._t**2
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
        z = float(special.ndtri((1 + self.confidence) / 2))
        spread = float(self.unit_differences.std(ddof=1)) / abs(self.difference)
        needed = ((z + float(special.ndtri(POWER))) * spread) ** 2 + z**2 / 2  # the last term corrects for t's tails
        needed *= self.n_cases / self.n_units
        return max(2, math.ceil(needed)) if math.isfinite(needed) else None

    @property
    def _t(self) -> float:
        return float(special.stdtrit(self.n_units - 1, (1 + self.confidence) / 2))

    def _units(self, values: Scores) -> Scores:
        return group_means(values, self.n_units) if self.is_serial else values

    def _resampled_means(self) -> Float[np.ndarray, " resample"]:
        """Drawn in slices, so that a thousand cases don't fill the memory."""
        rng, n = np.random.default_rng(self.seed), self.n_units
        rows = max(1, 2_000_000 // n)
        sizes = [min(rows, self.n_resamples - first) for first in range(0, self.n_resamples, rows)]
        return np.concatenate([self.unit_differences[rng.integers(0, n, (size, n))].mean(axis=1) for size in sizes])


def verdict(paired: Paired, a: str, b: str, unit: str = "MLP") -> str:
    """The comparison in words. `unit` names the kind of case, e.g. "MLP"."""
    n = paired.n_cases
    if paired.n_units < 2:
        few = f"one {unit} has" if n == 1 else f"{n} {unit}s in a row have"
        return f"not resolved: {few} no error bar ({a} against {b})"
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
    return f"{better} is {much} better than {worse}, {level} {ends}, {wins} of {n} {unit}s{_caveat(paired, unit)}"


def _caveat(paired: Paired, unit: str) -> str:
    """What to know of a resolved difference that only the t interval resolves."""
    if not paired.rests_on_normality:
        return ""
    n, p = paired.n_units, paired.sign_flip_p
    limit = smallest_p(n)
    words = f"; this rests on normality alone: the exact sign-flip test has p = {p:.3g}"
    parts = f"{n} groups of {unit}s" if paired.is_serial else f"{n} {unit}s"
    return f"{words}, and {parts} cannot go below {limit:.3g}" if limit > 1 - paired.confidence else words


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
