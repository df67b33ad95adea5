"""Sources of third cumulants in loops: a program of one layer and one source serves all layers and all sources.

The sources are those of `sources` or `lean_sources`, with all neurons and without a spread, so that all have one shape.
They stand in one array, of which the first `count` places are in use; a loop goes over these alone. Every layer but the
first then has the same program, and `cumulant_chain` goes over the layers in a loop as well. XLA compiles each product
once, and not once per layer.
Cost: that of the sources, and one addition of n×n matrices per source and layer, since slices are summed. W's part of
Strassen's additions is paid for every source.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from estimators.parts.cumulants import Relu, Square
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sources import Feed, Source, Sources
from estimators.parts.strassen import Product
from estimators.parts.wick import Vector

Item = Any
"""A `Source` or a `LeanSource`."""


@partial(jax.tree_util.register_dataclass, data_fields=("old", "count", "newest"), meta_fields=("kind",))
@dataclass(frozen=True)
class LoopedSources:
    kind: type[Sources] | type[LeanSources]
    old: Item
    """Their arrays, with one place per layer."""
    count: Int[Array, ""]
    newest: Item | None
    """The one that no layer has carried yet; it has no P."""

    def carried(self, w: Square, product: Product, is_last: bool = False) -> "LoopedSources":
        old = self._each(lambda item: self._carried(item, w, product))
        assert self.newest is not None, "every layer before has added a source"
        placed = _put(old, self._carried(self.newest, w, product), self.count)
        return replace(self, old=placed, count=self.count + 1, newest=None)

    def slices(self, product: Product, alpha: Vector) -> Square:
        return self._sum(lambda one: one.slices(product, alpha), (len(alpha), len(alpha)))

    def diagonal(self, product: Product) -> Vector:
        return self._sum(lambda one: one.diagonal(product), self.old.a.shape[-2:-1])

    def contracted(self, e: Vector, product: Product) -> Square:
        return self._sum(lambda one: one.contracted(e, product), (len(e), len(e)))

    def after(self, relu: Relu, feed: Feed | None) -> "LoopedSources":
        old = self._each(lambda item: item.gated(relu.slope))
        if feed is not None:
            last = self.count - 1
            old = _put(old, _fed(_at(old, last), feed.v), last)
        return replace(self, old=old, newest=_with_room(self.kind().born(relu, feed)))

    def counted(self, count: int) -> "LoopedSources":
        """The same, with the known count in the program's text."""
        return replace(self, count=jnp.int32(count))

    def _carried(self, item: Item, w: Square, product: Product) -> Item:
        (moved,) = self._one(item).carried(w, product).items
        return moved

    def _one(self, item: Item) -> Sources | LeanSources:
        return self.kind(items=(item,))

    def _each(self, function: Callable[[Item], Item]) -> Item:
        """The items in use, each replaced."""
        return jax.lax.fori_loop(0, self.count, lambda i, all_: _put(all_, function(_at(all_, i)), i), self.old)

    def _sum(self, function: Callable[[Any], Array], shape: tuple[int, ...]) -> Array:
        """The sum over the items in use."""
        start = jnp.zeros(shape, self.old.a.dtype)
        return jax.lax.fori_loop(0, self.count, lambda i, sum_: sum_ + function(self._one(_at(self.old, i))), start)


def looped(first: Sources | LeanSources, places: int) -> LoopedSources:
    """The sources after the first layer, with places for those of so many layers."""
    (newest,) = (_with_room(item) for item in first.items)
    known = newest._replace(p=newest.a)
    old = jax.tree.map(lambda x: jnp.zeros((places, *x.shape), x.dtype), known)
    return LoopedSources(type(first), old, jnp.int32(0), newest)


def _with_room(item: Item) -> Item:
    """Lean sources get a direction more when they are fed."""
    if isinstance(item, Source):
        return item
    z, l = (jnp.pad(x, ((0, 0), (0, 1))) for x in (item.z, item.l))  # noqa: E741
    return item._replace(z=z, l=l)


def _fed(item: Item, v: Vector) -> Item:
    return item.fed(v) if isinstance(item, Source) else item._replace(z=item.z[:, :-1], l=item.l[:, :-1]).fed(v)


def _at(items: Item, place: Array) -> Item:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, place, keepdims=False), items)


def _put(items: Item, item: Item, place: Array) -> Item:
    return jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, place, 0), items, item)
