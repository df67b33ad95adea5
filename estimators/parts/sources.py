"""A layer's third cumulants as a sum of sources, one from each layer: n³ numbers stored in a few n×n matrices.

    κ_ijk = Σ_sources Σ_r  w_r·(A_ir A_jr P_kr + A_ir P_jr A_kr + P_ir A_jr A_kr)
                           + ⅓·(M_ir P_jr P_kr + P_ir M_jr P_kr + P_ir P_jr M_kr)

r runs over the neurons of the layer where the source was born. P is how the present layer depends on them, and A how it
depends on values correlated with them. M makes the slices κ_iij and κ_iii at birth equal to those of `cumulants`. A
linear map acts only on the rows of A, P and M, and a ReLU scales them by its mean slope Φ. What a ReLU adds to this is
the next source. A source may also have a `Spread`. Source: the third-cumulant propagation of the white-box estimation
challenge's participants. `Third` is the interface that the chain uses. `Sources` keeps all of M, `lean_sources` most of
it.
Cost: 3 products of n×n matrices per source to carry it, and 3 per source for the slice κ_iij.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.cumulants import Relu, Square, off_diagonal, outer
from estimators.parts.spread import Legs, Spread, add_diagonal, add_edges, add_factors
from estimators.parts.strassen import Product
from estimators.parts.wick import Vector


class Third(Protocol):
    """A layer's third cumulants."""

    def carried(self, w: Square, product: Product, is_last: bool = False) -> Self:
        """The third cumulants of z = W·h; nothing follows the last layer."""
        ...

    def slices(self, product: Product, alpha: Vector) -> Square | None:
        """κ_iij for every i and j, κ_iii on the diagonal; None without a source. α tells which i, j matter."""
        ...

    def diagonal(self, product: Product) -> Vector | None:
        """Only κ_iii, without a product of n×n matrices."""
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
    spread: Spread | None = None
    """Of the new source."""


class Source(NamedTuple):
    a: Square
    m: Square
    p: Square | None
    """None for the identity: a new source."""
    w: Vector
    """Indexed by the neurons of the birth layer, so it is never transformed."""
    spread: Spread | None = None

    def gated(self, slope: Vector) -> "Source":
        column = slope[:, None]
        spread = self.spread and self.spread.gated(slope)
        return Source(column * self.a, column * self.m, column * known_p(self), self.w, spread)

    def fed(self, v: Vector) -> "Source":
        return self._replace(m=self.m + v[:, None])


@dataclass(frozen=True)
class Sources:
    items: tuple[Source, ...] = ()

    def carried(self, w: Square, product: Product, is_last: bool = False) -> "Sources":
        """All matrices go through one product; a new source has no P yet."""
        if not self.items:
            return self
        parts = [x for s in self.items for x in (s.a, s.m, s.p) if x is not None]
        moved = iter(jnp.split(product(w, jnp.concatenate(parts, axis=1)), len(parts), axis=1))
        kept = [s._replace(a=next(moved), m=next(moved), p=w if s.p is None else next(moved)) for s in self.items]
        return Sources(tuple(s._replace(spread=s.spread and s.spread.carried(w)) for s in kept))

    def slices(self, product: Product, alpha: Vector) -> Square | None:
        if not self.items:
            return None
        left, right = _factors(self.items)
        return add_edges(product(left, right.T), [legs(s) for s in self.items])

    def diagonal(self, product: Product) -> Vector | None:
        if not self.items:
            return None
        left, right = _factors(self.items)
        return add_diagonal(jnp.sum(left * right, axis=1), [legs(s) for s in self.items])

    def contracted(self, e: Vector, product: Product) -> Square | None:
        return contracted([(s.a, s.m, known_p(s), s.w, s.spread) for s in self.items], e, product)

    def after(self, relu: Relu, feed: Feed | None) -> "Sources":
        old = [s.gated(relu.slope) for s in self.items]
        if feed is not None:
            old[-1] = old[-1].fed(feed.v)
        return Sources((*old, self.born(relu, feed)))

    def born(self, relu: Relu, feed: Feed | None) -> Source:
        k3, rest = newborn(relu, feed)
        return Source(relu.legs, jnp.diag(k3) + rest, None, relu.bend, None if feed is None else feed.spread)


def newborn(relu: Relu, feed: Feed | None) -> tuple[Vector, Square]:
    """The new source of a layer: κ_iii, and M off its diagonal, from κ_iij = A_ij²·w_j + ⅓M_ji + 2u_i C_ij."""
    slope, inputs, outputs = relu.slope, relu.inputs, relu.outputs
    k3 = outputs.k3 - slope**3 * inputs.k3
    rest = outputs.k21 - outer(slope * slope, slope) * inputs.k21 - relu.legs * relu.legs * relu.bend
    if feed is not None:
        k3, rest = k3 - jnp.diagonal(feed.slices), rest - feed.slices
        if feed.spread is not None:
            half = relu.legs * feed.spread.x
            rest = rest - feed.spread.u[:, None] * (half + half.T)
    return k3, 3 * off_diagonal(rest).T


Parts = tuple[Square, Square, Square, Vector, Spread | None]
"""A, M, P, w and the spread of a source."""


def contracted(sources: Sequence[Parts], e: Vector, product: Product) -> Square | None:
    """Σ_i e_i·κ_ijk, with 2 products per source."""
    if not sources:
        return None
    left: list[Array] = []
    thin: list[Square] = []
    for a, m, p, w, spread in sources:
        ea, em, ep = e @ a, e @ m, e @ p
        with_p = a * (w * ea) + m * (ep / 3) + p * (em / 6)
        if spread is not None:
            with_p = with_p + a * (0.5 * (e @ spread.u) * spread.x)
            thin.append(outer(spread.u, 0.5 * (a @ (spread.x * ep) + p @ (spread.x * ea))))
        left += [0.5 * a * (w * ep), with_p]
    right = [x for a, _, p, _, _ in sources for x in (a, p)]
    half = product(jnp.concatenate(left, axis=1), jnp.concatenate(right, axis=1).T)
    half = sum(thin, half)
    return half + half.T


def _factors(sources: Sequence[Source]) -> tuple[Float[Array, "width terms"], Float[Array, "width terms"]]:
    """The factors whose product is κ_iij, of all sources side by side."""
    parts = zip(*((s.a, known_p(s), s.m) for s in sources), strict=True)
    a, p, m = (jnp.concatenate(x, axis=1) for x in parts)
    w = jnp.concatenate([s.w for s in sources])
    wa = a * w
    with_a, with_p = 2 * wa * p, wa * a + (2 / 3) * m * p
    with_a, with_p = add_factors(with_a, with_p, [legs(s) for s in sources])
    left, right = [with_a, with_p, (1 / 3) * p * p], [a, p, m]
    return jnp.concatenate(left, axis=1), jnp.concatenate(right, axis=1)


def known_p(source: Source) -> Square:
    return jnp.eye(source.a.shape[0], dtype=source.a.dtype) if source.p is None else source.p


def legs(source: Source) -> Legs:
    return source.a, known_p(source), source.spread
