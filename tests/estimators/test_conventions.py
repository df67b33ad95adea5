"""ARC's own conventions: covariance propagation in its gain form is their k = 2, third cumulants with the average
metric and a Gaussian input their k = 3. Both are written out here neuron by neuron, in double precision."""

import math
from dataclasses import replace

import numpy as np

from estimators.cov_prop import CovarianceProp
from estimators.third_cumulant import ThirdCumulant
from tests.support.dense_chain import Dense
from tests.support.estimators import draw, in_double, rectified

WIDTH, DEPTH = 16, 4


class AverageMetric(Dense):
    """Isotropic fourth cumulants that see every layer as a map with W·Wᵀ = 2·I."""

    def carried(self, w: np.ndarray, k4: np.ndarray) -> np.ndarray:
        return super().carried(math.sqrt(2) * np.eye(len(w)), k4)


def second_order(weights: np.ndarray) -> np.ndarray:
    """k = 2: exact means and variances of each Gaussian pre-activation, covariances times both mean slopes."""
    mean, covariance, rows = np.zeros(WIDTH), np.eye(WIDTH), []
    for stored in weights.astype(np.float64):
        inputs = [sum(stored[a, i] * mean[a] for a in range(WIDTH)) for i in range(WIDTH)]
        s = np.array([[stored[:, i] @ covariance @ stored[:, j] for j in range(WIDTH)] for i in range(WIDTH)])
        mean, variance, slope = rectified(np.array(inputs), np.diag(s))
        covariance = np.array(
            [[variance[i] if i == j else slope[i] * slope[j] * s[i, j] for j in range(WIDTH)] for i in range(WIDTH)]
        )
        rows.append(mean)
    return np.stack(rows)


def test_gain_covariance_propagation_is_their_second_order() -> None:
    weights = draw(90, WIDTH, DEPTH).weights
    found = in_double(CovarianceProp("gain").means, weights)
    np.testing.assert_allclose(found, second_order(weights), rtol=0, atol=1e-12)


def test_third_cumulants_with_the_average_metric_are_their_third_order() -> None:
    weights = draw(91, WIDTH, DEPTH).weights
    exact = ThirdCumulant(sphere=False, strassen_levels=0)
    average = replace(exact, metric="average")
    expected, _, _ = AverageMetric(plus=False, sphere=False).run(weights)
    found = in_double(average.means, weights)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.abs(found - in_double(exact.means, weights))[-1].max() > 1e-6  # the metric is a choice that shows
