"""Thinned chains: how many neurons are kept, and that the answer stays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.matrix_core import MatrixCoreProp
from estimators.parts import thinning
from estimators.parts.thinning import Thinning, correlation
from tests.support.estimators import draw, in_double
from whest.metering.walk import meter


def test_shares_are_those_of_a_sampled_network() -> None:
    """α of every neuron from 4,000 samples; the shares are within 6 standard errors and 2 % for the finite width."""
    weights, beyond = draw(90, 256, 8).weights.astype(np.float64), 1.5
    h = np.random.default_rng(1).standard_normal((4000, 256))
    for layer, w in enumerate(weights, start=1):
        z = h @ w
        alpha = z.mean(axis=0) / z.std(axis=0)
        share = Thinning(256, beyond)._tail(layer)
        assert np.mean(alpha < -beyond) == pytest.approx(share, abs=0.02 + 6 * np.sqrt(share / 256))
        h = np.maximum(z, 0)


def test_correlation_grows_from_nothing_to_one() -> None:
    values = [correlation(layer) for layer in range(1, 40)]
    assert values[0] == 0
    assert values[1] == pytest.approx(1 / np.pi)
    assert values == sorted(values)
    assert values[-1] < 1


def test_numbers_are_multiples_that_strassen_can_halve() -> None:
    for layer in range(1, 17):
        hubs, alive = Thinning(1024, 2.5).hubs(layer), Thinning(1024, 2.5).alive(layer)
        assert hubs <= alive <= 1024
        assert hubs % 64 == alive % 64 == 0
    assert Thinning(100, 2.5).alive(30) == 100, "a width below two multiples is kept whole"


@pytest.fixture
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks can be thinned too."""
    monkeypatch.setattr(thinning, "ROUNDED", 2)


@pytest.mark.usefixtures("fine")
def test_a_thinned_chain_stays_near_the_whole_one() -> None:
    """The change is far below the chain's own error, and the cost falls."""
    weights = draw(91, 48, 6).weights
    whole, thinned = (MatrixCoreProp(2, 8, "lean", False, 0, beyond, False) for beyond in (None, 2.5))
    sizes = [Thinning(48, 2.5).hubs(layer) for layer in range(1, 6)]
    assert sizes[-1] <= 44, "this test thins"
    one, other = (in_double(chain.means, weights)[-1] for chain in (whole, thinned))
    assert 0 < np.mean((one - other) ** 2) < 1e-6
    shape = jax.ShapeDtypeStruct(weights.shape, jnp.float32)
    assert meter(thinned.means)(shape).flops < meter(whole.means)(shape).flops


@pytest.mark.usefixtures("fine")
def test_thinning_nobody_changes_nothing() -> None:
    weights = draw(92, 24, 4).weights
    whole, thinned = (
        in_double(MatrixCoreProp(2, 8, "lean", False, 0, beyond, False).means, weights) for beyond in (None, 50.0)
    )
    np.testing.assert_array_equal(thinned, whole)
