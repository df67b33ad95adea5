"""Small errors of one layer's mean and covariance, carried to the means of the layers after it.

Covariance propagation is a map (μ, C) → (μ′, C′) per layer, with S = WᵀCW, α = Wᵀμ/σ and σ² = diag S:
    μ′ = E[relu Z] and C′_ii = Var[relu Z_i] for Z ~ N(Wᵀμ, S),  C′_ij = Φ_i Φ_j S_ij off the diagonal.
Its derivative at the moments of the layer takes the errors (dμ, dC) on:
    dμ′ = Φ∘(Wᵀdμ) + ½·φ(α)/σ∘diag(WᵀdC W), and dC′ likewise,
by JAX's forward mode. The first term alone is `chain.carry`. The second says what a wrong covariance does to the means:
a sampler whose points are spread too widely at one layer has too large means at the next. Nothing is fitted.
Cost: 4 products of 2·width³ FLOPs per layer, two of them symmetric.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.cumulants import Square
from estimators.parts.gaussian import rectify
from estimators.parts.strassen import Product
from estimators.parts.wick import Vector

Moments = tuple[Vector, Square]
"""Mean and covariance."""


def carry_moments(
    errors: Moments, at: Moments, weights: Float[Array, "layer width width"], product: Product
) -> Float[Array, "layer width"]:
    """The errors of the means after each of these layers, from those of the moments `at` before them."""
    with jax.named_scope("tangent"):
        means = partial(_means, weights=weights, product=product)
        _, carried = jax.jvp(means, at, errors)
        return carried


def _means(mean: Vector, covariance: Square, weights: Array, product: Product) -> Float[Array, "layer width"]:
    """The mean of each layer by covariance propagation, in a loop that is compiled once."""
    _, means = jax.lax.scan(lambda moments, w: _step(moments, w, product), (mean, covariance), weights)
    return means


def _step(moments: Moments, w: Square, product: Product) -> tuple[Moments, Vector]:
    mean, covariance = moments
    s = product.symmetric(product(w.T, covariance), w.T)
    mean, variance, gain = rectify(mean @ w, jnp.diagonal(s))
    diagonal = jnp.eye(len(w), dtype=bool)
    return (mean, jnp.where(diagonal, variance, gain[:, None] * s * gain)), mean
