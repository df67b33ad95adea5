"""The largest size of a sampler whose metered cost is within the budget, and the fallback if there is none.

The meter reads only shapes, so all of this happens while tracing and costs nothing.
"""

import math
from collections.abc import Callable

from jaxtyping import Array, Float, PRNGKeyArray

from estimators.mean_prop import MeanProp
from estimators.parts import fallback
from whest.estimator import MLPView
from whest.metering import meter

Sampler = Callable[[Float[Array, "depth width width"], PRNGKeyArray, int], Float[Array, "depth width"]]
"""(weights, key, size) -> means."""
ROUNDS = 8
"""The most prices to try. Two or three are enough, because the price is linear in the size, except for rounding."""


def affordable(sampler: Sampler, mlp: MLPView, limit: float) -> int:
    """The largest size of this sampler whose metered price is within the limit; 0 if there is none."""
    return largest(lambda size: price(sampler, mlp, size), limit)


def price(sampler: Sampler, mlp: MLPView, size: int) -> int:
    return meter(lambda weights, key: sampler(weights, key, size))(mlp.weights, mlp.key).flops


def largest(flops: Callable[[int], int], limit: float) -> int:
    """The largest size whose price is within the limit, by the secant method. The price of the result was computed."""
    size, cost = 1, flops(1)
    if cost > limit:
        return 0
    too_large, step = math.inf, 1
    for _ in range(ROUNDS):
        guess = int(min(size + step, too_large - 1))
        if guess <= size:
            break
        priced = flops(guess)
        slope = max(1.0, (priced - cost) / (guess - size))
        if priced <= limit:
            size, cost = guess, priced
        else:
            too_large = guess
        step = int((limit - cost) // slope)
    return size


def fall_back(mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
    """The answer if the budget pays for no sample: mean propagation if it is within the budget, else zeros."""
    return fallback.fall_back(budget, MeanProp(), mlp.weights)
