"""The layer that an error comes from: exact sums, known slopes, an error put in by hand."""

import numpy as np
import pytest
from scipy import stats

from whest.tasks.whitebox.neurons import input_means
from whest.tasks.whitebox.origin import carried_origins, explain_mlp, mean_slopes

WIDTH, DEPTH = 24, 4


def network(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Weights, and the means of many samples."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, np.sqrt(2 / WIDTH), (DEPTH, WIDTH, WIDTH))
    h, means = rng.normal(0, 1, (100_000, WIDTH)), []
    for w in weights:
        h = np.maximum(h @ w, 0)
        means.append(h.mean(axis=0))
    return weights, np.array(means)


@pytest.mark.parametrize("t", [-3.0, -0.5, 0.0, 0.7, 2.5])
def test_the_mean_slope_of_a_gaussian_is_its_chance_to_be_positive(t: float) -> None:
    for sigma in (0.1, 1.0, 7.0):
        mean = sigma * (t * stats.norm.cdf(t) + stats.norm.pdf(t))
        (slope,) = mean_slopes(np.array([[mean]]), np.array([[sigma * t]]))
        assert slope == pytest.approx(stats.norm.cdf(t), abs=1e-9)
    assert mean_slopes(np.zeros((1, 1)), np.zeros((1, 1))) == pytest.approx(0), "a neuron that is never on"


def test_the_parts_add_up_to_the_final_error() -> None:
    rng = np.random.default_rng(1)
    weights, truth = network()
    errors = rng.normal(0, 0.01, truth.shape)
    slopes = rng.uniform(0, 1, truth.shape)
    assert carried_origins(errors, weights, slopes).sum(axis=0) == pytest.approx(errors[-1])
    found = explain_mlp("m", weights, truth + errors, truth, 1e-9)
    assert sum(found.by_layer) == pytest.approx(1)
    assert sum(found.by_kind.values()) == pytest.approx(1)
    assert sum(found.n_by_kind.values()) == WIDTH
    assert found.mse == pytest.approx(np.square(errors[-1]).mean())


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_an_error_of_one_layer_that_is_carried_on_is_found_there(layer: int) -> None:
    """The means of one layer are put off by hand, and go on as first-order propagation has it."""
    weights, truth = network()
    rng = np.random.default_rng(2)
    slopes = mean_slopes(truth, input_means(weights, truth))
    errors = np.zeros_like(truth)
    errors[layer] = rng.normal(0, 1e-3, WIDTH)
    for after in range(layer + 1, DEPTH):
        errors[after] = slopes[after] * (errors[after - 1] @ weights[after])
    found = explain_mlp("m", weights, truth + errors, truth, 0.0)
    assert found.by_layer[layer] == pytest.approx(1, abs=1e-6)


def test_a_perfect_answer_has_no_origin() -> None:
    weights, truth = network()
    found = explain_mlp("m", weights, truth, truth, 0.0)
    assert found.mse == 0
    assert found.by_layer == (0.0,) * DEPTH
