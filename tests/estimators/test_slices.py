"""Slices κ_iij from pairs of factors, whole and only where they matter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.parts.slices import Pair, kept_slices, third_diagonal, third_slices
from estimators.parts.strassen import Strassen
from whest.metering.walk import meter

N, HUBS, ALIVE = 12, 5, 9
ALPHA = np.array([-4, -3.5, -3, -1, -0.5, 0.1, 0.6, 1, 2.6, 2.7, 2.8, 2.9])
"""Three dead neurons, five that bend, four that are on."""


@pytest.fixture
def pairs() -> list[Pair]:
    """One pair of large factors, one whose right factor is Q·F, one of narrow ones."""
    rng = np.random.default_rng(7)
    left, right, other, narrow, z = (rng.normal(size=(N, columns)) for columns in (8, 8, 6, 2, 2))
    coefficients, basis = rng.normal(size=(3, 6)), rng.normal(size=(N, 3))
    inner = jnp.asarray(coefficients), jnp.asarray(basis)
    return [
        Pair(jnp.asarray(left), jnp.asarray(right)),
        Pair(jnp.asarray(other), jnp.asarray(basis @ coefficients), inner),
        Pair(jnp.asarray(narrow), jnp.asarray(z)),
    ]


@pytest.fixture
def whole(pairs: list[Pair]) -> np.ndarray:
    return np.asarray(sum(np.asarray(pair.left) @ np.asarray(pair.right).T for pair in pairs))


def test_all_slices_are_the_sum_of_the_products(pairs: list[Pair], whole: np.ndarray) -> None:
    np.testing.assert_allclose(third_slices(pairs, Strassen(0), None), whole, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(third_diagonal(pairs), np.diagonal(whole), rtol=1e-5, atol=1e-5)


def test_kept_slices_are_exact_and_rows_that_are_on_keep_their_sum(pairs: list[Pair], whole: np.ndarray) -> None:
    kept = kept_slices(jnp.asarray(ALPHA), HUBS, ALIVE)
    assert kept is not None
    found = np.asarray(third_slices(pairs, Strassen(0), kept), np.float64)
    off = ~np.eye(N, dtype=bool)
    dead, bends, on = ALPHA < -2, abs(ALPHA) < 2, ALPHA > 2
    np.testing.assert_allclose(np.diagonal(found), np.diagonal(whole), atol=1e-4)
    np.testing.assert_allclose(found[bends][:, ~dead], whole[bends][:, ~dead], atol=1e-4)
    sums, expected = ((x * off)[on].sum(axis=0)[~dead] for x in (found, whole))
    np.testing.assert_allclose(sums, expected, atol=1e-4)
    assert np.all((found * off)[dead] == 0)
    assert np.all((found * off)[:, dead] == 0)


def test_nothing_is_picked_where_all_are_kept() -> None:
    assert kept_slices(jnp.asarray(ALPHA), N, N) is None


def test_fewer_slices_cost_less() -> None:
    large = jax.ShapeDtypeStruct((128, 512), jnp.float32)

    def cost(hubs: int, alive: int) -> float:
        def run(left: jax.Array, right: jax.Array, alpha: jax.Array) -> jax.Array:
            return third_slices([Pair(left, right)], Strassen(0), kept_slices(alpha, hubs, alive))

        return meter(run)(large, large, jax.ShapeDtypeStruct((128,), jnp.float32)).flops

    assert cost(64, 96) < 0.45 * cost(128, 128)
