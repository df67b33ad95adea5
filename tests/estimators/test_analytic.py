"""The forms of covariance propagation against closed forms and quadrature, and the fallbacks for small budgets."""

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from estimators.cov_prop import CovarianceProp
from estimators.hermite_cov import HermiteCovariance
from estimators.mean_prop import MeanProp
from estimators.parts.bivariate import arc_cosine_covariance, exact_covariance, hermite_covariance
from estimators.parts.fallback import Affordable, affordable
from estimators.parts.sphere import radial_moment
from estimators.parts.wick import wick_numbers
from estimators.third_cumulant import ThirdCumulant
from estimators.third_cumulant_plus import ThirdCumulantPlus
from estimators.zeros import Zeros
from tests.support.estimators import (
    NODES,
    draw,
    in_double,
    price,
    rectified,
)
from whest.estimator.spec import estimator_spec
from whest.estimator.traced import estimator_function
from whest.metering.meter import meter

ANALYTIC = ["mean_prop", "cov_prop", "hermite_cov", "third_cumulant", "third_cumulant_plus", "matrix_core"]
LADDER = [ThirdCumulantPlus, ThirdCumulant, CovarianceProp, MeanProp, Zeros]
OTHER_KNOBS = [CovarianceProp("exact", True, 1.01), ThirdCumulant(False, 1), ThirdCumulantPlus(True, 0.95, 2)]


def bundled(name: str) -> Affordable:
    method = estimator_spec(NODES[name]).create()
    assert callable(getattr(method, "cheaper", None))
    return method  # type: ignore[return-value]


