"""An experiment that was not adopted: lean sources of which the old ones share a basis, found before the transport.

A layer depends on earlier layers only in few directions: P = ∏ diag(Φ)·W over the layers since a source was born, and a
product of k random matrices has fewer large singular values as k grows. So a source older than `whole` layers is stored
in a basis U of `share`·n columns. U spans most of the range of the youngest such A, and so also of every older A and P:
    A = U·Ã,  P = U·P̃,
and only U is carried. For κ_iij, A and P are expanded again, because their entries are multiplied. Their factors are
contracted with Ã and P̃ before U. When a source becomes old, U is computed again (a range finder after one power
iteration), and the older coefficients are changed to the new basis.
Cost: 4·share + 2·share² products of n×n matrices per old source and layer, instead of 4. Source: the shared bases of
the challenge's participants. `moonshots.py` measures the error.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.cumulants import Relu, Square
from estimators.parts.lean_sources import LeanSource, LeanSources, factors
from estimators.parts.sources import Feed
from estimators.parts.spread import add_edges
from estimators.parts.strassen import Product, Strassen
from estimators.parts.wick import Vector

Basis = Float[Array, "width basis"]
Coefficients = Float[Array, "basis width"]


class OldSource(NamedTuple):
    a: Coefficients
    p: Coefficients
    rest: LeanSource
    """Its own A and P are out of date: they follow from the basis."""

    def expanded(self, basis: Basis, product: Product) -> LeanSource:
        return self.rest._replace(a=product(basis, self.a), p=product(basis, self.p))


@dataclass(frozen=True)
class SharedSources:
    share: float
    """Columns of the basis, as a share of n."""
    whole: int
    """The number of layers after which a source is stored in the basis."""
    young: LeanSources = field(default_factory=LeanSources)
    old: tuple[OldSource, ...] = ()
    basis: Basis | None = None
    product: Product = field(default_factory=lambda: Strassen(0))
    """The product of the last layer, for methods that are called without one."""

    def carried(self, w: Square, product: Product, is_last: bool = False) -> "SharedSources":
        young = self.young.carried(w, product)
        if self.basis is None:
            return replace(self, young=young, product=product)
        rests = [s.rest._replace(z=w @ s.rest.z, spread=s.rest.spread and s.rest.spread.carried(w)) for s in self.old]
        old = tuple(source._replace(rest=rest) for source, rest in zip(self.old, rests, strict=True))
        return replace(self, young=young, old=old, basis=product(w, self.basis), product=product)

    def slices(self, product: Product, alpha: Vector) -> Square | None:
        young = self.young.slices(product, alpha)
        if self.basis is None or young is None:
            return young
        inner, direct = jnp.zeros_like(self.basis), young
        for source in self.old:
            whole = source.expanded(self.basis, product)
            left, _, with_z = factors([whole])
            inner = inner + product(left, jnp.concatenate([source.a, source.p], axis=1).T)
            direct = add_edges(direct + with_z @ source.rest.z.T, [whole.legs])
        return direct + product(inner, self.basis.T)

    def diagonal(self, product: Product) -> Vector | None:
        return self._expanded(product).diagonal(product)

    def contracted(self, e: Vector, product: Product) -> Square | None:
        return self._expanded(product).contracted(e, product)

    def after(self, relu: Relu, feed: Feed | None) -> "SharedSources":
        slope = relu.slope[:, None]
        young = self.young.after(relu, feed)
        spreads = [source.rest.spread and source.rest.spread.gated(relu.slope) for source in self.old]
        old = tuple(
            source._replace(rest=source.rest._replace(z=slope * source.rest.z, spread=spread))
            for source, spread in zip(self.old, spreads, strict=True)
        )
        gated = replace(self, young=young, old=old, basis=None if self.basis is None else slope * self.basis)
        return gated._aged() if len(young.items) > self.whole else gated

    def _aged(self) -> "SharedSources":
        """The oldest of the young sources joins the old ones, and the basis is computed again from it."""
        oldest, *young = self.young.items
        assert oldest.p is not None, "it has been carried"
        basis = range_of(oldest.a, round(self.share * len(oldest.a)), self.product)
        turned = None if self.basis is None else self.product(basis.T, self.basis)
        old = [
            source._replace(a=self.product(turned, source.a), p=self.product(turned, source.p))
            for source in self.old
            if turned is not None
        ]
        joined = OldSource(self.product(basis.T, oldest.a), self.product(basis.T, oldest.p), oldest)
        return replace(self, young=LeanSources(items=tuple(young)), old=(*old, joined), basis=basis)

    def _expanded(self, product: Product) -> LeanSources:
        if self.basis is None:
            return self.young
        old = [source.expanded(self.basis, product) for source in self.old]
        return LeanSources(items=(*old, *self.young.items))


def range_of(x: Square, size: int, product: Product) -> Basis:
    """An orthonormal basis of the directions in which X is largest."""
    start = jax.random.normal(jax.random.key(1), (x.shape[1], size), x.dtype)
    basis, _ = jnp.linalg.qr(product(x, product(x.T, product(x, start))))
    return basis
