"""A layer's third cumulants as a sum of sources, one from each layer: n³ numbers stored in a few n×n matrices.

    κ_ijk = Σ_sources Σ_r  w_r·(A_ir A_jr P_kr + A_ir P_jr A_kr + P_ir A_jr A_kr)
                           + ⅓·(M_ir P_jr P_kr + P_ir M_jr P_kr + P_ir P_jr M_kr)

r runs over the neurons of the layer where the source was born. P is how the present layer depends on them, and A how it
depends on values correlated with them. M makes the slices κ_iij and κ_iii at birth equal to those of `cumulants`. A
linear map acts only on the rows of A, P and M, and a ReLU scales them by its mean slope Φ. What a ReLU adds to this is
the next source. Source: the third-cumulant propagation of the white-box estimation challenge's participants. `Third` is
the interface that the chain uses. `Sources` keeps all of M, `lean_sources` most of it.
Cost: 3 products of n×n matrices per source to carry it, and 3 per source for the slice κ_iij.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.cumulants import Relu, Square, off_diagonal, outer
from estimators.parts.wick import Vector

Product = Callable[[Float[Array, "m k"], Float[Array, "k n"]], Float[Array, "m n"]]
"""A matrix product: dense or Strassen's."""


class Third(Protocol):
    """A layer's third cumulants."""

    def carried(self, w: Square, product: Product) -> Self:
        """The third cumulants of z = W·h."""
        ...

    def slices(self, product: Product) -> Square | None:
        """κ_iij for every i and j, κ_iii on the diagonal; None if there is no source yet."""
        ...

    def diagonal(self) -> Vector | None:
        """Only κ_iii, without a product."""
        ...

    def contracted(self, e: Vector, product: Product) -> Square | None:
        """Σ_i e_i·κ_ijk."""
        ...

    def after(self, relu: Relu, feed: "Feed | None") -> Self:
        """The third cumulants of the activations: the old sources times Φ, and a new source."""
        ...


class Feed(NamedTuple):
    """The part of a layer's third cumulants that comes from its fourth: M += v·1ᵀ in the newest of the old sources."""

    v: Vector
    slices: Square
    """The slices κ_iij of this part, with κ_iii on the diagonal."""


class Source(NamedTuple):
    a: Square
    m: Square
    p: Square | None
    """None for the identity: a new source."""
    w: Vector
    """Indexed by the neurons of the birth layer, so it is never transformed."""


@dataclass(frozen=True)
class Sources:
    items: tuple[Source, ...] = ()

    def carried(self, w: Square, product: Product) -> "Sources":
        """All matrices go through one product."""
        if not self.items:
            return self
        *old, newest = self.items
        parts = [x for s in old for x in (s.a, s.m, known_p(s))] + [newest.a, newest.m]
        moved = jnp.split(product(w, jnp.concatenate(parts, axis=1)), len(parts), axis=1)
        kept = [Source(moved[3 * i], moved[3 * i + 1], moved[3 * i + 2], s.w) for i, s in enumerate(old)]
        return Sources((*kept, Source(moved[-2], moved[-1], w, newest.w)))

    def slices(self, product: Product) -> Square | None:
        if not self.items:
            return None
        left, right = _factors(self.items)
        return product(left, right.T)

    def diagonal(self) -> Vector | None:
        if not self.items:
            return None
        left, right = _factors(self.items)
        return jnp.sum(left * right, axis=1)

    def contracted(self, e: Vector, product: Product) -> Square | None:
        return contracted([(s.a, s.m, known_p(s), s.w) for s in self.items], e, product)

    def after(self, relu: Relu, feed: Feed | None) -> "Sources":
        slope = relu.wick.gain[:, None]
        old = [Source(slope * s.a, slope * s.m, slope * known_p(s), s.w) for s in self.items]
        if feed is not None:
            old[-1] = old[-1]._replace(m=old[-1].m + feed.v[:, None])
        k3, rest = newborn(relu, feed)
        return Sources((*old, Source(slope * relu.inputs.covariance, jnp.diag(k3) + rest, None, relu.wick(2, 1))))


def newborn(relu: Relu, feed: Feed | None) -> tuple[Vector, Square]:
    """The new source of a layer: κ_iii, and M off its diagonal, from κ_iij = A_ij²·w_j + ⅓M_ji."""
    gain, inputs, outputs = relu.wick.gain, relu.inputs, relu.outputs
    a = gain[:, None] * inputs.covariance
    k3 = outputs.k3 - gain**3 * inputs.k3
    rest = outputs.k21 - outer(gain * gain, gain) * inputs.k21 - a * a * relu.wick(2, 1)
    if feed is not None:
        k3, rest = k3 - jnp.diagonal(feed.slices), rest - feed.slices
    return k3, 3 * off_diagonal(rest).T


def contracted(parts: Sequence[tuple[Square, Square, Square, Vector]], e: Vector, product: Product) -> Square | None:
    """Σ_i e_i·κ_ijk of sources (A, M, P, w), with 2 products per source."""
    if not parts:
        return None
    left: list[Array] = []
    for a, m, p, w in parts:
        ea, em, ep = e @ a, e @ m, e @ p
        left += [0.5 * a * (w * ep), a * (w * ea) + m * (ep / 3) + p * (em / 6)]
    right = [x for a, _, p, _ in parts for x in (a, p)]
    half = product(jnp.concatenate(left, axis=1), jnp.concatenate(right, axis=1).T)
    return half + half.T


def _factors(sources: Sequence[Source]) -> tuple[Float[Array, "width terms"], Float[Array, "width terms"]]:
    left: list[Array] = []
    for s in sources:
        wa, p = s.a * s.w, known_p(s)
        left += [2 * wa * p, wa * s.a + (2 / 3) * s.m * p, (1 / 3) * p * p]
    right = [x for s in sources for x in (s.a, known_p(s), s.m)]
    return jnp.concatenate(left, axis=1), jnp.concatenate(right, axis=1)


def known_p(source: Source) -> Square:
    return jnp.eye(source.a.shape[0], dtype=source.a.dtype) if source.p is None else source.p
