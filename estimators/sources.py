"""A layer's third cumulants as a sum of sources, one born at each layer: n³ numbers held in a few n×n matrices.

    κ_ijk = Σ_sources Σ_r  w_r·(A_ir A_jr P_kr + A_ir P_jr A_kr + P_ir A_jr A_kr)
                           + ⅓·(M_ir P_jr P_kr + P_ir M_jr P_kr + P_ir P_jr M_kr)

r runs over the neurons of the source's birth layer, P is how the present layer depends on them, A how it depends on
what is correlated with them, and M makes the slices κ_iij and κ_iii at birth exactly those of `cumulants`. A linear map
acts on the rows of A, P and M alone, a ReLU scales them by its mean slope Φ, so nothing is lost on the way but what a
ReLU adds, which is the next source. From the third-cumulant propagation of the white-box estimation challenge's
participants.
Cost with s sources: 3 products of n×n matrices each to carry them and 3 each for the slice κ_iij.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.cumulants import Inputs, Outputs, Square, off_diagonal, outer
from estimators.wick import Vector, Wick

Product = Callable[[Float[Array, "m k"], Float[Array, "k n"]], Float[Array, "m n"]]
"""A matrix product: dense, or Strassen's."""


class Source(NamedTuple):
    a: Square
    m: Square
    p: Square | None
    """None for the identity: a source just born."""
    w: Vector
    """Of the birth layer's neurons, so never transformed."""


def born(wick: Wick, inputs: Inputs, outputs: Outputs) -> Source:
    """What a layer's ReLUs add: κ_iij = A_ij²·w_j + ⅓M_ji and κ_iii = M_ii on top of the gated old sources."""
    gain = wick.gain
    a, w = gain[:, None] * inputs.covariance, wick(2, 1)
    rest = outputs.k21 - outer(gain * gain, gain) * inputs.k21 - a * a * w
    return Source(a, jnp.diag(outputs.k3 - gain**3 * inputs.k3) + 3 * off_diagonal(rest).T, None, w)


def gated(sources: Sequence[Source], gain: Vector) -> tuple[Source, ...]:
    slope = gain[:, None]
    return tuple(Source(slope * s.a, slope * s.m, slope * _p(s), s.w) for s in sources)


def carried(sources: Sequence[Source], w: Square, product: Product) -> tuple[Source, ...]:
    """Through z = W·h, all of them in one product."""
    if not sources:
        return ()
    *old, newest = sources
    parts = [x for s in old for x in (s.a, s.m, _p(s))] + [newest.a, newest.m]
    moved = jnp.split(product(w, jnp.concatenate(parts, axis=1)), len(parts), axis=1)
    kept = [Source(moved[3 * i], moved[3 * i + 1], moved[3 * i + 2], s.w) for i, s in enumerate(old)]
    return (*kept, Source(moved[-2], moved[-1], w, newest.w))


def slices(sources: Sequence[Source], product: Product) -> Square:
    """κ_iij for every i and j, κ_iii on the diagonal; of at least one source."""
    left, right = _factors(sources)
    return product(left, right.T)


def diagonal(sources: Sequence[Source]) -> Vector:
    """κ_iii alone, without a product."""
    left, right = _factors(sources)
    return jnp.sum(left * right, axis=1)


def _factors(sources: Sequence[Source]) -> tuple[Float[Array, "width terms"], Float[Array, "width terms"]]:
    left: list[Array] = []
    for s in sources:
        wa, p = s.a * s.w, _p(s)
        left += [2 * wa * p, wa * s.a + (2 / 3) * s.m * p, (1 / 3) * p * p]
    right = [x for s in sources for x in (s.a, _p(s), s.m)]
    return jnp.concatenate(left, axis=1), jnp.concatenate(right, axis=1)


def _p(source: Source) -> Square:
    return jnp.eye(source.a.shape[0], dtype=source.a.dtype) if source.p is None else source.p
