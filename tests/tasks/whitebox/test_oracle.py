"""Oracle interventions: an estimator that starts from true moments makes the error of the layers after them only."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from estimators.cov_prop import CovarianceProp
from estimators.hermite_cov import HermiteCovariance
from estimators.mean_prop import MeanProp
from estimators.monte_carlo import MonteCarlo
from estimators.parts.bivariate import arc_cosine_covariance
from whest.mlp import SeedProtocol, draw_mlp
from whest.tasks.whitebox.oracle import FromMoments, what_is_left
from whest.truth.moments import stream_moments
from whest.truth.truth import Truth

WIDTH, DEPTH = 24, 3
MLP = draw_mlp(SeedProtocol().streams(11), WIDTH, DEPTH, "test")


@pytest.mark.parametrize(
    ("estimator", "error"),
    [
        (MeanProp(), 1e-5),
        (CovarianceProp("exact", sphere=False), 1e-5),
        (CovarianceProp("exact", sphere=True, output_scale=1.1), 1e-5),
        (HermiteCovariance(20, sphere=True), 1e-3),  # twenty terms of its series at the first layer
    ],
)
def test_from_the_exact_first_layer_the_answer_is_the_same(estimator: Any, error: float) -> None:
    weights = jnp.asarray(MLP.weights)
    products = weights[0].T @ weights[0]
    variance = jnp.diagonal(products) * (0.5 - 0.5 / np.pi)
    covariance = jnp.where(np.eye(WIDTH, dtype=bool), variance, arc_cosine_covariance(products))
    mean = jnp.sqrt(jnp.diagonal(products) / (2 * np.pi))
    assert isinstance(estimator, FromMoments)
    found = np.asarray(estimator.predict_from(weights[1:], mean, covariance))
    assert found == pytest.approx(np.asarray(estimator.means(weights)[1:]), rel=error, abs=error)


def test_a_sampler_does_not_take_moments() -> None:
    assert not isinstance(MonteCarlo(0.1, 0), FromMoments)


def test_what_is_left_falls_towards_the_last_layer_and_ends_at_the_gaussian_error() -> None:
    """cov_prop's error at the last layer is that of a Gaussian with the true moments, computed here by hand."""
    *_, drawn = stream_moments(MLP, 2**16)
    moments = drawn.moments()
    rng, h, means = np.random.default_rng(0), None, []
    h = rng.normal(size=(200_000, WIDTH))
    for w in MLP.weights:
        h = np.maximum(h @ w, 0)
        means.append(h.mean(axis=0))
    truth = Truth(np.array(means, np.float32), np.zeros((DEPTH, WIDTH), np.float32), 1.0, 200_000, None, moments)
    estimator = CovarianceProp()
    own = np.asarray(estimator.means(jnp.asarray(MLP.weights)))
    whole = float(np.square(own[-1] - truth.means[-1]).mean())
    found = what_is_left(estimator, [(MLP.weights, truth)] * 2, [whole] * 2)
    (_, _), (last, error) = found.shares
    assert error == pytest.approx(0), "twice the same network"
    assert found.n_moment_samples == 2**16
    w = MLP.weights[-1]
    assert moments.covariances is not None
    inputs, variance = truth.means[-2] @ w, np.einsum("ij,ik,kj->j", w, moments.covariances[-2], w)
    sigma = np.sqrt(variance)
    gaussian = inputs * norm.cdf(inputs / sigma) + sigma * norm.pdf(inputs / sigma)
    assert last * whole == pytest.approx(np.square(gaussian - truth.means[-1]).mean(), rel=1e-2)
    assert last < found.shares[0][0]
