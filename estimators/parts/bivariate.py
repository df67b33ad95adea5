"""The covariance of two rectified Gaussians, as a series and in closed form.

For (Z_i, Z_j) with means σα, correlation ρ, and c₁ = Φ(α), c_k = (−1)ᵏ·He_{k−2}(α)·φ(α) for k ≥ 2:
    Cov(relu Z_i, relu Z_j) = σ_i σ_j·Σ_k ρᵏ/k!·c_k(α_i)·c_k(α_j)                          Mehler: the Hermite series
                            = σ_i σ_j·[ρ·Φ_i Φ_j + ∫₀^ρ (ρ − t)·φ₂(α_i, α_j; t) dt]          Price and Plackett
with φ₂ the bivariate normal density of correlation t. If both means are 0 (only in a first layer) the integral is
elementary, the arc-cosine kernel: σ_i σ_j/2π·[ρ·(π/2 + asin ρ) + √(1 − ρ²)] − μ'_i μ'_j, with μ' = σ/√(2π). The first
two forms are used only off the diagonal.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from estimators.parts.cumulants import Square, outer
from estimators.parts.gaussian import SMALLEST_VARIANCE
from estimators.parts.wick import Vector, hermite, wick_numbers

LARGEST_CORRELATION = 1 - 1e-6
"""Above it, φ₂'s exponent overflows float32."""
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(8)


def hermite_covariance(mean: Vector, covariance: Square, terms: int) -> Square:
    """The series with `terms` terms; one term is the gain form."""
    sigma, rho = _scales(covariance)
    wick = wick_numbers(mean, jnp.diagonal(covariance))
    total, power = rho * outer(wick.gain, wick.gain), rho
    for k in range(2, terms + 1):
        power = power * rho * (1 / k)
        coefficient = hermite(k - 2, wick.alpha) * wick.density  # the sign cancels in the product of two neurons
        total = total + power * outer(coefficient, coefficient)
    return outer(sigma, sigma) * total


def exact_covariance(mean: Vector, covariance: Square) -> Square:
    """Price and Plackett's integral by eight Gauss–Legendre points on [0, ρ]."""
    sigma, rho = _scales(covariance)
    wick = wick_numbers(mean, jnp.diagonal(covariance))
    product, squares = outer(wick.alpha, wick.alpha), jnp.square(wick.alpha)
    squares = 0.5 * (squares[:, None] + squares)
    integral = jnp.zeros_like(rho)
    for point, weight in zip((POINTS + 1) / 2, WEIGHTS / 2, strict=True):
        t = rho * float(point)
        width = 1 / (1 - t * t)
        density = jnp.sqrt(width) * jnp.exp((t * product - squares) * width)
        integral = integral + float(weight * (1 - point) / (2 * math.pi)) * density
    return outer(sigma, sigma) * (rho * outer(wick.gain, wick.gain) + rho * rho * integral)


def arc_cosine_covariance(covariance: Square) -> Square:
    """The covariance of neurons whose inputs have mean 0. Its diagonal is exact too: the variances."""
    sigma, rho = _scales(covariance, 1.0)
    kernel = rho * (math.pi / 2 + jax.lax.asin(rho)) + jnp.sqrt(1 - rho * rho) - 1
    return outer(sigma, sigma) * (1 / (2 * math.pi)) * kernel


def _scales(covariance: Square, largest: float = LARGEST_CORRELATION) -> tuple[Vector, Square]:
    """Standard deviations, and correlations clipped to ±`largest`."""
    sigma = jnp.sqrt(jnp.maximum(jnp.diagonal(covariance), SMALLEST_VARIANCE))
    rho = covariance / outer(sigma, sigma)
    return sigma, jnp.clip(rho, -largest, largest)
