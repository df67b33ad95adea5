"""Moments of a rectified Gaussian, shared by the analytic estimators.

For Z ~ N(μ, σ²) and α = μ/σ, with φ and Φ the standard normal density and distribution:
    E[relu Z] = μ·Φ(α) + σ·φ(α),   E[relu(Z)²] = (μ² + σ²)·Φ(α) + μσ·φ(α).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

SMALLEST_VARIANCE = 1e-10
"""The smallest variance of a neuron's input, so that α stays finite."""


class Rectified(NamedTuple):
    """The moments of a layer's activations, for Gaussian inputs."""

    mean: Float[Array, " width"]
    variance: Float[Array, " width"]
    gain: Float[Array, " width"]
    """Φ(α): the probability that a neuron is on, and the derivative of its mean by μ."""


def rectify(mean: Float[Array, " width"], variance: Float[Array, " width"]) -> Rectified:
    sigma = jnp.sqrt(jnp.maximum(variance, SMALLEST_VARIANCE))
    alpha = mean / sigma
    density = jnp.exp(-0.5 * alpha * alpha) * (1 / math.sqrt(2 * math.pi))
    gain = 0.5 * (1 + jax.lax.erf(alpha * math.sqrt(0.5)))
    first = mean * gain + sigma * density
    second = (mean * mean + sigma * sigma) * gain + mean * sigma * density
    return Rectified(first, jnp.maximum(second - first * first, 0), gain)
