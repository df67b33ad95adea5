"""`truth.moments=true`: closed forms at the first layer, unbiased for every size of a batch, the same after a stop."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from whest.mlp import MLP, SeedProtocol, draw_mlp
from whest.truth import moments as module
from whest.truth.cache import TruthCache
from whest.truth.moments import LayerMoments, moment_shapes, stream_moments

WIDTH, DEPTH = 6, 2
SIGMAS = 6


@pytest.fixture(scope="module")
def mlp() -> MLP:
    return draw_mlp(SeedProtocol().streams(5), WIDTH, DEPTH, "test")


def drawn(mlp: MLP, n_samples: int) -> LayerMoments:
    *_, last = stream_moments(mlp, n_samples)
    return last.moments()


def half_gaussian_moments(mlp: MLP) -> dict[str, np.ndarray]:
    """The first layer: z ~ N(0, s²) and h = max(z, 0) have E h = s/√2π, E h² = s²/2, E h³ = s³√(2/π), E h⁴ = 3s⁴/2."""
    w = mlp.weights[0].astype(np.float64)
    s = np.linalg.norm(w, axis=0)
    raw = [s / np.sqrt(2 * np.pi), s**2 / 2, s**3 * np.sqrt(2 / np.pi), 1.5 * s**4]
    m = raw[0]
    third = raw[2] - 3 * m * raw[1] + 2 * m**3
    fourth = raw[3] - 4 * m * raw[2] - 3 * raw[1] ** 2 + 12 * m**2 * raw[1] - 6 * m**4
    joint = {p: mixed(w, s, *p) for p in ((1, 1), (1, 2), (2, 2))}
    covariance = joint[1, 1] - np.outer(m, m)
    # κ_ijj and κ_iijj from E[h_i^p h_j^q]; on the diagonal they are κ_iii and κ_iiii
    one_two = joint[1, 2] - 2 * m * joint[1, 1] - np.outer(m, raw[1]) + 2 * np.outer(m, m**2)
    central = (
        joint[2, 2]
        - 2 * m * joint[1, 2].T
        - 2 * m[:, None] * joint[1, 2]
        + m**2 * raw[1][:, None]
        + m[:, None] ** 2 * raw[1]
        + 4 * np.outer(m, m) * joint[1, 1]
        - 3 * np.outer(m**2, m**2)
    )
    variance = np.diagonal(covariance)
    two_two = central - np.outer(variance, variance) - 2 * covariance**2
    return {
        "variances": raw[1] - m**2,
        "third_cumulants": third,
        "fourth_cumulants": fourth,
        "covariances": covariance,
        "covariance_squares": np.square(covariance).sum(),
        "third_traces": one_two.sum(axis=1),
        "fourth_traces": two_two.sum(),
    }


def mixed(w: np.ndarray, s: np.ndarray, p: int, q: int) -> np.ndarray:
    """E[h_i^p h_j^q]: the integral over z_j of max(z_j, 0)^q times the rectified moment of z_i given z_j."""
    found = np.zeros((len(s), len(s)))
    points, step = np.linspace(0, 12, 20001, retstep=True)
    density = np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi) * np.where((points == 0) | (points == 12), 0.5, 1) * step
    for i in range(len(s)):
        for j in range(len(s)):
            rho = 1.0 if i == j else float(w[:, i] @ w[:, j] / s[i] / s[j])
            mean, tau = rho * points, np.sqrt(max(1 - rho**2, 1e-24))
            on, bell = ndtr(mean / tau), np.exp(-np.square(mean / tau) / 2) / np.sqrt(2 * np.pi)
            given = mean * on + tau * bell if p == 1 else (mean**2 + tau**2) * on + mean * tau * bell
            found[i, j] = s[i] ** p * s[j] ** q * (points**q * given * density).sum()
    return found


@pytest.mark.parametrize("n_samples", [64, 2**14])
def test_the_first_layer_has_the_moments_of_half_gaussians(
    mlp: MLP, n_samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with batches of four samples, where an estimate with a bias of 1/n would be far off."""
    monkeypatch.setattr(module, "BATCHES", 4096 if n_samples > 64 else 16)
    found = drawn(mlp, n_samples)
    assert found.n_samples == n_samples
    n_batches = 4096 if n_samples > 64 else 16
    for name, exact in half_gaussian_moments(mlp).items():
        error = np.abs(found[name][0] - exact)
        if name == "covariances":  # its error bar is a root mean square over the entries
            assert np.sqrt(np.square(error).mean()) <= SIGMAS * found["covariances_se"][0], name
        else:
            # few batches: a Student t of 15 degrees of freedom is beyond 12 as rarely as a Gaussian beyond 6
            assert (error <= (SIGMAS if n_batches > 1000 else 12) * found[f"{name}_se"][0]).all(), name


