"""Third-cumulant propagation against a version with every third and fourth cumulant, in double precision."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.parts.cumulant_chain import State, layer
from estimators.parts.cumulants import Terms
from estimators.parts.sources import Sources
from estimators.parts.strassen import Strassen
from estimators.third_cumulant import ScalarCore, ThirdCumulant
from estimators.third_cumulant_plus import TERMS, DiagonalCore, ThirdCumulantPlus
from tests.support.dense_chain import Dense
from tests.support.estimators import (
    draw,
    in_double,
)
from whest.metering.walk import meter

SCALE = 0.95


def estimator(plus: bool, sphere: bool, levels: int = 0) -> ThirdCumulant | ThirdCumulantPlus:
    return ThirdCumulantPlus(sphere, SCALE, levels) if plus else ThirdCumulant(sphere, levels)


@pytest.mark.parametrize(
    ("plus", "sphere", "width", "depth"), [(False, True, 8, 4), (True, True, 12, 4), (False, False, 8, 3)]
)
def test_equals_the_dense_chain(plus: bool, sphere: bool, width: int, depth: int) -> None:
    weights = draw(70, width, depth).weights
    expected, _, _ = Dense(plus, sphere).run(weights)
    np.testing.assert_allclose(in_double(estimator(plus, sphere).means, weights), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("plus", [False, True])
def test_state_is_the_dense_chain_s(plus: bool) -> None:
    """After two layers: κ_iij and κ_iii from the gated and the newborn sources, all of κ₃, and the core."""
    n, weights = 8, draw(71, 8, 3).weights
    _, thirds, fourths = Dense(plus, sphere=True).run(weights)

    def run(w: jax.Array) -> tuple[jax.Array, ...]:
        state = State(jnp.zeros(n), None, Sources(), DiagonalCore(SCALE) if plus else ScalarCore())
        for stored in w[:2]:
            state = layer(state, stored.T, TERMS if plus else Terms(), 1, Strassen(0))
        core = state.core.g if isinstance(state.core, DiagonalCore) else state.core.c * jnp.ones(n)  # type: ignore[attr-defined]
        whole = jnp.zeros((n, n, n))
        for a, m, p, w2, _ in state.third.items:  # type: ignore[attr-defined]
            p = jnp.eye(n) if p is None else p
            terms = jnp.einsum("r,ir,jr,kr->ijk", w2, a, a, p) + jnp.einsum("ir,jr,kr->ijk", m, p, p) / 3
            whole = whole + sum(jnp.transpose(terms, order) for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)))
        return state.third.slices(Strassen(0), state.mean), whole, core

    with jax.enable_x64(True), jax.disable_jit():
        found, whole, core = run(jnp.asarray(weights, jnp.float64))
    np.testing.assert_allclose(found, np.einsum("iij->ij", thirds[1]), atol=1e-12)
    np.testing.assert_allclose(whole, thirds[1], atol=1e-12)
    np.testing.assert_allclose(core, np.einsum("iiii->i", fourths[1]), atol=1e-12)


@pytest.mark.parametrize("depth", [1, 2])
def test_first_layer_is_exact(depth: int) -> None:
    weights = draw(72, 10, depth).weights
    exact = np.linalg.norm(weights[0].astype(np.float64), axis=0) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(in_double(estimator(True, True).means, weights)[0], exact, rtol=1e-12)


def test_strassen_changes_the_price_and_not_the_answer() -> None:
    weights = draw(73, 16, 3).weights
    dense, fast = (in_double(estimator(True, True, levels).means, weights) for levels in (0, 2))
    np.testing.assert_allclose(fast, dense, rtol=1e-9)


@pytest.mark.parametrize("depth", [2, 4])
def test_cost_is_the_docstring_s(depth: int) -> None:
    """Matrix products counted by hand: one more per layer for the diagonal core, and products with the mean vector."""
    n = 64
    carry = 3 * depth * (depth - 1) // 2 - (depth - 1)
    products = carry + 3 * (depth - 1) * (depth - 2) // 2 + 2 * (depth - 1) + (depth - 2)

    def matmuls(plus: bool) -> int:
        cost = meter(estimator(plus, True).means)(jax.ShapeDtypeStruct((depth, n, n), jnp.float32))
        return sum(charge.flops for charge in cost.charges if charge.operation == "dot_general")

    assert matmuls(plus=False) == products * 2 * n**3 + depth * 2 * n**2
    assert matmuls(plus=True) == (products + depth - 2) * 2 * n**3 + (depth + 1) * 2 * n**2


@pytest.mark.slow
def test_isotropic_fourth_cumulant_at_256x8() -> None:
    """c after layers 1 … 7 has its usual size for networks of this shape."""
    expected = [0.0069, 0.0099, 0.0093, 0.0072, 0.0059, 0.0052, 0.0041]
    weights = draw(74, 256, 8).weights

    def run(w: jax.Array) -> list[jax.Array]:
        state, found = State(jnp.zeros(256), None, Sources(), ScalarCore()), []
        for stored in w[:-1]:
            state = layer(state, stored.T, Terms(), 1, Strassen(0))
            found.append(state.core.c)  # type: ignore[attr-defined]
        return found

    np.testing.assert_allclose(jax.jit(run)(weights), expected, rtol=0.3)
