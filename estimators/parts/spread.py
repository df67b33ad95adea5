"""The part of a source of third cumulants that comes from the fourth cumulants' likeness to the covariance.

A matrix core B is off its diagonal mostly λ·C, with C the covariance of the activations (see `matrix_core`). Then
κ_iijk of the next pre-activations has the part λ·G_ii S_jk/6, and the ReLU turns it into
    κ_ijk += u_i C̃_jk + u_j C̃_ik + u_k C̃_ij,   u_i = w_i G_ii·λ/12,  C̃ = ½·(A·diag(x)·Pᵀ + P·diag(x)·Aᵀ),
where A and P are those of the source that is born in the same layer (see `sources`), and x is its slope. A linear map
acts on u, A and P; a ReLU scales them. Cost: no product of matrices.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.cumulants import Square, outer
from estimators.parts.wick import Vector


class Spread(NamedTuple):
    u: Vector
    x: Vector
    """Indexed by the neurons of the birth layer, so it is never transformed."""

    def carried(self, w: Square) -> "Spread":
        return self._replace(u=w @ self.u)

    def gated(self, slope: Vector) -> "Spread":
        return self._replace(u=slope * self.u)


Wide = Float[Array, "width columns"]
Legs = tuple[Square, Square, Spread | None]
"""A, P and the spread of a source."""


def add_factors(with_a: Wide, with_p: Wide, sources: Sequence[Legs]) -> tuple[Wide, Wide]:
    """The factors of A and P in κ_iij of all sources side by side, with those of 2u_i C̃_ij.

    Sources without a spread, layer 1's, come first.
    """
    known = [legs for legs in sources if legs[2] is not None]
    if not known:
        return with_a, with_p
    start = with_a.shape[1] - sum(a.shape[1] for a, _, _ in known)
    scaled = jnp.concatenate([outer(spread.u, spread.x) for *_, spread in known if spread is not None], axis=1)
    a, p = jnp.concatenate([a for a, *_ in known], axis=1), jnp.concatenate([p for _, p, _ in known], axis=1)
    more = [(with_a, scaled * p), (with_p, scaled * a)]
    with_a, with_p = (jnp.concatenate([x[:, :start], x[:, start:] + y], axis=1) for x, y in more)
    return with_a, with_p


def add_edges(slices: Square, sources: Sequence[Legs]) -> Square:
    """κ_iij with the part u_j C̃_ii, which the factors do not have."""
    edges = spread_edges(sources)
    return slices if edges is None else slices + edges[0] @ edges[1].T


def add_diagonal(k3: Vector, sources: Sequence[Legs]) -> Vector:
    """κ_iii with the part u_i C̃_ii, which the factors do not have."""
    edges = spread_edges(sources)
    return k3 if edges is None else k3 + jnp.sum(edges[0] * edges[1], axis=1)


def spread_edges(sources: Sequence[Legs]) -> tuple[Array, Array] | None:
    """C̃_ii and u of all sources, side by side; None: there are none."""
    pairs = [(jnp.sum(a * p * spread.x, axis=1), spread.u) for a, p, spread in sources if spread is not None]
    if not pairs:
        return None
    traces, directions = zip(*pairs, strict=True)
    return jnp.stack(traces, axis=1), jnp.stack(directions, axis=1)
