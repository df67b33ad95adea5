"""Leaks that people found who had not read the code, each closed. docs/attacks.md tells what else they tried."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax.linalg import cholesky_p

from whest.metering import meter

ZERO = np.float32(0)
SQUARE = jax.ShapeDtypeStruct((16, 16), jnp.float32)


def by_window(f, *arrays):
    """`f` of arrays through a window of one place, which applies it to the start value and each element."""
    ones, n = (1,) * arrays[0].ndim, len(arrays)
    return lax.reduce_window(tuple(arrays), (ZERO,) * n, lambda _, v: (f(*v), *v[1:]), ones, ones, "VALID")[0]


def product_by_windows(a, b):
    (n, _), m = a.shape, b.shape[1]

    def add_outer(total, pair):
        left, right = lax.broadcast_in_dim(pair[0], (n, m), (0,)), lax.broadcast_in_dim(pair[1], (n, m), (1,))
        return by_window(lambda p, q, r: p * q + r, left, right, total), None

    return lax.scan(add_outer, jnp.zeros((n, m)), (a.T, b))[0]


def test_a_product_by_windows_of_one_place_costs_a_product() -> None:
    a = jax.random.normal(jax.random.key(0), SQUARE.shape)
    np.testing.assert_allclose(product_by_windows(a, a), a @ a, rtol=1e-4, atol=1e-4)
    assert meter(product_by_windows)(SQUARE, SQUARE).flops >= meter(jnp.matmul)(SQUARE, SQUARE).flops


def test_an_own_function_in_reduce_is_paid_for_every_element() -> None:
    def doubled(x):
        return lax.reduce(x, ZERO, lambda a, b: jnp.sin(a) + b, (1,))

    rows = jax.ShapeDtypeStruct((100, 2), jnp.float32)
    assert meter(doubled)(rows).flops >= 200 * meter(lambda a, b: jnp.sin(a) + b)(1.0, 1.0).flops


def test_the_factor_of_one_number_costs_a_square_root() -> None:
    numbers = jax.ShapeDtypeStruct((1000,), jnp.float32)
    roots = meter(lambda v: cholesky_p.bind(v.reshape(-1, 1, 1)).reshape(-1))(numbers)
    assert roots.flops >= meter(jnp.sqrt)(numbers).flops
