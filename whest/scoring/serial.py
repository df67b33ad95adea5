"""Cases in the order of a stream: neighbours are alike, so blocks of blocks take the place of single cases.

The mean of n correlated cases has the variance Γ/n, where the long-run variance Γ adds the covariances of all
distances. Means of long enough groups of consecutive cases are nearly independent, and their variance is Γ/length. So
the t interval of the group means holds, with one degree of freedom less than there are groups.
"""

import numpy as np
from jaxtyping import Float

MOST_GROUPS = 8
"""Few and long: `python benchmarks/blocks.py` shows the coverage of other numbers."""
SHORTEST = 4
"""Cases per group at least."""

SERIAL = ("block",)
"""Units whose cases are in the order of a stream."""


def n_groups(n_cases: int) -> int:
    """The number of groups; below 2 there is no interval."""
    return min(MOST_GROUPS, n_cases // SHORTEST)


def group_means(values: Float[np.ndarray, " case"], groups: int) -> Float[np.ndarray, " group"]:
    """The means of consecutive groups, whose sizes differ by one at most."""
    return np.array([part.mean() for part in np.array_split(values, max(groups, 1))])