def test_the_quadrature_of_this_test_is_exact_where_a_closed_form_is_known(mlp: MLP) -> None:
    exact = half_gaussian_moments(mlp)
    assert np.diagonal(exact["covariances"]) == pytest.approx(exact["variances"], rel=1e-6)


def test_a_deeper_layer_agrees_with_plain_samples(mlp: MLP) -> None:
    rng = np.random.default_rng(0)
    h = rng.normal(size=(400_000, WIDTH))
    for w in mlp.weights:
        h = np.maximum(h @ w, 0)
    found = drawn(mlp, 2**16)
    d = h - h.mean(axis=0)
    second, n = np.square(d).mean(axis=0), len(d)
    for name, power, value in (
        ("variances", 2, second),
        ("third_cumulants", 3, (d**3).mean(axis=0)),
        ("fourth_cumulants", 4, (d**4).mean(axis=0) - 3 * second**2),
    ):
        spread = np.sqrt((d ** (2 * power)).mean(axis=0) / n)
        assert (np.abs(found[name][-1] - value) <= SIGMAS * np.hypot(found[f"{name}_se"][-1], spread)).all(), name


def test_error_bars_are_as_large_as_the_errors(mlp: MLP) -> None:
    """Over many draws the errors of the first layer's variances are those that their bars say, within 6 sigma."""
    exact = half_gaussian_moments(mlp)["variances"]
    ratios = []
    for seed in range(60):
        other = MLP(mlp.weights, seed, "test", np.random.SeedSequence(seed))
        found = drawn(other, 2048)
        ratios.append(np.square((found["variances"][0] - exact) / found["variances_se"][0]).mean())
    # Student's t of 15 degrees of freedom has the variance 15/13
    expected = 15 / 13
    assert abs(np.mean(ratios) - expected) <= SIGMAS * np.std(ratios) / np.sqrt(len(ratios))


def test_a_stopped_draw_goes_on_to_the_same_bits(mlp: MLP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_SAMPLES", 256)
    cache, whole = TruthCache(tmp_path), drawn(mlp, 2048)
    stream = stream_moments(mlp, 2048)
    next(stream)
    state = {name: np.asarray(value) for name, value in next(stream).state().items()}
    *_, last = stream_moments(mlp, 2048, state)
    assert last.moments().to_bytes() == whole.to_bytes()
    assert cache.moments(mlp, 2048).to_bytes() == whole.to_bytes()
    (entry,) = tmp_path.iterdir()
    monkeypatch.setattr("whest.truth.cache.stream_moments", lambda *_: pytest.fail("drawn twice"))
    assert cache.moments(mlp, 2048).to_bytes() == whole.to_bytes()
    entry.write_bytes(entry.read_bytes()[:-1] + b"x")
    with pytest.raises(pytest.fail.Exception):
        cache.moments(mlp, 2048)  # a damaged entry is drawn again


def test_large_widths_keep_a_summary(mlp: MLP, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "covariances" in moment_shapes(256, 32)
    assert "covariances" not in moment_shapes(1024, 16)
    whole = drawn(mlp, 1024)
    monkeypatch.setattr(module, "COVARIANCE_BYTES", 4 * DEPTH * WIDTH**2 - 1)
    summary = drawn(mlp, 1024)
    assert summary.covariances is None
    assert whole.covariances is not None
    for name in summary.arrays:
        assert summary[name] == pytest.approx(whole[name], rel=1e-5)
