"""Every bundled estimator keeps the contract and computes the formula of its docstring."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.cov_prop import CovarianceProp
from estimators.mean_prop import MeanProp
from estimators.monte_carlo import CHUNK, MonteCarlo, mean_activations
from estimators.random import Random
from estimators.zeros import Zeros
from tests.support.estimators import (
    BUNDLED,
    NODES,
    answer,
    compiled,
    draw,
    make,
    price,
    rectified,
    with_weights,
)
from whest.estimator.spec import estimator_spec
from whest.metering.meter import meter
from whest.mlp import MLP
from whest.tasks.whitebox.baseline import flops_per_sample
from whest.truth.reference import ReferenceTruth

SHAPES = [(16, 3), (5, 1), (32, 4), (1, 2)]
CONTRACT_BUDGET = 1e6
"""Enough for covariance propagation at 32x4 and for some samples at every shape."""


# The contract


def test_there_are_estimators_to_test() -> None:
    assert {"zeros", "random", "mean_prop", "cov_prop", "monte_carlo"} <= set(BUNDLED)


@pytest.mark.parametrize("name", BUNDLED)
def test_yaml_names_a_class_of_the_bundled_package(name: str) -> None:
    spec = estimator_spec(NODES[name])
    assert spec.is_bundled
    assert spec.source is not None
    assert spec.source.is_file()


@pytest.mark.parametrize(("width", "depth"), SHAPES)
@pytest.mark.parametrize("name", BUNDLED)
def test_contract(name: str, width: int, depth: int) -> None:
    """The right shape, finite, and the same answer twice; refused if it costs more than the budget."""
    program, mlp = compiled(make(name), width, depth, CONTRACT_BUDGET), draw(21, width, depth)
    first, second = program.predict(mlp), program.predict(mlp)
    assert first.failure is None
    if program.cost.flops > CONTRACT_BUDGET:
        assert first.refused
        return
    assert first.means is not None
    assert second.means is not None
    assert first.means.shape == (depth, width)
    assert np.issubdtype(first.means.dtype, np.floating)
    assert np.isfinite(first.means).all()
    np.testing.assert_array_equal(first.means, second.means)
    assert first.cost == second.cost == program.cost


@pytest.mark.parametrize("name", BUNDLED)
def test_budget_of_one_flop_is_kept_or_refused(name: str) -> None:
    program = compiled(make(name), 16, 3, 1)
    prediction = program.predict(draw(21, 16, 3))
    if program.cost.flops > 1:
        assert prediction.refused
        assert prediction.cost == program.cost
    else:
        assert prediction.means is not None


@pytest.mark.parametrize("name", BUNDLED)
def test_answer_does_not_depend_on_other_networks_scored_before(name: str) -> None:
    program, first, other = compiled(make(name), 16, 3, CONTRACT_BUDGET), draw(21, 16, 3), draw(22, 16, 3)
    alone = program.predict(first).means
    assert alone is not None
    program.predict(other)
    np.testing.assert_array_equal(program.predict(first).means, alone)


# Zeros and random


def test_zeros_are_zero_and_free() -> None:
    program = compiled(Zeros(), 16, 3, 1)
    means = program.predict(draw(21, 16, 3)).means
    assert means is not None
    assert not means.any()
    assert program.cost.flops == 0


def test_random_is_uniform() -> None:
    """Within [0, 1), mean 1/2 ± 6/√(12n), variance 1/12 ± 6·√((1/80 − 1/144)/n)."""
    values = answer(Random(seed=0), draw(21, 64, 8))
    assert (values >= 0).all()
    assert (values < 1).all()
    assert abs(values.mean() - 1 / 2) < 6 / math.sqrt(12 * values.size)
    assert abs(values.var() - 1 / 12) < 6 * math.sqrt((1 / 80 - 1 / 144) / values.size)


@pytest.mark.parametrize("name", ["random", "monte_carlo"])
def test_draws_differ_by_the_estimator_s_seed_and_by_network(name: str) -> None:
    mlp = draw(21, 16, 3)
    other = MLP(mlp.weights, mlp.seed + 1, "the same weights under another mlp.seed", mlp.sample_stream)
    program = compiled(make(name), 16, 3, CONTRACT_BUDGET)
    reseeded = compiled(estimator_spec(NODES[name] | {"seed": 1}).create(), 16, 3, CONTRACT_BUDGET)
    assert NODES[name]["seed"] == 0
    answers = [program.predict(mlp), reseeded.predict(mlp), program.predict(other)]
    assert len({np.asarray(prediction.means).tobytes() for prediction in answers}) == 3


# Propagation of moments


def propagated_means(mlp: MLP) -> np.ndarray:
    mean, variance, rows = np.zeros(mlp.width), np.ones(mlp.width), []
    for w in mlp.weights.astype(np.float64):
        mean, variance, _ = rectified(w.T @ mean, (w * w).T @ variance)
        rows.append(mean)
    return np.stack(rows)


def propagated_covariance_means(mlp: MLP) -> np.ndarray:
    mean, covariance, rows = np.zeros(mlp.width), np.eye(mlp.width), []
    for w in mlp.weights.astype(np.float64):
        inputs = w.T @ covariance @ w
        mean, variance, on = rectified(w.T @ mean, np.diag(inputs))
        covariance = np.outer(on, on) * inputs
        np.fill_diagonal(covariance, variance)
        rows.append(mean)
    return np.stack(rows)


@pytest.mark.parametrize(("width", "depth"), [(5, 1), (48, 5)])
@pytest.mark.parametrize("name", ["mean_prop", "cov_prop"])
def test_first_layer_is_exact(name: str, width: int, depth: int) -> None:
    mlp = draw(33, width, depth)
    exact = np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(answer(make(name), mlp)[0], exact, rtol=1e-5)


def test_mean_prop_follows_its_formula() -> None:
    mlp = draw(33, 48, 5)
    np.testing.assert_allclose(answer(MeanProp(), mlp), propagated_means(mlp), rtol=1e-4, atol=1e-5)


def test_cov_prop_follows_its_formula() -> None:
    mlp = draw(33, 48, 5)
    np.testing.assert_allclose(answer(CovarianceProp(), mlp), propagated_covariance_means(mlp), rtol=1e-4, atol=1e-5)


def test_propagation_through_independent_neurons() -> None:
    """Diagonal first weights do not mix neurons. A second layer that uses one neuron with each sign has a closed form.

    Its input is ±g·relu(z), of mean ±g·φ(0) and variance g²·(1/2 − 1/(2π)): the rectified Gaussian with those moments.
    """
    gains, signs = np.linspace(0.5, 2, 8), np.array([1, -1] * 4)
    mlp = with_weights(np.diag(gains), np.diag(signs))
    first = gains / math.sqrt(2 * math.pi)
    second, _, _ = rectified(signs * first, gains**2 * (0.5 - 0.5 / math.pi))
    for estimator in (MeanProp(), CovarianceProp()):
        np.testing.assert_allclose(answer(estimator, mlp), [first, second], rtol=1e-5)


def test_dead_and_certain_neurons_stay_finite() -> None:
    """Zero weights give a neuron with variance 0."""
    mlp = with_weights(np.zeros((8, 8)), np.ones((8, 8)))
    for estimator in (MeanProp(), CovarianceProp()):
        np.testing.assert_allclose(answer(estimator, mlp), 0, atol=1e-4)


def test_cov_prop_s_covariance_against_brute_force() -> None:
    """Second-layer columns e_i/μ_i − e_j/μ_j have mean 0, so their means σ/√(2π) show the propagated covariance.

    With ρ the inputs' correlation, the gain form keeps the first of the exact series σ_iσ_j·(ρ/4 + ρ²/(4π) + …), whose
    other terms are even and add up to at most (1/4 − 1/(2π))·ρ²; on the diagonal nothing is left out.
    """
    width, n = 8, 400_000
    w = draw(40, width, 1).weights[0].astype(np.float64)
    norms = np.linalg.norm(w, axis=0)
    mu = norms / math.sqrt(2 * math.pi)
    h = np.maximum(np.random.default_rng(2).standard_normal((n, width)) @ w, 0) / mu
    i, j = np.arange(width), (np.arange(width) + 3) % width
    contrasts = np.zeros((width, width))
    contrasts[i, i], contrasts[j, i] = 1 / mu[i], -1 / mu[j]
    carried = 2 * math.pi * np.square(answer(CovarianceProp(), with_weights(w, contrasts))[1])
    differences = np.square(h[:, i] - h[:, j])
    sampled, error = differences.mean(axis=0), differences.std(axis=0) / math.sqrt(n)
    rho = (w.T @ w)[i, j] / (norms[i] * norms[j])
    left_out = 2 * (0.25 - 1 / (2 * math.pi)) * rho**2 * norms[i] * norms[j] / (mu[i] * mu[j])
    assert (carried <= sampled + left_out + 6 * error).all()
    assert (carried >= sampled - 6 * error).all(), "what is left out is positive covariance"
    independent = np.square(norms[i] / mu[i]) * (0.5 - 0.5 / math.pi) * 2
    assert (np.abs(independent - sampled) > left_out + 6 * error).any(), "ignoring covariance would be noticed"


def test_cov_prop_beats_mean_prop() -> None:
    mlp = draw(50, 48, 5)
    *_, moments = ReferenceTruth(50_000).stream(mlp)
    truth = moments.truth().means[-1]
    by_mean, by_covariance = (np.mean(np.square(answer(e, mlp)[-1] - truth)) for e in (MeanProp(), CovarianceProp()))
    assert by_covariance < 0.5 * by_mean


# Monte Carlo


def test_monte_carlo_is_unbiased_and_spends_its_budget() -> None:
    width, depth, budget = 16, 3, 3e7
    mlp = draw(60, width, depth)
    program = compiled(MonteCarlo(budget_fraction=1.0, seed=0), width, depth, budget)
    assert 0.9 * budget <= program.cost.flops <= budget
    n_samples = program.cost.flops / flops_per_sample(width, depth)
    assert n_samples > 2000
    n_truth = 200_000
    *_, moments = ReferenceTruth(n_truth).stream(mlp)
    truth, means = moments.truth(), program.predict(mlp).means
    assert means is not None
    joint = truth.standard_errors * math.sqrt(1 + n_truth / n_samples)
    assert (np.abs(means - truth.means) <= 6 * joint + 1e-6).all()
    z = (means - truth.means)[truth.standard_errors > 0] / joint[truth.standard_errors > 0]
    assert 0.3 < np.sqrt(np.mean(z**2)) < 3, "an error much smaller or larger than sampling's is no sampling"


@pytest.mark.parametrize(
    ("width", "depth", "budgets"), [(16, 3, [1, 37, 1000, 20_011, 10**6, 10**8]), (5, 1, [1, 3000, 10**7])]
)
def test_monte_carlo_never_exceeds_its_budget(width: int, depth: int, budgets: list[int]) -> None:
    """From nothing to more samples than a chunk holds, and around the price of a whole chunk."""
    estimator = MonteCarlo(budget_fraction=1.0, seed=0)
    chunk = int(CHUNK * flops_per_sample(width, depth))
    spent = {budget: price(estimator, width, depth, budget) for budget in sorted([*budgets, chunk, chunk + 50_000])}
    assert [budget for budget, flops in spent.items() if flops > budget] == []
    assert [budget for budget, flops in spent.items() if budget >= 10**7 and flops < 0.9 * budget] == []
    assert list(spent.values()) == sorted(spent.values()), "a larger budget buys no fewer samples"


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_monte_carlo_spends_the_share_it_is_told(fraction: float) -> None:
    flops = price(MonteCarlo(budget_fraction=fraction, seed=0), 16, 3, 10**8)
    assert 0.9 * fraction * 1e8 <= flops <= fraction * 1e8


def test_monte_carlo_without_a_sample_answers_zeros() -> None:
    means = answer(MonteCarlo(budget_fraction=1.0, seed=0), draw(60, 16, 3), budget=10)
    assert not means.any()


@pytest.mark.parametrize("n_samples", [1, CHUNK, 2 * CHUNK + 100])
def test_monte_carlo_averages_over_all_its_samples(n_samples: int) -> None:
    """First layer within 6 errors of its closed form, whether samples fill whole chunks or not."""
    mlp = draw(60, 16, 1)
    run = jax.jit(mean_activations, static_argnums=(2, 3))
    means = np.asarray(run(jnp.asarray(mlp.weights), jax.random.key(3), 0, n_samples), np.float64)[0]
    norms = np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0)
    error = norms * math.sqrt((0.5 - 0.5 / math.pi) / n_samples)
    assert (np.abs(means - norms / math.sqrt(2 * math.pi)) < 6 * error).all()


@pytest.mark.parametrize(("width", "depth"), [(5, 1), (16, 3), (256, 8)])
@pytest.mark.parametrize(("fewer", "more"), [(2000, 3000), (2 * CHUNK, 3 * CHUNK)], ids=["in-a-chunk", "by-chunks"])
def test_yardstick_is_monte_carlo_s_marginal_price(width: int, depth: int, fewer: int, more: int) -> None:
    weights = jax.ShapeDtypeStruct((depth, width, width), jnp.float32)

    def flops(n_samples: int) -> int:
        return meter(lambda w, key: mean_activations(w, key, 0, n_samples))(weights, jax.random.key(0)).flops

    marginal = (flops(more) - flops(fewer)) / (more - fewer)
    assert flops_per_sample(width, depth) == pytest.approx(marginal, rel=0.01)


def test_yardstick_s_matrix_products_by_pencil_and_paper() -> None:
    """Most of the cost is 2·width² for each layer's product; normals, relu and sums are linear in width."""
    width, depth = 256, 8
    products = 2 * width * width * depth
    rest = flops_per_sample(width, depth) - products
    assert 0 < rest < 200 * width + 3 * width * depth
