"""Wick numbers of powers of a ReLU: the coefficients of all moment expansions here.

For Z ~ N(μ, σ²), α = μ/σ, φ and Φ the standard normal density and distribution,
    w(k, p) = E[∂ᵏ(relu(Z)ᵖ)] = ∂ᵏ/∂μᵏ E[relu(Z)ᵖ]
            = p!/q!·Σⱼ C(q, j)·μ^(q−j)·σʲ·tⱼ               q = p − k > 0, tⱼ = E[ζʲ; ζ > −α] for ζ ~ N(0, 1)
            = p!·Φ                                           k = p
            = p!·(−1)ʲ·σ^(1−j)·He_{j−2}(α)·φ                 j = k − p + 1 ≥ 2, He Hermite's polynomials.
If Z isn't Gaussian but has cumulants κ₃, κ₄, its moments are E[relu(Z)ᵖ] = w(0,p) + κ₃·w(3,p)/6 + κ₄·w(4,p)/24 + …,
and the covariance of powers of two neurons is the same expansion in their joint cumulants.
Cost: a few FLOPs per neuron and number.
"""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.gaussian import SMALLEST_VARIANCE

Vector = Float[Array, " width"]


@dataclass(frozen=True)
class Wick:
    """The numbers of one layer's neurons; `wick(k, p)` is w(k, p)."""

    mean: Vector
    sigma: Vector
    alpha: Vector
    density: Vector
    """φ(α)."""
    gain: Vector
    """Φ(α): the probability that a neuron is on."""
    _known: dict[tuple[int, int], Vector] = field(default_factory=dict)

    def __call__(self, k: int, p: int) -> Vector:
        if (k, p) not in self._known:
            self._known[k, p] = self._derivative(k, p) if k >= p else self._moment(k, p)
        return self._known[k, p]

    def _derivative(self, k: int, p: int) -> Vector:
        j = k - p + 1
        if j == 1:
            return math.factorial(p) * self.gain
        odd = (-1) ** j * math.factorial(p)
        return odd * self.sigma ** (1 - j) * hermite(j - 2, self.alpha) * self.density

    def _moment(self, k: int, p: int) -> Vector:
        q = p - k
        terms = (math.comb(q, j) * self.mean ** (q - j) * self.sigma**j * self._tail(j) for j in range(q + 1))
        return math.perm(p, k) * sum(terms, jnp.zeros_like(self.mean))

    def _tail(self, j: int) -> Vector:
        """tⱼ by parts: tⱼ = (−α)^(j−1)·φ + (j−1)·tⱼ₋₂."""
        if j == 0:
            return self.gain
        edge = (-self.alpha) ** (j - 1) * self.density
        return edge if j == 1 else edge + (j - 1) * self._tail(j - 2)


def wick_numbers(mean: Vector, variance: Vector) -> Wick:
    sigma = jnp.sqrt(jnp.maximum(variance, SMALLEST_VARIANCE))
    alpha = mean / sigma
    density = jnp.exp(-0.5 * alpha * alpha) * (1 / math.sqrt(2 * math.pi))
    gain = 0.5 * (1 + jax.lax.erf(alpha * math.sqrt(0.5)))
    return Wick(mean, sigma, alpha, density, gain)


def hermite(k: int, x: Vector) -> Vector:
    """He_k by its recurrence, He_{k+1} = x·He_k − k·He_{k−1}."""
    before, value = jnp.zeros_like(x), jnp.ones_like(x)
    for i in range(k):
        before, value = value, x * value - i * before
    return value
