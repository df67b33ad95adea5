"""Strassen's product gives the same numbers for fewer metered FLOPs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.parts.strassen import LOOPED, _multiply, cheapest, multiply, symmetric_product
from whest.metering.walk import meter


def metered_ratio(m: int, k: int, n: int, levels: int) -> float:
    """Its price over that of the dense product."""
    a, b = jax.ShapeDtypeStruct((m, k), jnp.float32), jax.ShapeDtypeStruct((k, n), jnp.float32)
    return meter(lambda x, y: multiply(x, y, levels))(a, b).flops / (2 * m * k * n)


@pytest.mark.parametrize(
    ("m", "k", "n", "levels"), [(16, 16, 16, 0), (16, 16, 16, 2), (24, 40, 56, 3), (12, 20, 4, 2), (8, 8, 10, 1)]
)
def test_it_is_the_product(m: int, k: int, n: int, levels: int) -> None:
    """Every level is taken, cheap or not."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    product = _multiply(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32), levels)
    np.testing.assert_allclose(product, a @ b, atol=1e-4)


def test_loops_over_large_pieces_give_the_product() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((2, 256, 256)) for _ in "ab")
    assert a[0].size // 4 >= LOOPED
    product = multiply(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32), 3)
    np.testing.assert_allclose(product, a @ b, atol=1e-3)


@pytest.mark.parametrize("n", [64, 80, 33])
def test_symmetric_product_is_the_product(n: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, 48))
    y = x @ (lambda c: c @ c.T)(rng.standard_normal((48, 48)))
    product = symmetric_product(jnp.asarray(y, jnp.float32), jnp.asarray(x, jnp.float32), 1)
    np.testing.assert_allclose(product, y @ x.T, atol=0.05, rtol=1e-4)


def test_symmetric_product_costs_little_more_than_half() -> None:
    """Dense, by four halvings: ½ + 1/32 of the product, and no addition."""
    shape = jax.ShapeDtypeStruct((256, 128), jnp.float32)
    cost = meter(lambda x: symmetric_product(x, x, 0))(shape).flops
    assert cost == pytest.approx((1 / 2 + 1 / 32) * 2 * 256 * 256 * 128, rel=1e-9)


def test_a_product_takes_the_cheapest_number_of_levels() -> None:
    costs = [metered_ratio(256, 256, 256, levels) for levels in range(7)]
    assert costs == sorted(costs, reverse=True), "more levels are allowed, never forced"
    assert cheapest(8, 8, 8, 3) == 0
    assert cheapest(1024, 1024, 1024, 4) == 4


@pytest.mark.parametrize(("levels", "quoted"), [(0, 1.0), (1, 0.877), (2, 0.773)])
def test_the_meter_sees_the_saving(levels: int, quoted: float) -> None:
    """(7/8)^levels and the additions: 15 of quarter size, then 7·15 of a sixteenth."""
    additions = sum(7**i * 15 / 4 / 4**i for i in range(levels)) / (2 * 1024)
    ratio = metered_ratio(1024, 1024, 1024, levels)
    assert ratio == pytest.approx((7 / 8) ** levels + additions, rel=1e-6)
    assert ratio == pytest.approx(quoted, abs=0.003)


def test_odd_sides_cost_what_the_dense_product_costs() -> None:
    assert metered_ratio(257, 256, 256, 2) == 1
    assert metered_ratio(258, 258, 258, 3) == metered_ratio(258, 258, 258, 1) < 0.9, "129 is odd: one level only"
