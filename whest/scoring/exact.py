"""The exact sign-flip test of paired differences. It assumes no distribution, only that signs are as likely either way.

If two runs are equally good, each difference is as likely `d` as `−d`. So all 2ⁿ choices of signs are equally likely,
and the p-value is the share of them whose sum is at least as far from zero as the one seen. The smallest possible value
is 2/2ⁿ: five MLPs can't go below 0.0625, however large the difference.
"""

import numpy as np
from jaxtyping import Float

MOST_CASES = 13
"""Up to 8,192 choices of signs. With more cases the t interval no longer leans on the shape of the distribution."""

ROUNDING = 1e-9
"""Sums that differ by this share of Σ|d| are equal: the order of an addition must not decide."""


def sign_flip_p(differences: Float[np.ndarray, " case"]) -> float | None:
    """The two-sided p-value; None for one case, and for more cases than `MOST_CASES`."""
    n = differences.size
    if not 2 <= n <= MOST_CASES:
        return None
    largest = np.abs(differences).max()
    if largest == 0:
        return 1.0
    d = differences / largest
    signs = 1 - 2 * ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1)  # the last sign stays: |Σ| is symmetric
    sums = np.abs(signs @ d)
    return float(np.mean(sums >= abs(d.sum()) - ROUNDING * np.abs(d).sum()))


def smallest_p(n_cases: int) -> float:
    """The p-value if one side is better on every case: no test without further assumptions can go below it."""
    return 2.0 ** (1 - n_cases)
