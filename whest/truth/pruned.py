"""`truth=pruned`: the point sets of `truth=fast`, most of them through a network without its idle neurons. No bias.

In deep layers many neurons are almost never on. The surrogate g leaves them out, at their means, and so has smaller
products. A few bases go through the whole network f too, and the mean difference removes the error of the others
(`whest.truth.rotations.Surrogate`). So the error bars are made as those of `truth=fast`, and they include the noise of
the correction.

How much is left out: layer l loses the share
    level·(1 − exp(−(l − 4.5)/14)),  l > 4.5,
of its neurons. The form fits what is best for single networks of 256×8, 256×32 and 1024×16. A few levels stand for
all networks of a shape, so their programs are compiled once. With c the matmuls of g over those of f, r the variance of
f − g over that of f, per point, and p the share of corrected bases, a draw costs
    (c + p)·(1 + gain·r/p)
of what it costs through f alone. `gain` is what a design saves on f and not on the difference. r is measured on points
with no other use, and the level and p with the lowest cost are taken. Both depend on the MLP and the plan alone.

`truth=mixed` makes the products of g in bfloat16 too. Then r has the error of the rounding in it, and c is that many
times smaller.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt

from whest.truth.fast import EXPECTED_GAIN, PILOT, PILOT_SAMPLES, FastTruth
from whest.truth.plan import Plan
from whest.truth.rotations import Remaining, Surrogate, as_half, bases_together

STARTS_AFTER, SCALE = 4.5, 14.0
"""In layers: where the first neurons are left out, and how fast the share approaches its level."""

LEVELS = (0.0, 0.14, 0.18, 0.22, 0.26, 0.30, 0.34, 0.38, 0.42, 0.46, 0.50)
FIRST_TRIED = 5
"""The place of the level that is tried first: the best one is near for most networks."""

SIZE_STEPS = 16
"""Sizes are multiples of width/16: 16 at a width of 256, where multiples of 8 took 9 % more time."""

HALVES_TIME = 0.6
"""The time of a layer with its product in bfloat16, over its time in float32, where there are instructions for it."""

LARGEST_SHARE = 8
"""At most one basis in 8 is corrected. With fewer signed bases than that, all bases go through the whole network."""

TRIAL = np.uint32(2**32 - 2)
"""The key index of the points that r is measured on. The pilot's is one more, and replicates count from zero."""
TRIAL_SAMPLES = 1024


@dataclass(frozen=True)
class PrunedTruth(FastTruth):
    """Randomly rotated designs. Most bases go through a network without the neurons that are almost never on."""

    name: ClassVar[str] = "pruned"
    version: ClassVar[int] = 3
    in_halves: ClassVar[bool] = False
    """Whether the products of the smaller network are made in bfloat16."""

    def _surrogate(self, weights: Array, key: Array, layout: Plan) -> tuple[Surrogate | None, Remaining | None]:
        if layout.n_signed < LARGEST_SHARE:
            return None, None
        depth, width = weights.shape[:2]
        halves, product_time = self.in_halves, HALVES_TIME if self.in_halves else 1.0
        means, *importance = (np.asarray(part) for part in _pilot(weights, key))
        ranks = np.stack([np.argsort(np.lexsort(keys)) for keys in zip(*importance, strict=True)])
        exact = np.asarray(_final(weights, key, means, np.ones(means.shape, bool)), np.float64)

        def kept(level: float) -> Bool[np.ndarray, "depth width"]:
            return ranks >= width - np.array(sizes(width, depth, level))[:, None]

        def choice(level: float) -> Choice:
            rough = np.asarray(_final(weights, key, means, kept(level), in_halves=halves), np.float64)
            r = (exact - rough).var(axis=0).sum() / max(exact.var(axis=0).sum(), 1e-30)
            c = product_time * matmul_share(sizes(width, depth, level))
            return cheapest(layout, level, c, float(r))

        best = min(climb(choice), Choice(1.0, 0.0, 0))
        weight = layout.n_bases / best.n_corrected if best.n_corrected else 0.0
        halves = halves and best.n_corrected > 0
        surrogate = Surrogate(together(layout), best.n_corrected, weight, in_halves=halves)
        if not (halves or best.level):
            return surrogate, None
        return surrogate, remaining(np.asarray(weights), kept(best.level), means, centred=halves)


@dataclass(frozen=True, order=True)
class Choice:
    """How much is left out, how many bases correct it, and the cost of a draw relative to one through f alone."""

    cost: float
    level: float
    n_corrected: int


def climb(choice: Callable[[float], Choice]) -> Choice:
    """The best of the levels, from the first that is tried, up or down as long as the cost falls."""
    tried = cache(lambda place: choice(LEVELS[place]))
    place = FIRST_TRIED
    for step in (1, -1):
        while 0 <= place + step < len(LEVELS) and tried(place + step).cost < tried(place).cost:
            place += step
    return tried(place)


