"""The radius taken out of a bias-free network: what is left to propagate lies on a sphere, and that is exact.

Without biases f(r·x) = r·f(x), so a Gaussian input's radius R only scales every activation: E[f(x)] = a₁·E[f(Y)] with Y
uniform on the sphere of radius √n, and a moment of total degree p differs by
    a_p = E[Rᵖ]/n^(p/2) = (2/n)^(p/2)·Γ((n+p)/2)/Γ(n/2).
Layer 1's Gaussian moments are known exactly; divided by a_p they are the sphere's. From there on a chain carries the
sphere's, and each layer's mean is multiplied by a₁ at the end. The common radius was the largest non-Gaussian mode
shared by all neurons, so what the closures leave out shrinks. Cost: nothing.
"""

import math

from jaxtyping import Array, Float


def radial_moment(n: int, p: int) -> float:
    """a_p, for an input of n dimensions; a₂ = 1."""
    return (2 / n) ** (p / 2) * math.exp(math.lgamma((n + p) / 2) - math.lgamma(n / 2))


def on_sphere(
    joint: Float[Array, "width width"],
    left: Float[Array, " width"],
    right: Float[Array, " width"],
    degrees: tuple[int, int],
) -> Float[Array, "width width"]:
    """A covariance Cov(h_i^a, h_j^b) of the sphere's, from that of the Gaussian's and the Gaussian's own moments."""
    n, (a, b) = joint.shape[0], degrees
    both = 1 / radial_moment(n, a + b)
    apart = 1 / (radial_moment(n, a) * radial_moment(n, b))
    return both * joint + (both - apart) * left[:, None] * right
