"""The forward Laplacian of benchmarks/laplacian.py against second differences of the chain itself."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import laplacian

pytestmark = pytest.mark.slow


def test_forward_laplacian_is_that_of_second_differences() -> None:
    weights = laplacian.drawn(12, 3)
    with jax.enable_x64(True):
        jet, found = laplacian.laplacian(weights), laplacian.differences(weights)
    gap = np.linalg.norm(jet.laplacian.mean - jet.value.mean)
    assert np.linalg.norm(jet.laplacian.mean - found) < 1e-4 * gap


def test_one_layer_obeys_the_heat_equation() -> None:
    """One layer is exact, so its Laplacian is the answer itself: E[f] = ΔE[f(x + m)] for a network without biases."""
    with jax.enable_x64(True):
        jet = laplacian.laplacian(laplacian.drawn(12, 1))
    np.testing.assert_allclose(jet.laplacian.mean, jet.value.mean, rtol=1e-10)


def test_pairs_add_up_to_the_whole_second_order_term() -> None:
    weights = laplacian.drawn(6, 3)
    groups = list(laplacian.GROUPS.values())
    with jax.enable_x64(True):
        values = laplacian.Values(jnp.zeros(6))
        step, w = laplacian.steps(weights)[0]
        first = laplacian.each_along(step, w, values, laplacian.Values(jnp.eye(6)))
        state = laplacian.Jet(step(w, values), first, first)
        step, w = laplacian.steps(weights)[1]
        whole = laplacian.bent(step, w, state.value, state.first)
        parts = [laplacian.pair(step, w, state, a, b) for i, a in enumerate(groups) for b in groups[i:]]
    total = sum(np.asarray(part.mean) for part in parts)
    np.testing.assert_allclose(total, whole.mean, atol=1e-12)
