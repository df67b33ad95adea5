"""The power of a suite: the smallest ratio of two scores that n cases can resolve.

Let the better run have the mean 1 and the worse the mean r. Each one's scores spread by a share c of its own mean over
the cases, with the correlation ρ. Then the paired differences have the variance c_b² + r²·c_w² − 2·r·ρ·c_b·c_w, and the
t test of the level 1 − α resolves r with the chance `POWER` if

    (r − 1)·√n = λ(n) · √(c_b² + r²·c_w² − 2·r·ρ·c_b·c_w),

where a noncentral t with n − 1 degrees of freedom and centre λ(n) exceeds t_{1 − α/2} with that chance; for large n
λ is z_{1 − α/2} + z_{POWER} = 2.80 at 95 %. With k = λ/√n this is (1 − k²c_w²)·r² − 2·(1 − k²·ρ·c_b·c_w)·r +
(1 − k²c_b²) = 0, and r is its larger root. If k·c_w is 1 or more, no ratio is resolved, however large.

One run alone doesn't know ρ. A rival with the same spread that finds other cases hard (ρ = 0) is the worst case.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

POWER = 0.8
"""The chance that a difference of this size is resolved."""


def smallest_ratio(
    n_cases: int, spreads: tuple[float, float], correlation: float = 0.0, confidence: float = 0.95
) -> float | None:
    """The ratio r above. `spreads` are those of the better and the worse run. None if no ratio is resolved."""
    if n_cases < 2 or not all(map(math.isfinite, spreads)):
        return None
    k = centre(n_cases - 1, confidence) / math.sqrt(n_cases)
    better, worse = k * spreads[0], k * spreads[1]
    square, cross, rest = 1 - worse**2, 1 - correlation * better * worse, 1 - better**2
    root = max(0.0, cross**2 - square * rest)
    return (cross + math.sqrt(root)) / square if square > 0 else None


@cache
def centre(freedom: int, confidence: float) -> float:
    """λ above. Every run prints it, and `import scipy.special` alone takes a tenth of a run's time: so no scipy here.

    With V a χ² variable, P(T ≤ t) = E Φ(t·√(V/freedom) − λ). √V is within 9 of √freedom but for 1e-15.
    """
    nodes, node_weights = np.polynomial.legendre.leggauss(120)
    low, high = max(0.0, math.sqrt(freedom) - 9), math.sqrt(freedom) + 9
    chi = (high + low) / 2 + (high - low) / 2 * nodes
    log_density = (freedom - 1) * np.log(chi) - np.square(chi) / 2
    density = node_weights * np.exp(log_density - log_density.max())
    terms = list(zip((density / density.sum()).tolist(), (chi / math.sqrt(2 * freedom)).tolist(), strict=True))

    def below(t: float, shift: float) -> float:
        return math.fsum(share * (1 + math.erf(t * x - shift / math.sqrt(2))) / 2 for share, x in terms)

    threshold = _root(lambda t: below(t, 0.0) - (1 + confidence) / 2, 0.0, 1.0)
    return _root(lambda shift: 1 - POWER - below(threshold, shift), 0.0, 1.0)


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    while rising(high) < 0:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


def smallest_ratio_of(scores: Sequence[float | None]) -> float | None:
    """The same for one run's scores and a rival with the same spread that finds other cases hard."""
    known = [score for score in scores if score is not None and math.isfinite(score)]
    if len(known) < 2 or len(known) < len(scores) or min(known) < 0 or not any(known):
        return None
    mean = math.fsum(known) / len(known)
    spread = math.sqrt(math.fsum((score - mean) ** 2 for score in known) / (len(known) - 1)) / mean
    return smallest_ratio(len(known), (spread, spread))


def power_words(ratio: float | None, n_cases: int, unit: str = "MLP") -> tuple[str, str]:
    """A figure and its remark, for console and page."""
    if ratio is None:
        return "no ratio", f"{n_cases} {unit}s can't tell two scores with a spread like this apart"
    return (
        f"{ratio:.3g}×",
        f"the smallest ratio that {n_cases} {unit}s tell apart, if a rival's scores spread as much",
    )
