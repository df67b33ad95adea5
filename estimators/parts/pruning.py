"""Pruning: neurons that are almost never on are left out of the deeper matmuls. Fewer FLOPs per sample, a small bias.

In deeper layers, more and more neurons are on for all inputs or for none: at 256×32 the mean of a pre-activation is 2.7
standard deviations below zero for 3 % of layer 5's neurons and 31 % of layer 32's. The share that is left out is fixed
for the shape, so that a traced program has static sizes:
    s_l = share·(1 − exp(−(l − 3.5)/16)),  l > 3.5,
which fits their average number (share = .37) over 12 networks that are in no suite. A pilot's α = mean(z)/sd(z) decides
which neurons are left out. Networks differ, so a smaller share is better: on 6 such networks
(`benchmarks/fit_pruning.py`) the bias squared is 1.0e-8, 3.6e-8, 1.9e-7 and 5.3e-6 for shares of .30, .34, .37 and .45,
where a whole Kerdock design has a variance of 3e-7. Those figures are with sizes rounded to 16 and nothing in place
of a neuron that is left out. If its mean over the pilot's points is given, it takes its place: an offset of the next
layer's inputs.
Cost: a sort of each layer's width, and one addition per neuron and point. The remaining matmuls are
Σ kept_{l−1}·kept_l/(width²·depth) of the whole: .74 at 256×32 for a share of .3.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from estimators.parts.ensemble import Layers, Matmul, Offsets, Squared, Sums, in_turn, runs

STARTS_AFTER, SCALE = 3.5, 16.0
"""In layers: where the first neurons die, and how fast the share approaches its limit."""
NARROWEST = 256
"""Narrower networks are not pruned: they differ too much for one size. At 128×16 the bias squared is 1e-6."""
ROUNDED_TO = 16
"""Sizes are multiples of this, so that a product can be halved four times. At 32, which allows five, the bias grows."""


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


def pilot_run(
    h: Float[Array, "row width"], layers: Layers, matmul: Matmul = jnp.matmul, squared: Squared | None = None
) -> Pilot:
    """The whole network on a few points: their sums, and the α of every neuron."""
    sums, alphas, products = [], [], []

    def step(h: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
        z = matmul(h, w)
        h = jax.nn.relu(z)
        return h, (h.sum(axis=0), z.mean(axis=0) / jnp.maximum(z.std(axis=0), 1e-10))

    for alike in runs([(w.shape, False) for w in layers], squared):
        h, (totals, found) = in_turn(step, h, [layers[place] for place in alike])
        sums += list(totals)
        alphas += list(found)
        products += squared.of(alike[-1], h) if squared else []
    return Pilot(sums + products, alphas)


class Pruned(NamedTuple):
    layers: Layers
    places: list[Int[Array, " to"]]
    """The original places of each layer's remaining neurons."""
    left_out: Sums
    """The mean activation of each neuron that was left out; 0 for the others, or for all if the means are unknown."""
    offsets: Offsets
    """What the means of one layer's left-out neurons add to the inputs of the next; None where all neurons remain."""

    def restore(self, sums: Sums, width: int, points: float = 0, squared: Squared | None = None) -> Sums:
        """Sums over so many points, with the remaining neurons in their places and the others at their means.

        With s the sums, f the means of the others and M the products: s + points·f, and M + s·fᵀ + f·sᵀ + points·f·fᵀ.
        """
        placed = [_placed(total, place, width) for total, place in zip(sums, self.places, strict=False)]
        whole = [s + points * f for s, f in zip(placed, self.left_out, strict=True)]
        if squared is None:
            return whole
        s, f = placed[squared.layer], self.left_out[squared.layer]
        crossed = s[:, None] * f
        products = _placed(sums[-1], self.places[squared.layer], width)
        return [*whole, products + crossed + crossed.T + points * f[:, None] * f]


def _placed(total: Array, place: Int[Array, " to"], width: int) -> Array:
    """A vector of sums, or a matrix of products, over all neurons."""
    if len(total) == width:
        return total
    return jnp.zeros((width,) * total.ndim).at[jnp.ix_(*[place] * total.ndim)].set(total)


def prune(layers: Layers, alphas: Sums, sizes: Sequence[int], means: Sums | None = None) -> Pruned:
    """The network that keeps, in each layer, the `size` neurons with the largest α.

    The others are replaced by their `means`, or by zeros.
    """
    pruned = [index for index, (w, size) in enumerate(zip(layers, sizes, strict=True)) if size < w.shape[1]]
    orders = dict(zip(pruned, _descending([alphas[index] for index in pruned]), strict=True))
    places, remaining = [], []
    left_out: Sums = []
    offsets: list[Float[Array, " to"] | None] = []
    before = None
    for index, (w, size) in enumerate(zip(layers, sizes, strict=True)):
        width = w.shape[1]
        place = orders[index][:size] if index in orders else jnp.arange(width)
        offset: Float[Array, " to"] | None = None if before is None or means is None else (left_out[-1] @ w)[place]
        rows = w if before is None else w[before]
        remaining.append(rows if size == width else rows[:, place])
        places.append(place)
        offsets.append(offset)
        left_out.append(jnp.zeros(width) if means is None or size == width else means[index].at[place].set(0))
        before = None if size == width else place
    return Pruned(remaining, places, left_out, offsets)


def _descending(alphas: Sequence[Array]) -> Sequence[Int[Array, " width"]]:
    """The places of each layer's neurons by α, the largest first; the layers have one width."""
    return list(jnp.argsort(-jnp.stack(alphas), axis=-1)) if alphas else []
