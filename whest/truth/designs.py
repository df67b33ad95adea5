"""Spherical designs: points on the sphere that integrate low-degree polynomials exactly. They reduce the variance.

A bias-free ReLU network is positively homogeneous, so E[f(x)] = E‖x‖·E[f(u)] with u uniform on the sphere. The points
are the rows of mutually unbiased bases and their negatives, turned by one Haar rotation. All n/2 + 1 bases of a Kerdock
set together are a spherical 5-design. Fewer bases, down to a single one, are a 3-design.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

FIELDS = {16: (3, 0b1011), 64: (5, 0b100101), 256: (7, 0b10000011), 1024: (9, 0b1000010001)}
"""For each n = 2^m: the degree m − 1 of the binary field and its irreducible polynomial."""


def mean_radius(n: int) -> float:
    """E‖x‖ for x ~ N(0, I_n): √2·Γ((n+1)/2)/Γ(n/2)."""
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))


def design_size(width: int) -> int | None:
    """The smallest n of a Kerdock set with n ≥ width; None if there is none."""
    return next((n for n in sorted(FIELDS) if n >= width), None)


def hadamard(n: int) -> Float[np.ndarray, "n n"]:
    """Sylvester's matrix, entries ±1."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < n:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


@cache
def kerdock_signs(n: int) -> Int8[np.ndarray, "bases n"]:
    """The n/2 sign vectors c_u: H·diag(c_u)/√n are mutually unbiased bases, and each is unbiased to the identity.

    With x in GF(2^(m−1)) and one more bit y: c_u(x, y) = (−1)^(Σᵢ Tr((ux)^(2^i+1)) + y·Tr(ux)), i = 1 … (m−2)/2.
    """
    degree, polynomial = FIELDS[n]
    size = 1 << degree
    powers = _antilogarithms(degree, polynomial)
    logarithm = {value: power for power, value in enumerate(powers)}
    trace = np.array([_trace(value, degree, polynomial) for value in range(size)], np.int8)
    exponents = [2**i + 1 for i in range(1, (degree - 1) // 2 + 1)]
    signs = np.empty((size, n), np.int8)
    for u in range(size):
        for x in range(size):
            product = powers[(logarithm[u] + logarithm[x]) % (size - 1)] if u and x else 0
            form = sum(_trace_of_power(product, e, logarithm, powers, trace, size) for e in exponents)
            for y in (0, 1):
                signs[u, x + size * y] = 1 - 2 * ((form + y * trace[product]) % 2)
    return signs


def _trace_of_power(
    value: int, exponent: int, logarithm: dict[int, int], powers: list[int], trace: np.ndarray, size: int
) -> int:
    return int(trace[powers[logarithm[value] * exponent % (size - 1)]]) if value else 0


def _antilogarithms(degree: int, polynomial: int) -> list[int]:
    """Powers of a primitive element, which is z for these polynomials."""
    powers, value = [], 1
    for _ in range((1 << degree) - 1):
        powers.append(value)
        value = _times_z(value, degree, polynomial)
    return powers


def _times_z(value: int, degree: int, polynomial: int) -> int:
    value <<= 1
    return value ^ polynomial if value >> degree else value


def _multiply(a: int, b: int, degree: int, polynomial: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a, b = _times_z(a, degree, polynomial), b >> 1
    return product


def _trace(value: int, degree: int, polynomial: int) -> int:
    """Tr(v) = v + v² + v⁴ + …, which is 0 or 1."""
    total, term = 0, value
    for _ in range(degree):
        total ^= term
        term = _multiply(term, term, degree, polynomial)
    return total


def walsh_hadamard(v: Float[Array, "basis n width"]) -> Float[Array, "basis n width"]:
    """Sylvester's transform along the middle axis, unnormalised."""
    bases, n, width = v.shape
    step = 1
    while step < n:
        v = v.reshape(bases, n // (2 * step), 2, step, width)
        even, odd = v[:, :, :1], v[:, :, 1:]
        v = jnp.concatenate([even + odd, even - odd], axis=2).reshape(bases, n, width)
        step *= 2
    return v


def haar(key: Array, n: int) -> Float[Array, "n n"]:
    """A uniformly random rotation: Q of a Gaussian matrix's QR, signs fixed by R's diagonal."""
    q, r = jnp.linalg.qr(jax.random.normal(key, (n, n), jnp.float32))
    return q * jnp.sign(jnp.diagonal(r))
