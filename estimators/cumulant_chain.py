"""Third-cumulant propagation: mean, covariance and third cumulants, with a model of the fourth, layer by layer.

One layer, for z = W·h and its joint cumulants: the sources of κ₃ are carried (see `sources`), the ReLU's moments
expanded in cumulants (see `cumulants`), the old sources gated by Φ and a new one born. Of the fourth cumulants only a
*core* is kept, a few numbers that stand for the whole tensor; which core is what tells the estimators apart. The last
layer needs means alone, and so the variances, κ_iii and κ_iiii. With `sphere` the chain carries moments of an input on
the sphere.
"""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.cumulants import (
    Fourth,
    Inputs,
    Moments,
    Outputs,
    Square,
    Terms,
    cumulants,
    joint_moments,
    moment,
    moments_on_sphere,
    off_diagonal,
)
from estimators.sources import Product, Source, born, carried, diagonal, gated, slices
from estimators.sphere import radial_moment
from estimators.wick import Vector, wick_numbers


class Core(Protocol):
    """A model of the activations' fourth cumulants."""

    def slices(self, w: Square, gram: Square, product: Product) -> Fourth:
        """The fourth cumulants of z = W·h; `gram` is W·Wᵀ."""
        ...

    def diagonal(self, w: Square) -> Vector:
        """κ_iiii of z = W·h."""
        ...

    def after(self, outputs: Outputs) -> "Core":
        """The core of a layer's activations."""
        ...


@dataclass(frozen=True)
class State:
    """What one layer hands to the next."""

    mean: Vector
    covariance: Square | None
    """None for the identity, the input's."""
    sources: tuple[Source, ...]
    core: Core


def propagate(
    weights: Float[Array, "depth width width"], core: Core, terms: Terms, sphere: bool, product: Product
) -> Float[Array, "depth width"]:
    depth, n, _ = weights.shape
    state = State(jnp.zeros(n, weights.dtype), None, (), core)
    radius = radial_moment(n, 1) if sphere else 1.0
    means = []
    for stored in weights[:-1]:
        state = layer(state, stored.T, terms, sphere, product)
        means.append(radius * state.mean)
    means.append(last_mean(state, weights[-1].T, product) * (radius if depth > 1 else 1))
    return jnp.stack(means)


def layer(state: State, w: Square, terms: Terms, sphere: bool, product: Product) -> State:
    """One hidden layer: the cumulants of its pre-activations, its ReLU, and what is left for the next."""
    mean = w @ state.mean
    with jax.named_scope("covariance"):
        gram = product(w, w.T)
        s = gram if state.covariance is None else product(product(w, state.covariance), w.T)
    with jax.named_scope("third"):
        sources = carried(state.sources, w, product)
        third = slices(sources, product) if sources else jnp.zeros_like(w)
    with jax.named_scope("fourth"):
        fourth = state.core.slices(w, gram, product)
    with jax.named_scope("relu"):
        inputs = Inputs(off_diagonal(s), jnp.diagonal(third), off_diagonal(third), fourth)
        wick = wick_numbers(mean, jnp.diagonal(s))
        moments: Moments = tuple(moment(wick, p, inputs.k3, fourth.k4) for p in (1, 2, 3, 4))  # type: ignore[assignment]
        joint = joint_moments(wick, inputs, terms)
        if sphere and state.covariance is None:
            moments, joint = moments_on_sphere(moments, joint)
        outputs = cumulants(moments, joint)
    with jax.named_scope("birth"):
        sources = (*gated(sources, wick.gain), born(wick, inputs, outputs))
    return State(outputs.mean, outputs.covariance, sources, state.core.after(outputs))


def last_mean(state: State, w: Square, product: Product) -> Vector:
    """The last layer's mean activations, which need no joint cumulant."""
    with jax.named_scope("last"):
        correlated = w if state.covariance is None else product(w, state.covariance)
        wick = wick_numbers(w @ state.mean, jnp.sum(correlated * w, axis=1))
        sources = carried(state.sources, w, product)
        k3 = diagonal(sources) if sources else jnp.zeros_like(wick.mean)
        return moment(wick, 1, k3, state.core.diagonal(w))
