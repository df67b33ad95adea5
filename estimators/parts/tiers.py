"""Lean sources of which the old ones share a basis.

A source's matrices A and P are products of the layers since its birth, and lose rank with age. From an age on, sources
are a *tier*: with one basis Q of few columns for both legs of all of them,
    A = Q·F,  P = Q·E,
so that a layer transforms Q alone. For κ_iij the legs are expanded again, since their entries are multiplied; their
factors are contracted with F and E before Q. Each layer one more source joins, after W has acted on it. The new Q spans
the largest directions of
    Γ = Q·g·Qᵀ + A·D·Aᵀ/‖A√D‖² + P·D·Pᵀ/‖P√D‖²,   D = diag(√w + .05)²,
where g sums the same for the coefficients of the members before: one step of a range finder, Q ← qr(Γ·Ω). Rows of W
are random, so Ω needs no numbers of its own: the first columns of Γ will do. With the legs X before W and a few rows of
it they are W·(X·D·(W_k·X)ᵀ), so the one that joins is never carried whole.
An older tier may have fewer columns; a source then leaves one tier for the next.
Cost: with k columns 4·k/n products of n×n matrices per member and layer instead of 4, about 6·k/n for the one that
joins, and 2·(k/n)² per member to change the basis. Source: shared bases are by the challenge's participants; that both
legs must share one, found after the transport, is from this repository's own notes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from estimators.parts.cumulants import Relu, Square
from estimators.parts.lean_sources import LeanSource, LeanSources, pairs, side_by_side
from estimators.parts.slices import third_slices
from estimators.parts.sources import Feed
from estimators.parts.strassen import Product
from estimators.parts.wick import Vector

Basis = Float[Array, "width rank"]
Plan = tuple[tuple[int, int], ...]
"""The age at which a tier begins, and the number of columns of its basis; the youngest first."""
EVEN = 0.05
"""Added to √w, so that hubs that bend little count too."""


class Tier(NamedTuple):
    basis: Basis
    weights: Float[Array, "rank rank"]
    """g above."""
    items: tuple[LeanSource, ...]
    """The oldest first. Their A and P are F and E."""

    def carried(self, w: Float[Array, "width alive"], product: Product) -> "Tier":
        items = tuple(s._replace(z=w @ s.z, spread=s.spread and s.spread.carried(w)) for s in self.items)
        return self._replace(basis=product(w, self.basis), items=items)

    def gated(self, slope: Vector, alive: Int[Array, " alive"] | None) -> "Tier":
        items = [s._replace(z=slope[:, None] * s.z, spread=s.spread and s.spread.gated(slope)) for s in self.items]
        basis = slope[:, None] * self.basis
        if alive is None:
            return self._replace(basis=basis, items=tuple(items))
        spreads = [s.spread and s.spread._replace(u=s.spread.u[alive]) for s in items]
        kept = [s._replace(z=s.z[alive], spread=spread) for s, spread in zip(items, spreads, strict=True)]
        return self._replace(basis=basis[alive], items=tuple(kept))

    def expanded(self, product: Product, items: Sequence[LeanSource] | None = None) -> list[LeanSource]:
        """Members with A and P themselves, by one product."""
        members = self.items if items is None else items
        with jax.named_scope("expand"):
            legs = _split(product(self.basis, _coefficients(members)), members)
        return [s._replace(a=a, p=p) for s, (a, p) in zip(members, legs, strict=True)]

    def joined(self, source: LeanSource, w: Float[Array, "width alive"], product: Product) -> "Tier":
        """A carried tier and a source that W has not acted on yet."""
        if not self.items:
            return founded(source, w, len(self.weights), product)
        basis = largest_directions(source, w, len(self.weights), product, self)
        turn = product(basis.T, self.basis)
        legs = _split(product(turn, _coefficients(self.items)), self.items)
        turned = [s._replace(a=a, p=p) for s, (a, p) in zip(self.items, legs, strict=True)]
        member, weights = _member(source, w, basis, product)
        return Tier(basis, product(product(turn, self.weights), turn.T) + weights, (*turned, member))


def founded(source: LeanSource, w: Float[Array, "width alive"], rank: int, product: Product) -> Tier:
    """A tier of one source."""
    basis = largest_directions(source, w, rank, product)
    member, weights = _member(source, w, basis, product)
    return Tier(basis, weights, (member,))


def largest_directions(
    source: LeanSource, w: Float[Array, "width alive"], rank: int, product: Product, tier: Tier | None = None
) -> Basis:
    """A basis of the first columns of Γ."""
    x = _coefficients([source])
    sketch = product(w[:rank], x)
    (legs,) = _split(sketch, [source])
    weights = jnp.concatenate([_weight(leg, source.w) for leg in legs]) * (len(sketch) / len(w))
    found = product(w, product(x, (sketch * weights).T))
    if tier is not None:
        found = found + product(tier.basis, product(tier.weights, tier.basis[:rank].T))
    return jnp.linalg.qr(found)[0]


def _weight(leg: Float[Array, "rows hubs"], w: Vector) -> Vector:
    """D/‖leg·√D‖²."""
    d = (jnp.sqrt(jnp.maximum(w, 0)) + EVEN) ** 2
    return d / jnp.sum(jnp.sum(leg * leg, axis=0) * d)


def _member(
    source: LeanSource, w: Float[Array, "width alive"], basis: Basis, product: Product
) -> tuple[LeanSource, Float[Array, "rank rank"]]:
    """The source with coefficients for legs, and what it adds to g."""
    (legs,) = _split(product(product(basis.T, w), _coefficients([source])), [source])
    scaled = side_by_side([leg * jnp.sqrt(_weight(leg, source.w)) for leg in legs])
    spread = source.spread and source.spread.carried(w)
    return source._replace(a=legs[0], p=legs[1], z=w @ source.z, spread=spread), product.symmetric(scaled, scaled)


def _coefficients(members: Sequence[LeanSource]) -> Float[Array, "rank columns"]:
    return side_by_side([s.a for s in members] + [s.known_p for s in members])


def _split(x: Array, members: Sequence[LeanSource]) -> list[tuple[Array, Array]]:
    """A and P of each member, from `_coefficients`."""
    sizes = [len(s.w) for s in members]
    legs = jnp.split(x, list(accumulate([*sizes, *sizes[:-1]])), axis=1)
    return list(zip(legs[: len(sizes)], legs[len(sizes) :], strict=True))


@dataclass(frozen=True)
class TieredSources:
    plan: Plan
    young: LeanSources
    tiers: tuple[Tier, ...] = ()

    def carried(self, w: Square, product: Product, is_last: bool = False) -> "TieredSources":
        rows = w if self.young.alive is None else w[:, self.young.alive]
        (age, _), *_ = self.plan
        if is_last or len(self.young.items) < age:
            tiers = tuple(tier.carried(rows, product) for tier in self.tiers)
            return replace(self, young=self.young.carried(w, product), tiers=tiers)
        oldest, *young = self.young.items
        with jax.named_scope("join"):
            tiers = self._joined(oldest, rows, product)
        return replace(self, young=replace(self.young, items=tuple(young)).carried(w, product), tiers=tiers)

    def _joined(self, source: LeanSource, w: Float[Array, "width alive"], product: Product) -> tuple[Tier, ...]:
        """The tiers after W, with the source in the first; the oldest of a full tier joins the next."""
        joins: LeanSource | None = source
        moved: list[Tier] = []
        for tier, (begins, _), (ends, _) in zip(self.tiers, self.plan, [*self.plan[1:], (None, 0)], strict=False):
            leaves, kept = None, tier
            if joins is not None and ends is not None and len(tier.items) == ends - begins:
                (leaves,) = tier.expanded(product, tier.items[:1])
                kept = tier._replace(items=tier.items[1:])
            after = kept.carried(w, product)
            moved.append(after if joins is None else after.joined(joins, w, product))
            joins = leaves
        if joins is not None:
            moved.append(founded(joins, w, self.plan[len(moved)][1], product))
        return tuple(moved)

    def slices(self, product: Product, alpha: Vector) -> Square | None:
        if not self.young.items:
            return None
        found = pairs(self.young.items)
        for tier in self.tiers:
            large, *rest = pairs(tier.expanded(product))
            found += [large._replace(inner=(_coefficients(tier.items), tier.basis)), *rest]
        return third_slices(found, product, self.young.kept(alpha))

    def diagonal(self, product: Product) -> Vector | None:
        old = [s for tier in reversed(self.tiers) for s in tier.expanded(product)]
        return replace(self.young, items=(*old, *self.young.items)).diagonal(product)

    def contracted(self, e: Vector, product: Product) -> Square | None:
        old = [s for tier in reversed(self.tiers) for s in tier.expanded(product)]
        return replace(self.young, items=(*old, *self.young.items)).contracted(e, product)

    def after(self, relu: Relu, feed: Feed | None) -> "TieredSources":
        young = self.young.after(relu, feed)
        tiers = tuple(tier.gated(relu.slope, young.alive) for tier in self.tiers)
        return replace(self, young=young, tiers=tiers)
