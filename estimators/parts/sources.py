"""A layer's third cumulants as a sum of sources, one born at each layer: n³ numbers held in a few n×n matrices.

    κ_ijk = Σ_sources Σ_r  w_r·(A_ir A_jr P_kr + A_ir P_jr A_kr + P_ir A_jr A_kr)
                           + ⅓·(M_ir P_jr P_kr + P_ir M_jr P_kr + P_ir P_jr M_kr)

r runs over the neurons of the source's birth layer, P is how the present layer depends on them, A how it depends on
what is correlated with them, and M makes the slices κ_iij and κ_iii at birth exactly those of `cumulants`. A linear map
acts on the rows of A, P and M alone, a ReLU scales them by its mean slope Φ, so nothing is lost on the way but what a
ReLU adds, which is the next source. From the third-cumulant propagation of the white-box estimation challenge's
participants. `Third` is what the chain asks of any such sum; `Sources` keeps all of M, `lean_sources` the most of it.
Cost with s sources: 3 products of n×n matrices each to carry them and 3 each for the slice κ_iij.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.cumulants import Relu, Square, off_diagonal, outer
from estimators.parts.wick import Vector

Product = Callable[[Float[Array, "m k"], Float[Array, "k n"]], Float[Array, "m n"]]
"""A matrix product: dense, or Strassen's."""


class Third(Protocol):
    """A layer's third cumulants."""

    def carried(self, w: Square, product: Product) -> Self:
        """Through z = W·h."""
        ...

    def slices(self, product: Product) -> Square | None:
        """κ_iij for every i and j, κ_iii on the diagonal; None where there is no source yet."""
        ...

    def diagonal(self) -> Vector | None:
        """κ_iii alone, without a product."""
        ...

    def contracted(self, e: Vector, product: Product) -> Square | None:
        """Σ_i e_i·κ_ijk."""
        ...

    def after(self, relu: Relu, feed: "Feed | None") -> Self:
        """Those of the activations: the old ones gated, and a new one."""
        ...


class Feed(NamedTuple):
    """What a layer's fourth cumulants add to its third, as M += v·1ᵀ in the newest of the old sources."""

    v: Vector
    slices: Square
    """κ_iij of it, with κ_iii on the diagonal."""


class Source(NamedTuple):
    a: Square
    m: Square
    p: Square | None
    """None for the identity: a source just born."""
    w: Vector
    """Of the birth layer's neurons, so never transformed."""


@dataclass(frozen=True)
class Sources:
    items: tuple[Source, ...] = ()

    def carried(self, w: Square, product: Product) -> "Sources":
        """All of them in one product."""
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
    """κ_iii and M off its diagonal, of what a layer's ReLUs add to the old sources: κ_iij = A_ij²·w_j + ⅓M_ji."""
    gain, inputs, outputs = relu.wick.gain, relu.inputs, relu.outputs
    a = gain[:, None] * inputs.covariance
    k3 = outputs.k3 - gain**3 * inputs.k3
    rest = outputs.k21 - outer(gain * gain, gain) * inputs.k21 - a * a * relu.wick(2, 1)
    if feed is not None:
        k3, rest = k3 - jnp.diagonal(feed.slices), rest - feed.slices
    return k3, 3 * off_diagonal(rest).T


def contracted(parts: Sequence[tuple[Square, Square, Square, Vector]], e: Vector, product: Product) -> Square | None:
    """Σ_i e_i·κ_ijk of sources (A, M, P, w); 2 products each."""
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
