"""Strassen's product gives the same numbers for fewer metered FLOPs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.parts.strassen import multiply
from whest.metering.meter import meter


def metered_ratio(m: int, k: int, n: int, levels: int) -> float:
    """Its price over that of the dense product."""
    a, b = jax.ShapeDtypeStruct((m, k), jnp.float32), jax.ShapeDtypeStruct((k, n), jnp.float32)
    return meter(lambda x, y: multiply(x, y, levels))(a, b).flops / (2 * m * k * n)


@pytest.mark.parametrize(
    ("m", "k", "n", "levels"), [(16, 16, 16, 0), (16, 16, 16, 2), (24, 40, 56, 3), (12, 20, 6, 2), (7, 8, 10, 1)]
)
def test_it_is_the_product(m: int, k: int, n: int, levels: int) -> None:
    """Any shape: an odd side ends the recursion at that size."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    product = multiply(jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32), levels)
    np.testing.assert_allclose(product, a @ b, atol=1e-4)


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
