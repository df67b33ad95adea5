"""Pruning: neurons that are almost never on are left out of the deeper matmuls. Fewer FLOPs per sample, a small bias.

In deeper layers, more and more neurons are on for all inputs or for none: at 256×32 the mean of a pre-activation is 2.7
standard deviations below zero for 3 % of layer 5's neurons and 31 % of layer 32's. The share that is left out is fixed
for the shape, so that a traced program has static sizes:
    s_l = share·(1 − exp(−(l − 3.5)/16)),  l > 3.5,
which fits their average number (share = .37) over 12 networks that are in no suite. A pilot's α = mean(z)/sd(z) decides
which neurons are left out. Networks differ, so a smaller share is better: on 6 such networks
(`benchmarks/fit_pruning.py`) the bias squared is 1.0e-8, 3.6e-8, 1.9e-7 and 5.3e-6 for shares of .30, .34, .37 and .45,
where a whole Kerdock design has a variance of 3e-7.
The contribution of these neurons is dropped, not replaced by its mean.
Cost: a sort of each layer's width. The remaining matmuls are Σ kept_{l−1}·kept_l/(width²·depth) of the whole: .74 at
256×32 for a share of .3.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from estimators.parts.ensemble import Layers, Matmul, Sums

STARTS_AFTER, SCALE = 3.5, 16.0
"""In layers: where the first neurons die, and how fast the share approaches its limit."""
NARROWEST = 256
"""Narrower networks are not pruned: they differ too much for one size. At 128×16 the bias squared is 1e-6."""
ROUNDED_TO = 16
"""Sizes are multiples of this, so that a product can be halved four times."""


def kept(width: int, depth: int, share: float) -> list[int]:
    """The number of neurons that each layer keeps."""
    if width < NARROWEST:
        return [width] * depth
    dropped = [share * width * max(0.0, 1 - math.exp((STARTS_AFTER - layer) / SCALE)) for layer in range(1, depth + 1)]
    return [width - round(n / ROUNDED_TO) * ROUNDED_TO for n in dropped]


class Pilot(NamedTuple):
    sums: Sums
    alphas: Sums
    """mean(z)/sd(z) of every neuron."""


def pilot_run(h: Float[Array, "row width"], layers: Layers, matmul: Matmul = jnp.matmul) -> Pilot:
    """The whole network on a few points: their sums, and the α of every neuron."""
    sums, alphas = [], []
    for w in layers:
        z = matmul(h, w)
        h = jax.nn.relu(z)
        sums.append(h.sum(axis=0))
        alphas.append(z.mean(axis=0) / jnp.maximum(z.std(axis=0), 1e-10))
    return Pilot(sums, alphas)


class Pruned(NamedTuple):
    layers: Layers
    places: list[Int[Array, " to"]]
    """The original places of each layer's remaining neurons."""

    def restore(self, sums: Sums, width: int) -> Sums:
        """Sums with the remaining neurons in their original places, and zeros for the others."""
        pairs = zip(sums, self.places, strict=True)
        return [total if len(total) == width else jnp.zeros(width).at[place].set(total) for total, place in pairs]


def prune(layers: Layers, alphas: Sums, sizes: Sequence[int]) -> Pruned:
    """The network that keeps, in each layer, the `size` neurons with the largest α."""
    places, remaining = [], []
    before = None
    for w, alpha, size in zip(layers, alphas, sizes, strict=True):
        width = w.shape[1]
        place = jnp.arange(width) if size == width else jnp.argsort(-alpha)[:size]
        rows = w if before is None else w[before]
        remaining.append(rows if size == width else rows[:, place])
        places.append(place)
        before = None if size == width else place
    return Pruned(remaining, places)
