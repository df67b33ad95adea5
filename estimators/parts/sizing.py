"""How large a sampler may be: the largest size whose metered price fits, and what answers where none does.

The meter reads shapes alone, so all of this happens while tracing and costs nothing.
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
"""Prices asked for at most; two or three settle it, since they rise in a straight line but for rounding."""


def affordable(sampler: Sampler, mlp: MLPView, limit: float) -> int:
    """The largest size of this sampler whose metered price is within the limit; 0 where there is none."""
    return largest(lambda size: price(sampler, mlp, size), limit)


def price(sampler: Sampler, mlp: MLPView, size: int) -> int:
    return meter(lambda weights, key: sampler(weights, key, size))(mlp.weights, mlp.key).flops


def largest(flops: Callable[[int], int], limit: float) -> int:
    """The largest size whose price fits, found along chords of the price; no size is answered that wasn't priced."""
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
    """Mean propagation where the budget allows it, else zeros: what a sampler without a sample answers."""
    return fallback.fall_back(budget, MeanProp(), mlp.weights)