def together(layout: Plan) -> int:
    """The number of bases that go through a network at once: few enough to correct one in 8 or fewer."""
    return min(bases_together(layout.size), 2 ** int(math.log2(layout.n_signed // LARGEST_SHARE)))


def cheapest(layout: Plan, level: float, c: float, r: float) -> Choice:
    """The best number of corrected bases: a few that go through together, or twice as many, and so on."""
    n, choices = together(layout), []
    while n * LARGEST_SHARE <= layout.n_signed:
        p = n / layout.n_bases
        choices.append(Choice((c + p) * (1 + EXPECTED_GAIN * r / p), level, n))
        n *= 2
    return min(choices)


def sizes(width: int, depth: int, level: float) -> list[int]:
    """The number of neurons that each layer keeps."""
    step = max(1, width // SIZE_STEPS)
    shares = [level * max(0.0, 1 - math.exp((STARTS_AFTER - layer) / SCALE)) for layer in range(1, depth + 1)]
    return [width - step * round(share * width / step) for share in shares]


def matmul_share(kept: Sequence[int]) -> float:
    """The matmuls of these sizes over those of the whole network. Layer 1 needs none, and layer 2 a half."""

    def products(sizes: Sequence[int]) -> float:
        pairs = list(pairwise(sizes))
        return sum(a * b for a, b in pairs) - math.prod(pairs[0]) / 2 if pairs else 1.0

    return products(kept) / products([kept[0]] * len(kept))


def remaining(
    weights: Float[np.ndarray, "depth width width"],
    kept: Bool[np.ndarray, "depth width"],
    means: Float[np.ndarray, "depth width"],
    *,
    centred: bool = False,
) -> Remaining:
    """The network of the kept neurons, with the others at their means.

    If it is `centred`, then the means of the kept ones are taken off before a product and put back after it.
    """
    left_out = np.where(kept, 0, means).astype(np.float32)
    layers, centres, offsets, places = [], [], [], []
    for layer, (w, to) in enumerate(zip(weights, kept, strict=True)):
        since = kept[layer - 1] if layer else np.ones(len(w), bool)
        has_centre = centred and layer > 1
        constant = means[layer - 1] if has_centre else left_out[layer - 1]
        offset = (constant.astype(np.float64)[:, None] * w).sum(axis=0)[to].astype(np.float32)
        layers.append(jnp.asarray(w[since][:, to]))
        centres.append(jnp.asarray(means[layer - 1][since]) if has_centre else None)
        offsets.append(None if since.all() and not has_centre else jnp.asarray(offset))
        places.append(None if to.all() else jnp.asarray(np.flatnonzero(to), jnp.int32))
    return Remaining(tuple(layers), tuple(centres), tuple(offsets), tuple(places), jnp.asarray(left_out))


@jax.jit
def _pilot(
    weights: Float[Array, "depth width width"], key: UInt[Array, "2"]
) -> tuple[Float[Array, "depth width"], Float[Array, "depth width"], Float[Array, "depth width"]]:
    """Of each neuron the mean, and two measures of how much depends on it.

    The second is its variance times Σ w²·(how often the next neuron is on). Neurons that are never on in the pilot tie,
    and the first decides: mean/sd of the pre-activation.
    """
    h, means, alphas, variances, gains = _points(key, PILOT, PILOT_SAMPLES, weights.shape[1]), [], [], [], []
    for w in weights:
        z = jnp.matmul(h, w, precision="highest")
        h = jax.nn.relu(z)
        means.append(h.mean(axis=0))
        alphas.append(z.mean(axis=0) / jnp.maximum(z.std(axis=0), 1e-30))
        variances.append(h.var(axis=0))
        gains.append((h > 0).mean(axis=0))
    heeded = [(w**2 * gain).sum(axis=1) for w, gain in zip(weights[1:], gains[1:], strict=True)]
    matters = [v * by for v, by in zip(variances, [*heeded, 1.0], strict=True)]
    return jnp.stack(means), jnp.stack(alphas), jnp.stack(matters)


@functools.partial(jax.jit, static_argnames="in_halves")
def _final(
    weights: Float[Array, "depth width width"],
    key: UInt[Array, "2"],
    means: Float[Array, "depth width"],
    kept: Bool[Array, "depth width"],
    *,
    in_halves: bool = False,
) -> Float[Array, "sample width"]:
    """The final layer at the trial's points, with the neurons that aren't kept at their means.

    With `in_halves` the activations less their means, and the weights, are rounded. Layer 1's means are not taken off.
    """
    times = functools.partial(jnp.matmul, precision="highest")
    h, centre = _points(key, TRIAL, TRIAL_SAMPLES, weights.shape[1]), jnp.zeros(weights.shape[1])
    for layer, (w, mean, stays) in enumerate(zip(weights, means, kept, strict=True)):
        z = times(as_half(h - centre), as_half(w)) + centre @ w if in_halves and layer else times(h, w)
        h = jnp.where(stays, jax.nn.relu(z), mean)
        centre = mean if layer else centre
    return h


def _points(key: Array, index: np.uint32, n: int, width: int) -> Float[Array, "sample width"]:
    return jax.random.normal(jax.random.fold_in(jax.random.wrap_key_data(key), index), (n, width), jnp.float32)
