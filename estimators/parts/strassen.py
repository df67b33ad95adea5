"""Strassen's matrix product in Winograd's form: seven half-size products and fifteen additions for eight products.

    [A₁₁ A₁₂]   [B₁₁ B₁₂]     s₁ = A₂₁ + A₂₂, s₂ = s₁ − A₁₁, s₃ = A₁₁ − A₂₁, s₄ = A₁₂ − s₂   (4 additions)
    [A₂₁ A₂₂] · [B₂₁ B₂₂]     t₁ = B₁₂ − B₁₁, t₂ = B₂₂ − t₁, t₃ = B₂₂ − B₁₂, t₄ = t₂ − B₂₁   (4, and 7 for the result)

Source: V. Strassen 1969; S. Winograd 1971. Applied again to each of the seven, L levels cost about (7/8)ᴸ of 2mkn.
With additions, this is .877, .771, .681 at 1024³ and .882, .786 at 256³. Each level increases the error by a small
factor (relative float32 errors of 1e-6). It wins if products are large and the cost is above the multiplier's floor. A
product with an odd side is dense: the recursion stops there.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def multiply(a: Float[Array, "*batch m k"], b: Float[Array, "*batch k n"], levels: int) -> Float[Array, "*batch m n"]:
    """a @ b with at most `levels` levels. The seven products are stacked, so a level is one batched product."""
    if levels == 0 or any(side % 2 for side in (*a.shape[-2:], b.shape[-1])):
        return a @ b
    a11, a12, a21, a22 = _quarters(a)
    b11, b12, b21, b22 = _quarters(b)
    s1, t1 = a21 + a22, b12 - b11
    s2, t2 = s1 - a11, b22 - t1
    left = jnp.stack([a11, a12, a12 - s2, a22, s1, s2, a11 - a21])
    right = jnp.stack([b11, b21, b22, t2 - b21, t1, t2, b22 - b12])
    p1, p2, p3, p4, p5, p6, p7 = multiply(left, right, levels - 1)
    u1 = p1 + p6
    u2 = u1 + p7
    upper = jnp.concatenate([p1 + p2, u1 + p5 + p3], axis=-1)
    lower = jnp.concatenate([u2 - p4, u2 + p5], axis=-1)
    return jnp.concatenate([upper, lower], axis=-2)


def _quarters(x: Float[Array, "*batch m n"]) -> tuple[Array, Array, Array, Array]:
    m, n = x.shape[-2] // 2, x.shape[-1] // 2
    return x[..., :m, :n], x[..., :m, n:], x[..., m:, :n], x[..., m:, n:]
