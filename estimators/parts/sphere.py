"""The input's radius, removed from a bias-free network: the moments to propagate are those of an input on a sphere.

Without biases f(r·x) = r·f(x), so a Gaussian input's radius R only scales every activation: E[f(x)] = a₁·E[f(Y)] with Y
uniform on the sphere of radius √n. A moment of total degree p differs by the factor
    a_p = E[Rᵖ]/n^(p/2) = (2/n)^(p/2)·Γ((n+p)/2)/Γ(n/2).
Layer 1's Gaussian moments are known exactly; divided by a_p they are those of the sphere. The chain propagates these,
and each layer's mean is multiplied by a₁ at the end. All of this is exact. The common radius was the largest
non-Gaussian mode shared by all neurons, so the error of the closures becomes smaller. Any other law of the radius is as
exact: a power t of it divides by a_pᵗ instead. t = 0 is the Gaussian, t = 1 the sphere, and t = 2 a formal law, whose
radius has a negative variance. Cost: nothing.
"""

import math

from jaxtyping import Array, Float


def radial_moment(n: int, p: int, power: float = 1) -> float:
    """a_p to this power, for an input of n dimensions; a₂ = 1."""
    moment = (2 / n) ** (p / 2) * math.exp(math.lgamma((n + p) / 2) - math.lgamma(n / 2))
    return float(moment**power)


def on_sphere(
    joint: Float[Array, "width width"],
    left: Float[Array, " width"],
    right: Float[Array, " width"],
    degrees: tuple[int, int],
    power: float = 1,
) -> Float[Array, "width width"]:
    """Cov(h_i^a, h_j^b) for an input on the sphere, from the Gaussian covariance and the Gaussian moments."""
    n, (a, b) = joint.shape[0], degrees
    both = 1 / radial_moment(n, a + b, power)
    apart = 1 / (radial_moment(n, a, power) * radial_moment(n, b, power))
    return both * joint + (both - apart) * left[:, None] * right
