"""An interval that may be looked at after every case: a confidence sequence for the mean of paired differences.

The sequential t test of a normal mixture. With n differences, their mean m, standard deviation s and t = √n·(m − μ)/s,

    E_n(μ) = (1 + n·g)^(−1/2) · [ (1 + t²/(n − 1)) / (1 + t²/((n − 1)(1 + n·g))) ]^(n/2)

is the likelihood ratio of "the mean lies off μ by δ standard deviations, δ ~ N(0, g)" to "the mean is μ", with the
unknown standard deviation integrated out over the right Haar measure. If the differences are normal with mean μ, it is
a martingale that starts at 1, whatever the standard deviation. So the chance that it ever reaches 1/α is at most α, and
the means μ with E_n(μ) < 1/α are a 1 − α interval at all n together, m ± h.

Other distributions come near to this as n grows. Skewed differences come slowly, so the side of the long tail is
widened by the next term of the Cornish-Fisher expansion, γ·s·(2t² + 1)/(6n) with the skewness γ and t = √n·h/s, by h at
most. `benchmarks/sequential.py` shows the coverage.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from whest.scoring.paired import Interval

Scale = Literal["difference", "log"]

MIXTURE = 0.04
"""g: the variance of δ. A larger one decides large differences a few cases sooner, but covers skewed ones less."""
FIRST = 12
"""No interval before so many cases: the skewness of fewer is hardly known."""


def reach(n: int, deviation: float, alpha: float, mixture: float = MIXTURE) -> float | None:
    """Half the width of the interval; None while it is unbounded.

    E_n = 1/α at t²/(n − 1) = (K − 1)/(1 − K/(1 + n·g)) with K = (1/α)^(2/n) · (1 + n·g)^(1/n).
    """
    if n < 2:
        return None
    whole = 1 + n * mixture
    k = math.exp((2 * math.log(1 / alpha) + math.log(whole)) / n)
    if k >= whole:
        return None
    return deviation * math.sqrt((n - 1) / n * (k - 1) / (1 - k / whole))


@dataclass
class Sequence:
    """The interval of a growing list of pairs. `log` takes log(a/b), the ratio on a typical case."""

    confidence: float
    scale: Scale = "difference"
    lower_is_better: bool = True
    a: list[float] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    _mean: float = field(default=0.0, init=False)
    _squares: float = field(default=0.0, init=False)
    _cubes: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        pairs = list(zip(self.a, self.b, strict=True))
        self.a, self.b = [], []
        for a, b in pairs:
            self.add(a, b)

    def add(self, a: float, b: float) -> None:
        """One more case. The sums of squares and cubes about the mean are updated in place."""
        value = math.log(a / b) if self.scale == "log" else a - b
        self.a.append(a)
        self.b.append(b)
        n, before = self.n, value - self._mean
        step = before * before * (n - 1) / n
        self._cubes += step * before * (n - 2) / n - 3 * before / n * self._squares
        self._squares += step
        self._mean += before / n

    @property
    def n(self) -> int:
        return len(self.a)

    @property
    def mean(self) -> float:
        return self._mean

    @property
    def interval(self) -> Interval | None:
        """Of the mean difference, or of the mean log-ratio; None before the first look."""
        if self.n < FIRST:
            return None
        deviation = math.sqrt(self._squares / (self.n - 1))
        half = reach(self.n, deviation, 1 - self.confidence)
        if half is None:
            return None
        more = self._skew_term(half, deviation)
        return Interval(self.mean - half + min(more, 0.0), self.mean + half + max(more, 0.0))

    def _skew_term(self, half: float, deviation: float) -> float:
        if deviation == 0:
            return 0.0
        skewness = self._cubes * self.n / ((self.n - 1) * (self.n - 2) * deviation**3)
        t_squared = self.n * (half / deviation) ** 2
        more = skewness * deviation * (2 * t_squared + 1) / (6 * self.n)
        return max(-half, min(half, more))

    @property
    def is_decided(self) -> bool:
        return self.interval is not None and 0 not in self.interval

    @property
    def a_is_better(self) -> bool:
        return (self.mean < 0) == self.lower_is_better

    @property
    def ratio(self) -> float | None:
        """Of the means, or on the scale of logs the geometric mean of the ratios."""
        if self.scale == "log":
            return math.exp(self.mean)
        a, b = math.fsum(self.a), math.fsum(self.b)
        return a / b if a > 0 and b > 0 else None

    @property
    def wins(self) -> int:
        better = [a < b if self.lower_is_better else a > b for a, b in zip(self.a, self.b, strict=True)]
        return sum(better)

    @property
    def ties(self) -> int:
        return sum(a == b for a, b in zip(self.a, self.b, strict=True))
