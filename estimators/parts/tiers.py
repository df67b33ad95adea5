"""Lean sources of which the old ones share a basis.

A source's matrices A and P are products of the layers since its birth, and lose rank with age. From an age on, sources
are a *tier*: with one basis Q of few columns for both legs of all of them,
    A = Q·F,  P = Q·E,
so that a layer transforms Q alone. For κ_iij the legs are expanded again, since their entries are multiplied; their
factors are contracted with F and E before Q. Each layer one more source joins, after W has acted on it. The new Q spans
the largest directions of
    Γ = Q·g·Qᵀ + A·D·Aᵀ/‖A√D‖² + P·D·Pᵀ/‖P√D‖²,   D = diag(√w + .05)²,
where g sums the same for the coefficients of the members before: one step of a range finder, Q ← qr(Γ·Ω). Random rows
of W have just acted on the legs, so Ω needs no random numbers and no product: Γ's first columns will do.
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

    def joined(self, source: LeanSource, product: Product) -> "Tier":
        basis = largest_directions(source, len(self.weights), product, self)
        turn = product(basis.T, self.basis)
        legs = _split(product(turn, _coefficients(self.items)), self.items)
        turned = [s._replace(a=a, p=p) for s, (a, p) in zip(self.items, legs, strict=True)]
        member, weights = _member(source, basis, product)
        return Tier(basis, product(product(turn, self.weights), turn.T) + weights, (*turned, member))


def founded(source: LeanSource, rank: int, product: Product) -> Tier:
    """A tier of one source."""
    basis = largest_directions(source, rank, product)
    member, weights = _member(source, basis, product)
    return Tier(basis, weights, (member,))


def largest_directions(source: LeanSource, rank: int, product: Product, tier: Tier | None = None) -> Basis:
    """A basis of the first columns of Γ. With legs = W·X they are W·(X·Xᵀ)·Ω, where Ω, some rows of W, is random."""
    legs = side_by_side([_scaled(source.a, source.w), _scaled(source.known_p, source.w)])
    found = product(legs, legs[:rank].T)
    if tier is not None:
        found = found + product(tier.basis, product(tier.weights, tier.basis[:rank].T))
    return jnp.linalg.qr(found)[0]


def _scaled(leg: Float[Array, "rows hubs"], w: Vector) -> Float[Array, "rows hubs"]:
    """A leg times √D, divided by its norm."""
    heavy = leg * (jnp.sqrt(jnp.maximum(w, 0)) + EVEN)
    return heavy / jnp.sqrt(jnp.sum(heavy * heavy))


def _member(source: LeanSource, basis: Basis, product: Product) -> tuple[LeanSource, Float[Array, "rank rank"]]:
    """The source with coefficients for legs, and what it adds to g."""
    (legs,) = _split(product(basis.T, _coefficients([source])), [source])
    scaled = side_by_side([_scaled(leg, source.w) for leg in legs])
    return source._replace(a=legs[0], p=legs[1]), product.symmetric(scaled, scaled)


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
        young = self.young.carried(w, product)
        moved = replace(self, young=young, tiers=tuple(tier.carried(rows, product) for tier in self.tiers))
        with jax.named_scope("join"):
            return moved if is_last else moved._aged(product)

    def _aged(self, product: Product) -> "TieredSources":
        """Sources that have reached the age of a tier join it."""
        (age, _), *_ = self.plan
        if len(self.young.items) < age:
            return self
        joins, *young = self.young.items
        tiers = list(self.tiers)
        for index, (begins, rank) in enumerate(self.plan):
            if index == len(tiers):
                tiers.append(founded(joins, rank, product))
                break
            tiers[index] = tiers[index].joined(joins, product)
            if index + 1 == len(self.plan) or len(tiers[index].items) <= self.plan[index + 1][0] - begins:
                break
            first, *rest = tiers[index].items
            (joins,) = tiers[index].expanded(product, [first])
            tiers[index] = tiers[index]._replace(items=tuple(rest))
        return replace(self, young=replace(self.young, items=tuple(young)), tiers=tuple(tiers))

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
