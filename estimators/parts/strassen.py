"""Strassen's matrix product in Winograd's form: seven half-size products and fifteen additions for eight products.

    [A₁₁ A₁₂]   [B₁₁ B₁₂]     s₁ = A₂₁ + A₂₂, s₂ = s₁ − A₁₁, s₃ = A₁₁ − A₂₁, s₄ = A₁₂ − s₂   (4 additions)
    [A₂₁ A₂₂] · [B₂₁ B₂₂]     t₁ = B₁₂ − B₁₁, t₂ = B₂₂ − t₁, t₃ = B₂₂ − B₁₂, t₄ = t₂ − B₂₁   (4, and 7 for the result)

Source: V. Strassen 1969; S. Winograd 1971. Applied again to each of the seven, L levels cost about (7/8)ᴸ of 2mkn. With
additions, 1 to 6 levels cost .877, .771, .681, .607, .551, .516 at 1024³. Each level increases the error by a small
factor (relative float32 errors of 1e-6). It wins if products are large and the cost is above the multiplier's floor. A
product takes as many levels as make it cheapest, at most those allowed; at an odd side the recursion stops.

While pieces are large, the seven products run one after the other in a loop: their sums then stay in the processor's
cache. That makes 4 levels twice and 6 levels seven times as fast (`benchmarks/products.py`); the cost is the same.
"""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LOOPED = 2**14
"""The least number of elements in a piece for which the seven products run in a loop."""
HALVINGS = 4


class Product(Protocol):
    """A way to multiply matrices."""

    def __call__(self, a: Float[Array, "m k"], b: Float[Array, "k n"]) -> Float[Array, "m n"]: ...

    def symmetric(self, x: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, "n n"]:
        """x·yᵀ, where that is known to be symmetric."""
        ...


@dataclass(frozen=True)
class Strassen:
    """Products with at most `levels` levels; 0 is the dense product."""

    levels: int
    halves: bool = False
    """Whether of a symmetric product only one half is computed."""

    def __call__(self, a: Float[Array, "m k"], b: Float[Array, "k n"]) -> Float[Array, "m n"]:
        return multiply(a, b, self.levels)

    def symmetric(self, x: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, "n n"]:
        return symmetric_product(x, y, self.levels, HALVINGS if self.halves else 0)


def multiply(a: Float[Array, "*batch m k"], b: Float[Array, "*batch k n"], levels: int) -> Float[Array, "*batch m n"]:
    """a @ b with at most `levels` levels."""
    return _multiply(a, b, cheapest(a.shape[-2], a.shape[-1], b.shape[-1], levels))


def symmetric_product(
    x: Float[Array, "*batch n k"], y: Float[Array, "*batch n k"], levels: int, halvings: int = HALVINGS
) -> Float[Array, "*batch n n"]:
    """x·yᵀ if it is symmetric: blocks on the diagonal, and of each pair of blocks beside it only one.

    With h halvings there are 2^h blocks on the diagonal, and 2^i corners of n/2^(i+1) rows for every i < h. Blocks of
    the same size are one batch.
    """
    sides: list[tuple[Array, Array]] = []
    while len(sides) < halvings and x.shape[-2] % 2 == 0:
        x, y = _halves(x, len(sides) > 0), _halves(y, len(sides) > 0)
        sides.append((x[..., 0::2, :, :], y[..., 1::2, :, :]))
    if not sides:
        return multiply(x, jnp.swapaxes(y, -1, -2), levels)
    last, other = (jnp.concatenate(pair, axis=-3) for pair in zip((x, y), sides.pop(), strict=True))
    blocks = multiply(last, jnp.swapaxes(other, -1, -2), levels)
    whole = _mirrored(blocks[..., : x.shape[-3], :, :], blocks[..., x.shape[-3] :, :, :])
    for left, right in reversed(sides):
        whole = _mirrored(whole, multiply(left, jnp.swapaxes(right, -1, -2), levels))
    return whole[..., 0, :, :]


def _mirrored(ends: Array, corner: Array) -> Array:
    """Symmetric blocks: on their diagonals two of the ends, beside it a corner."""
    above = jnp.concatenate([ends[..., 0::2, :, :], corner], axis=-1)
    below = jnp.concatenate([jnp.swapaxes(corner, -1, -2), ends[..., 1::2, :, :]], axis=-1)
    return jnp.concatenate([above, below], axis=-2)


def _halves(x: Array, is_split: bool) -> Array:
    """Each block of rows as two; the blocks are the third axis from the end."""
    *batch, n, k = x.shape
    if is_split:
        return x.reshape(*batch[:-1], 2 * batch[-1], n // 2, k)
    return x.reshape(*batch, 2, n // 2, k)


def cheapest(m: int, k: int, n: int, levels: int) -> int:
    """The number of levels, at most `levels`, at which the product costs least."""
    costs = [2.0 * m * k * n]
    products, additions = 1, 0
    while len(costs) <= levels and not (m % 2 or k % 2 or n % 2):
        m, k, n = m // 2, k // 2, n // 2
        additions += products * (4 * m * k + 4 * k * n + 7 * m * n)
        products *= 7
        costs.append(additions + products * 2.0 * m * k * n)
    return costs.index(min(costs))


def _multiply(a: Float[Array, "*batch m k"], b: Float[Array, "*batch k n"], levels: int) -> Float[Array, "*batch m n"]:
    if levels == 0:
        return a @ b
    a11, a12, a21, a22 = _quarters(a)
    b11, b12, b21, b22 = _quarters(b)
    s1, t1 = a21 + a22, b12 - b11
    s2, t2 = s1 - a11, b22 - t1
    left = jnp.stack([a11, a12, a12 - s2, a22, s1, s2, a11 - a21])
    right = jnp.stack([b11, b21, b22, t2 - b21, t1, t2, b22 - b12])
    if min(a11.size, b11.size) >= LOOPED:
        p1, p2, p3, p4, p5, p6, p7 = jax.lax.map(lambda pair: _multiply(pair[0], pair[1], levels - 1), (left, right))
    else:
        p1, p2, p3, p4, p5, p6, p7 = _multiply(left, right, levels - 1)
    u1 = p1 + p6
    u2 = u1 + p7
    upper = jnp.concatenate([p1 + p2, u1 + p5 + p3], axis=-1)
    lower = jnp.concatenate([u2 - p4, u2 + p5], axis=-1)
    return jnp.concatenate([upper, lower], axis=-2)


def _quarters(x: Float[Array, "*batch m n"]) -> tuple[Array, Array, Array, Array]:
    m, n = x.shape[-2] // 2, x.shape[-1] // 2
    return x[..., :m, :n], x[..., :m, n:], x[..., m:, :n], x[..., m:, n:]