def gaussian_grid(points: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Hermite for N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    return nodes, weights / weights.sum()


# Wick numbers


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_wick_numbers_are_derivatives_of_rectified_moments(p: int) -> None:
    """w(0,p) by integrating over z > 0, and w(k,p) by differentiating w(k−1,p) in the mean."""
    mean, sigma, step = np.linspace(-2, 2, 9), np.linspace(0.5, 1.5, 9), 1e-4
    z, dz = np.linspace(0, 20, 400_001, retstep=True)
    density = np.exp(-0.5 * ((z[:, None] - mean) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
    number = {k: in_double(lambda m, v, k=k: wick_numbers(m, v)(k, p), mean, sigma**2) for k in range(6)}
    np.testing.assert_allclose(number[0], np.trapezoid(z[:, None] ** p * density, dx=dz, axis=0), atol=1e-8)
    for k in range(5):
        up, down = (in_double(lambda m, v, k=k: wick_numbers(m, v)(k, p), mean + s, sigma**2) for s in (step, -step))
        np.testing.assert_allclose(number[k + 1], (up - down) / (2 * step), rtol=1e-5, atol=1e-5)


# The covariance of two rectified Gaussians


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Means and a covariance with correlations from weak to strong."""
    loadings = np.random.default_rng(5).standard_normal((6, 3))
    covariance = loadings @ loadings.T + 0.4 * np.eye(6)
    return np.linspace(-1.5, 1.5, 6), covariance


def integrated(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """E[relu Z_j | Z_i] has a closed form, so one integral over Z_i > 0 remains."""
    n, result = len(mean), np.zeros(covariance.shape)
    for i in range(n):
        sigma = math.sqrt(covariance[i, i])
        z, dz = np.linspace(0, max(mean[i], 0) + 10 * sigma, 20_001, retstep=True)
        density = np.exp(-0.5 * ((z - mean[i]) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
        for j in range(n):
            slope = covariance[i, j] / covariance[i, i]
            rest = covariance[j, j] - slope * covariance[i, j] if i != j else 1.0
            given, _, _ = rectified(mean[j] + slope * (z - mean[i]), np.full_like(z, rest))
            result[i, j] = np.trapezoid(z * given * density, dx=dz)
    means, _, _ = rectified(mean, np.diag(covariance))
    return result - np.outer(means, means)


def off(matrix: np.ndarray) -> np.ndarray:
    return matrix - np.diag(np.diag(matrix))


def test_exact_covariance_is_the_integral() -> None:
    mean, covariance = pairs()
    found, expected = in_double(exact_covariance, mean, covariance), integrated(mean, covariance)
    np.testing.assert_allclose(off(found), off(expected), atol=2e-5)


def test_arc_cosine_is_exact_without_means() -> None:
    _, covariance = pairs()
    found, expected = in_double(arc_cosine_covariance, covariance), integrated(np.zeros(6), covariance)
    np.testing.assert_allclose(off(found), off(expected), atol=1e-6)


def test_hermite_series_starts_at_the_gain_form_and_ends_at_the_exact_one() -> None:
    mean, covariance = pairs()
    covariance = np.where(np.eye(6, dtype=bool), covariance, 0.4 * covariance)
    expected = off(integrated(mean, covariance))
    errors = []
    for terms in (1, 2, 4, 8, 16):
        found = off(in_double(lambda m, c, terms=terms: hermite_covariance(m, c, terms), mean, covariance))
        errors.append(np.abs(found - expected).max())
    _, _, gain = rectified(mean, np.diag(covariance))
    first = off(in_double(lambda m, c: hermite_covariance(m, c, 1), mean, covariance))
    np.testing.assert_allclose(first, off(np.outer(gain, gain) * covariance), atol=1e-12)
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 1e-3
    assert errors[-1] < 1e-5


def test_many_hermite_terms_predict_what_the_exact_form_does() -> None:
    weights = draw(33, 24, 4).weights
    exact = in_double(CovarianceProp("exact").means, weights)
    apart = [np.abs(in_double(HermiteCovariance(terms, False).means, weights) - exact).max() for terms in (1, 3, 12)]
    assert apart[0] > apart[1] > apart[2]
    assert apart[2] < 1e-3 < apart[0]


# The sphere


@pytest.mark.parametrize("n", [1, 7, 256])
def test_radial_moments(n: int) -> None:
    """E[R²] = n and E[R⁴] = n(n+2); a_p·n^(p/2) for p = 1 is the mean radius."""
    assert radial_moment(n, 2) == pytest.approx(1)
    assert radial_moment(n, 4) == pytest.approx((n + 2) / n)
    mean_radius = math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))
    assert radial_moment(n, 1) * math.sqrt(n) == pytest.approx(mean_radius)


@pytest.mark.parametrize(
    "method",
    [CovarianceProp("gain", True), CovarianceProp("exact", True), HermiteCovariance(3, True)],
    ids=["gain", "exact", "hermite"],
)
def test_first_layer_is_exact_on_the_sphere_too(method: Affordable) -> None:
    weights = draw(33, 24, 3).weights
    exact = np.linalg.norm(weights[0].astype(np.float64), axis=0) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(in_double(method.means, weights)[0], exact, rtol=1e-12)


def test_output_scale_multiplies_the_last_layer_alone() -> None:
    weights = draw(33, 12, 3).weights
    plain, scaled = (in_double(CovarianceProp(output_scale=scale).means, weights) for scale in (1.0, 1.5))
    np.testing.assert_allclose(scaled, plain * np.array([[1], [1], [1.5]]), rtol=1e-12)


def test_python_and_yaml_agree_on_cov_prop_s_defaults() -> None:
    assert bundled("cov_prop") == CovarianceProp()


# The fallbacks


def test_each_method_falls_to_the_next_cheaper() -> None:
    """Just below its own price the next cheaper method answers; zeros are always within the budget."""
    method: Affordable = bundled("third_cumulant_plus")
    shape = (3, 8, 8)
    for kind, below in pairwise(LADDER):
        cost = meter(method.means)(jax.ShapeDtypeStruct(shape, jnp.float32)).flops
        assert type(affordable(cost, method, shape)) is kind
        method = affordable(cost - 1, method, shape)
        assert type(method) is below
    assert type(affordable(0, bundled("hermite_cov"), shape)) is Zeros


def test_the_report_says_who_answered() -> None:
    estimator = estimator_spec(NODES["third_cumulant"]).create()
    shapes = [((3, 16, 16), jnp.float32), ((), jnp.uint32), ((2,), jnp.uint32)]

    def namespaces(budget: int) -> set[str]:
        arguments = (jax.ShapeDtypeStruct(*shape) for shape in shapes)
        cost = meter(estimator_function(estimator, budget))(*arguments)
        return {charge.namespace for charge in cost.charges if charge.flops}

    assert "fallback.mean_prop.propagate" in namespaces(20_000)
    assert not [name for name in namespaces(10**7) if name.startswith("fallback")]


def budgets(last: float, number: int) -> list[int]:
    return [int(budget) for budget in np.geomspace(1e7, last, number)]


@pytest.mark.parametrize(("width", "depth"), [(4, 1), (16, 8), (257, 2)])
def test_no_analytic_estimator_exceeds_its_budget(width: int, depth: int) -> None:
    for budget in budgets(6.8e10, 3):
        for name in ANALYTIC:
            assert price(estimator_spec(NODES[name]).create(), width, depth, budget) <= budget, (name, budget)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 8, 32])
@pytest.mark.parametrize("width", [4, 16, 64, 256, 257])
def test_no_analytic_estimator_exceeds_any_budget(width: int, depth: int) -> None:
    for budget in budgets(2.72e11, 10):
        for estimator in [*(estimator_spec(NODES[name]).create() for name in ANALYTIC), *OTHER_KNOBS]:
            assert price(estimator, width, depth, budget) <= budget, (estimator, budget)
