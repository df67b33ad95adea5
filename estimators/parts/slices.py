"""Slices κ_iij of a layer's third cumulants, from pairs of factors: all of them, or only those that matter.

A neuron that bends little (|α| large) enters the next layers by κ_iij only as the j. So of a thinned layer one computes
the rows i that bend and the columns j that are not dead, one product of fewer rows and columns. Two things of the other
rows still count: κ_iii, which is had without a product, and the *sum* of the rows that are on, by which they enter the
fourth cumulants (Σ_i κ_iijj has the part 2(E[h_j] − mean_j Φ_j)·Σ_i κ_iij). That sum is two products with a vector;
every row that is on gets its mean. Dead rows are zero.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from estimators.parts.cumulants import Square
from estimators.parts.spread import Wide
from estimators.parts.strassen import Product
from estimators.parts.wick import Vector


class Pair(NamedTuple):
    """left·rightᵀ, a part of κ_iij."""

    left: Wide
    right: Wide
    inner: tuple[Float[Array, "rank columns"], Float[Array, "width rank"]] | None = None
    """F and Q if right = Q·F: left·Fᵀ·Qᵀ is cheaper."""


class Kept(NamedTuple):
    """The slices of a layer that matter."""

    rows: Int[Array, " rows"]
    columns: Int[Array, " columns"]


def kept_slices(alpha: Vector, hubs: int, alive: int) -> Kept | None:
    """The rows that bend most and the columns that are most on; None: all."""
    if hubs == len(alpha) == alive:
        return None
    return Kept(jax.lax.top_k(-jnp.abs(alpha), hubs)[1], jax.lax.top_k(alpha, alive)[1])


def third_slices(pairs: Sequence[Pair], product: Product, kept: Kept | None) -> Square:
    """κ_iij with κ_iii on the diagonal."""
    if kept is None:
        return sum((_product(pair, product) for pair in pairs[1:]), _product(pairs[0], product))
    few = [_picked(pair, kept) for pair in pairs]
    known = sum((_product(pair, product) for pair in few[1:]), _product(few[0], product))
    n = len(pairs[0].left)
    k3 = third_diagonal(pairs)
    is_alive = jnp.zeros(n, k3.dtype).at[kept.columns].set(1)
    on = is_alive.at[kept.rows].set(0)
    total = sum((pair.right @ (on @ pair.left) for pair in pairs[1:]), pairs[0].right @ (on @ pairs[0].left))
    mean = is_alive * (total - on * k3) / jnp.maximum(jnp.sum(on) - on, 1)
    rows = jnp.zeros((len(kept.rows), n), k3.dtype).at[:, kept.columns].set(known)
    whole = (on[:, None] * mean).at[kept.rows].set(rows)
    return jnp.where(jnp.eye(n, dtype=bool), k3, whole)


def third_diagonal(pairs: Sequence[Pair]) -> Vector:
    """κ_iii alone, without a product of matrices."""
    return sum((jnp.sum(x.left * x.right, axis=1) for x in pairs[1:]), jnp.sum(pairs[0].left * pairs[0].right, axis=1))


def _picked(pair: Pair, kept: Kept) -> Pair:
    inner = pair.inner and (pair.inner[0], pair.inner[1][kept.columns])
    return Pair(pair.left[kept.rows], pair.right[kept.columns], inner)


def _product(pair: Pair, product: Product) -> Float[Array, "rows columns"]:
    if pair.inner is None:
        return product(pair.left, pair.right.T)
    coefficients, basis = pair.inner
    return product(product(pair.left, coefficients.T), basis.T)
