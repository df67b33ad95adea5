"""Third-cumulant propagation: mean, covariance and third cumulants, with a model of the fourth, layer by layer.

The steps of one layer, for z = W·h and its joint cumulants: the sources of κ₃ are carried (see `sources`), the ReLU's
moments are expanded in cumulants (see `cumulants`), the old sources are multiplied by Φ, and a new source is added. Of
the fourth cumulants only a *core* is kept: a few numbers that model the whole tensor. The estimators differ in their
core. The last layer needs only means, and so only variances, κ_iii and κ_iiii. `radial` is the power of the input's
radius that is divided out (see `sphere`): 0 for the Gaussian input, 1 for the sphere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.cumulants import (
    Fourth,
    Inputs,
    Moments,
    Relu,
    Square,
    Terms,
    cumulants,
    joint_moments,
    make_relu,
    moment,
    moments_on_sphere,
    off_diagonal,
)
from estimators.parts.lean_sources import LeanSources
from estimators.parts.looped import LoopedSources, looped
from estimators.parts.sources import Feed, Sources, Third
from estimators.parts.sphere import radial_moment
from estimators.parts.strassen import Product
from estimators.parts.wick import Vector, wick_numbers


class Core(Protocol):
    """A model of the activations' fourth cumulants."""

    with_k31: ClassVar[bool]
    """Whether it needs κ_iiij of the activations."""

    @property
    def matrix(self) -> Square | None:
        """A symmetric matrix B of which `slices` needs W·B·Wᵀ; None: there is none."""
        ...

    def slices(self, w: Square, gram: Square, product: Product, carried: Square | None) -> Fourth:
        """The fourth cumulants of z = W·h; `gram` is W·Wᵀ, `carried` W·B·Wᵀ."""
        ...

    def diagonal(self, w: Square, product: Product) -> Vector:
        """κ_iiii of z = W·h."""
        ...

    def feed(self, relu: Relu, gram: Square, covariance: Square | None) -> Feed | None:
        """The part of the third cumulants that comes from the fourth; `covariance` is that of h."""
        ...

    def after(self, relu: Relu, third: Third, gram: Square, product: Product) -> "Core":
        """The core of a layer's activations; `third` are the third cumulants of its pre-activations."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """The values that one layer passes to the next."""

    mean: Vector
    covariance: Square | None
    """None for the identity, which is the input's covariance."""
    third: Third
    core: Core


def propagate(
    weights: Float[Array, "depth width width"],
    core: Core,
    terms: Terms,
    radial: float,
    product: Product,
    third: Third | None = None,
    in_loops: bool = False,
) -> Float[Array, "depth width"]:
    means, _, state = hidden(weights[:-1], core, terms, radial, product, third, in_loops)
    radius = radial_moment(weights.shape[1], 1, radial)
    last = last_mean(state, weights[-1].T, product) * (radius if len(weights) > 1 else 1)
    return jnp.concatenate([radius * means, last[None]])


def hidden(
    weights: Float[Array, "layer width width"],
    core: Core,
    terms: Terms,
    radial: float,
    product: Product,
    third: Third | None = None,
    in_loops: bool = False,
) -> tuple[Float[Array, "layer width"], Float[Array, "layer width width"], State]:
    """The means and covariances after each of these layers, and the state after the last.

    `in_loops` is for sources that `looped` can hold.
    """
    n = weights.shape[1]
    state = State(jnp.zeros(n, weights.dtype), None, third or Sources(), core)
    if not len(weights):
        return jnp.zeros((0, n), weights.dtype), jnp.zeros((0, n, n), weights.dtype), state
    with jax.named_scope("covariance"):
        grams = jax.lax.map(lambda w: product.symmetric(w.T, w.T), weights)

    def step(state: State, inputs: tuple[Square, Square]) -> tuple[State, tuple[Vector, Square]]:
        stored, gram = inputs
        after = layer(state, stored.T, terms, radial, product, gram)
        assert after.covariance is not None, "only the input has none"
        return after, (after.mean, after.covariance)

    state, found = step(state, (weights[0], grams[0]))
    moments = [found]
    if not in_loops or len(weights) < 2:
        for inputs in zip(weights[1:], grams[1:], strict=True):
            state, found = step(state, inputs)
            moments.append(found)
        means, covariances = (jnp.stack(x) for x in zip(*moments, strict=True))
        return means, covariances, state
    assert isinstance(state.third, Sources | LeanSources)
    start = replace(state, third=looped(state.third, len(weights)))
    state, rest = jax.lax.scan(step, start, (weights[1:], grams[1:]))
    assert isinstance(state.third, LoopedSources)
    means, covariances = (jnp.concatenate([x[None], y]) for x, y in zip(found, rest, strict=True))
    return means, covariances, replace(state, third=state.third.counted(len(weights) - 1))


def layer(state: State, w: Square, terms: Terms, radial: float, product: Product, gram: Square | None = None) -> State:
    """One hidden layer: the cumulants of its pre-activations, its ReLU, and the state for the next; `gram` is W·Wᵀ."""
    mean = w @ state.mean
    with jax.named_scope("covariance"):
        gram = product.symmetric(w, w) if gram is None else gram
        carried = _sandwiched(w, [x for x in (state.covariance, state.core.matrix) if x is not None], product)
        s = gram if state.covariance is None else carried[0]
    wick = wick_numbers(mean, jnp.diagonal(s))
    with jax.named_scope("carry"):
        third = state.third.carried(w, product)
    with jax.named_scope("slices"):
        k21 = third.slices(product, wick.alpha)
        k21 = jnp.zeros_like(w) if k21 is None else k21
    with jax.named_scope("fourth"):
        fourth = state.core.slices(w, gram, product, carried[-1] if len(carried) > 1 else None)
    with jax.named_scope("relu"):
        inputs = Inputs(off_diagonal(s), jnp.diagonal(k21), off_diagonal(k21), fourth)
        moments: Moments = tuple(moment(wick, p, inputs.k3, fourth.k4) for p in (1, 2, 3, 4))  # type: ignore[assignment]
        joint = joint_moments(wick, inputs, terms, state.core.with_k31)
        if radial and state.covariance is None:
            moments, joint = moments_on_sphere(moments, joint, radial)
        relu = make_relu(wick, inputs, cumulants(moments, joint), terms)
    with jax.named_scope("core"):
        core = state.core.after(relu, third, gram, product)
    with jax.named_scope("birth"):
        third = third.after(relu, state.core.feed(relu, gram, state.covariance))
    return State(relu.outputs.mean, relu.outputs.covariance, third, core)


def _sandwiched(w: Square, middles: Sequence[Square], product: Product) -> Sequence[Square]:
    """W·X·Wᵀ of symmetric X, in one loop."""
    if not middles:
        return []
    return list(jax.lax.map(lambda x: product.symmetric(product(w, x), w), jnp.stack(middles)))


def last_mean(state: State, w: Square, product: Product) -> Vector:
    """The last layer's mean activations, which need no joint cumulants."""
    with jax.named_scope("last"):
        correlated = w if state.covariance is None else product(w, state.covariance)
        wick = wick_numbers(w @ state.mean, jnp.sum(correlated * w, axis=1))
        k3 = state.third.carried(w, product, is_last=True).diagonal(product)
        k4 = state.core.diagonal(w, product)
        return moment(wick, 1, jnp.zeros_like(wick.mean) if k3 is None else k3, k4)
