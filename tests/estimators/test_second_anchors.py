"""kerdock's anchors of the second order: each part against a closed form or a brute-force computation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.cov_prop import gain_form, propagate_covariance
from estimators.kerdock import Kerdock
from estimators.matrix_core import MatrixCoreProp
from estimators.parts.bivariate import arc_cosine_covariance
from estimators.parts.ensemble import Squared, pair_sums
from estimators.parts.gaussian import rectify
from estimators.parts.pruning import prune
from estimators.parts.sphere import radial_moment
from estimators.parts.strassen import Strassen
from estimators.parts.tangent import carry_moments
from whest.mlp import SeedProtocol, draw_mlp
from whest.truth.designs import haar, hadamard, kerdock_signs, mean_radius

PRODUCT = Strassen(0)


def draw(width: int, depth: int) -> np.ndarray:
    return np.asarray(draw_mlp(SeedProtocol().streams(79), width, depth, "test").weights, np.float64)


def some_moments(width: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    root = rng.standard_normal((width, width)) / math.sqrt(width)
    return np.abs(rng.standard_normal(width)), root @ root.T + 0.5 * np.eye(width)


def symmetric(width: int) -> np.ndarray:
    x = np.random.default_rng(6).standard_normal((width, width))
    return x + x.T


def test_carried_errors_are_differences_of_covariance_propagation() -> None:
    with jax.enable_x64(True):
        weights, (mean, covariance) = jnp.asarray(draw(6, 4)), some_moments(6)
        errors = (np.linspace(-1, 1, 6), symmetric(6))

        def shifted(step: float) -> np.ndarray:
            start = (jnp.asarray(mean + step * errors[0]), jnp.asarray(covariance + step * errors[1]))
            return np.asarray(propagate_covariance(weights, gain_form, False, start))

        difference = (shifted(1e-5) - shifted(-1e-5)) / 2e-5
        carried = carry_moments(tuple(map(jnp.asarray, errors)), (mean, covariance), weights, PRODUCT)
        np.testing.assert_allclose(carried, difference, rtol=1e-6, atol=1e-8)


def test_the_next_layer_s_error_in_closed_form() -> None:
    """dμ′ = Φ∘(Wᵀdμ) + ½·φ(α)/σ∘diag(WᵀdC W)."""
    with jax.enable_x64(True):
        (w,), (mean, covariance) = draw(6, 1), some_moments(6)
        d_mean, d_covariance = np.linspace(-1, 1, 6), symmetric(6)
        sigma = np.sqrt(np.diag(w.T @ covariance @ w))
        alpha = mean @ w / sigma
        density = np.exp(-(alpha**2) / 2) / math.sqrt(2 * math.pi)
        gain = np.asarray(rectify(jnp.asarray(mean @ w), jnp.asarray(sigma**2)).gain)
        expected = gain * (d_mean @ w) + density / (2 * sigma) * np.diag(w.T @ d_covariance @ w)
        carried = carry_moments((d_mean, d_covariance), (mean, covariance), jnp.asarray(w)[None], PRODUCT)
        np.testing.assert_allclose(carried[0], expected, rtol=1e-10)


@pytest.mark.parametrize("layer", [3, 4])
def test_the_products_of_a_layer_are_the_design_s_written_out(layer: int) -> None:
    n, key = 16, jax.random.key(3)
    weights = draw(n, 4).astype(np.float32)
    kerdock = Kerdock(0.1, 1.0, 0.0, "none", 0, 0)
    means, second = kerdock.sampled(jnp.asarray(weights), key, 1, jnp.asarray(kerdock_signs(n)), layer)
    bases = [np.eye(n), *(hadamard(n) * signs / math.sqrt(n) for signs in kerdock_signs(n).astype(float))]
    rotation = np.asarray(haar(jax.random.fold_in(jax.random.fold_in(key, 0), 0), n), np.float64)
    h = np.concatenate(bases) @ rotation * mean_radius(n)
    h = np.concatenate([h, -h])
    for w in weights[:layer].astype(np.float64):
        h = np.maximum(h @ w, 0)
    np.testing.assert_allclose(means[layer - 1], h.mean(axis=0), rtol=1e-4)
    assert second is not None
    np.testing.assert_allclose(second, h.T @ h / len(h), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("by_means", [False, True])
def test_a_pruned_network_is_the_whole_one_with_its_left_out_neurons_held_at_their_means(by_means: bool) -> None:
    rng = np.random.default_rng(3)
    layers = [jnp.asarray(rng.standard_normal((8, 8)), jnp.float32) for _ in range(3)]
    z, squared = rng.standard_normal((20, 8)).astype(np.float32), Squared(2, lambda h: h.T @ h)
    alphas, means = ([jnp.asarray(rng.random(8), jnp.float32) for _ in layers] for _ in range(2))
    pruned = prune(layers, alphas, [8, 6, 8], means if by_means else None)
    first, *sums = pair_sums(jnp.asarray(z), pruned.layers, squared=squared, offsets=pruned.offsets)
    restored = pruned.restore(sums, 8, 40, squared.after(1))
    h, expected = np.maximum(np.concatenate([z, -z]), 0), []
    for w, held in zip(layers, (0, 2, 0), strict=True):
        h = np.maximum(h @ np.asarray(w), 0)
        places = np.argsort(-np.asarray(alphas[1]))[8 - held :]
        h[:, places] = np.asarray(means[1])[places] if by_means else 0
        expected.append(h)
    for total, h in zip(restored[:3], expected, strict=True):
        np.testing.assert_allclose(total, h.sum(axis=0), rtol=1e-4)
    np.testing.assert_allclose(restored[3], expected[1].T @ expected[1], rtol=1e-4)
    np.testing.assert_allclose(first, np.abs(z).sum(axis=0), rtol=1e-5)


@pytest.mark.parametrize("radial", [0, 1, 2])
def test_the_chain_s_first_layer_is_exact_on_the_sphere_whatever_the_radius_divided_out(radial: float) -> None:
    n, weights = 8, draw(8, 2)
    chain = MatrixCoreProp(radial, 0, "lean", False, 0, None, False)
    with jax.enable_x64(True), jax.disable_jit():
        means, covariances = chain.moments(jnp.asarray(weights))
        gaussian = np.asarray(arc_cosine_covariance(jnp.asarray(weights[0].T @ weights[0])))
        again = chain.means(jnp.asarray(weights))
    mean = np.linalg.norm(weights[0], axis=0) / math.sqrt(2 * math.pi)
    second = radial_moment(n, 1) ** 2 * (gaussian + np.outer(mean, mean))
    np.testing.assert_allclose(means, again, rtol=1e-8)
    np.testing.assert_allclose(means[0], mean, rtol=1e-8)
    np.testing.assert_allclose(np.diag(covariances[0]), np.diag(second) - mean**2, rtol=1e-8)
    off = ~np.eye(n, dtype=bool)  # the chain's series in S stops after the third power
    np.testing.assert_allclose(covariances[0][off], (second - np.outer(mean, mean))[off], atol=0.02)
