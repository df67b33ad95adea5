"""Designs are designs, the fast sampler is unbiased, and its intervals cover."""

import math

import numpy as np
import pytest
from scipy import stats

from whest.dataset import FreshDataset
from whest.designs import FIELDS, design_size, hadamard, kerdock_signs, mean_radius
from whest.fast_truth import FastTruth, plan, walsh_hadamard
from whest.mlp import MLP
from whest.truth import BLOCK_SAMPLES, PlainTruth


@pytest.mark.parametrize("n", sorted(FIELDS))
def test_kerdock_bases_are_mutually_unbiased(n):
    """|⟨a, b⟩| = 1/√n between any two bases: the transform of every product of sign vectors is flat."""
    signs = kerdock_signs(n).astype(np.float32)
    assert signs.shape == (n // 2, n)
    pairs = [(u, v) for u in range(n // 2) for v in range(u)]
    chosen = np.random.default_rng(0).permutation(len(pairs))[:500]
    products = np.stack([signs[pairs[i][0]] * signs[pairs[i][1]] for i in chosen])
    np.testing.assert_allclose(np.abs(products @ hadamard(n)), math.sqrt(n), rtol=1e-6)


def points(n):
    bases = [np.eye(n), *(hadamard(n) * c / math.sqrt(n) for c in kerdock_signs(n))]
    rows = np.concatenate(bases)
    return np.concatenate([rows, -rows])


@pytest.mark.parametrize("n", [16, 64])
def test_all_bases_together_are_a_spherical_5_design(n):
    """Every direction sees the sphere's own second and fourth moments, and no odd ones."""
    x = points(n)
    assert len(x) == n * (n + 2)
    direction = np.random.default_rng(1).normal(size=n)
    direction /= np.linalg.norm(direction)
    along = x @ direction
    np.testing.assert_allclose(np.mean(along**2), 1 / n, rtol=1e-6)
    np.testing.assert_allclose(np.mean(along**4), 3 / (n * (n + 2)), rtol=1e-6)
    assert abs(np.mean(along**5)) < 1e-12


def test_the_transform_is_sylvesters():
    v = np.random.default_rng(0).normal(size=(3, 16, 5)).astype(np.float32)
    np.testing.assert_allclose(walsh_hadamard(v), np.einsum("ab,kbn->kan", hadamard(16), v), rtol=1e-4, atol=1e-5)


def test_mean_radius_is_the_chi_distributions():
    for n in (1, 2, 16, 1024):
        assert mean_radius(n) == pytest.approx(stats.chi(n).mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("width", "n_samples", "size", "n_signed"),
    [(256, 10**6, 256, 128), (256, 10**5, 256, 8), (256, 2000, 256, 0), (128, 10**6, 256, 128), (1024, 30_000, 1024, 0),
     (1024, 10**7, 1024, 512), (20, 10**6, 64, 32), (3000, 10**6, 3000, 0)],
)  # fmt: skip
def test_the_plan_takes_the_best_design_that_is_affordable(width, n_samples, size, n_signed):
    layout = plan(width, n_samples)
    assert (layout.size, layout.n_signed) == (size, n_signed)
    assert layout.points * layout.n_replicates >= n_samples
    assert layout.n_replicates >= 2
    assert design_size(2000) is None


def draw(sampler, mlp):
    *_, last = sampler.stream(mlp)
    return last.truth()


def small_mlps(width, depth, n, seed=5):
    dataset = FreshDataset(width=width, depth=depth, seed=seed, n_mlps=n).load()
    return [dataset.mlp(row) for row in dataset.rows]


@pytest.mark.parametrize(("width", "depth"), [(16, 4), (20, 3), (5, 2), (64, 2), (16, 1)])
def test_fast_and_plain_agree(width, depth):
    (mlp,) = small_mlps(width, depth, 1)
    fast, plain = draw(FastTruth(100_000), mlp), draw(PlainTruth(200_000), mlp)
    error = np.sqrt(fast.standard_errors.astype(float) ** 2 + plain.standard_errors.astype(float) ** 2)
    assert (np.abs(fast.means - plain.means) <= 6 * error + 1e-6).all()
    assert fast.avg_variance == pytest.approx(plain.avg_variance, rel=0.05)


def test_the_first_layer_is_its_closed_form():
    (mlp,) = small_mlps(64, 3, 1)
    truth = draw(FastTruth(20_000), mlp)
    exact = np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(truth.means[0], exact, rtol=1e-6)
    assert (truth.standard_errors[0] == 0).all()


def test_fast_has_less_variance_a_sample_than_plain():
    (mlp,) = small_mlps(64, 4, 1)
    fast, plain = draw(FastTruth(100_000), mlp), draw(PlainTruth(100_000), mlp)
    assert fast.floor_mse * fast.n_samples < plain.floor_mse * plain.n_samples / 2.5


def test_a_longer_draw_begins_with_the_shorter():
    (mlp,) = small_mlps(16, 3, 1)
    block = BLOCK_SAMPLES // plan(16, 10**5).points * plan(16, 10**5).points
    (short,) = [running.total for running in FastTruth(block).stream(mlp)]
    first, *_ = [running.total for running in FastTruth(3 * block).stream(mlp)]
    np.testing.assert_array_equal(short, first)


def test_intervals_cover_an_independent_truth():
    """Over 200 MLPs, 95 % t-intervals from ten replicates contain a far more precise truth 93 to 97 % of the time."""
    covered = []
    n_replicates = 10
    for mlp in small_mlps(16, 4, 200):
        truth = draw(FastTruth(n_replicates * plan(16, 10**5).points), mlp)
        assert truth.n_replicates == n_replicates
        stream = np.random.SeedSequence(mlp.seed + 1)  # nothing in common with the intervals' own samples
        precise = draw(FastTruth(400_000), MLP(mlp.weights, mlp.seed, mlp.name, stream))
        error = np.hypot(truth.standard_errors.astype(float), precise.standard_errors.astype(float))
        inside = np.abs(truth.means.astype(float) - precise.means) <= stats.t.ppf(0.975, n_replicates - 1) * error
        sampled = truth.standard_errors > 1e-7  # a neuron that never turns on has no interval to speak of
        covered.append([inside[layer][sampled[layer]].mean() for layer in range(1, mlp.depth)])
    for layer, share in enumerate(np.nanmean(covered, axis=0), start=2):
        assert 0.93 <= share <= 0.97, (layer, share)
