"""The designs have their properties, the fast sampler is unbiased, and its intervals have the right coverage."""

import math
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from whest.dataset.sources import FreshDataset
from whest.mlp import MLP, SeedProtocol, draw_mlp
from whest.truth.designs import FIELDS, design_size, hadamard, kerdock_signs, mean_radius, walsh_hadamard
from whest.truth.fast import FastTruth, state_after
from whest.truth.plain import PlainTruth
from whest.truth.plan import plan
from whest.truth.rotations import _column_sums, basis_sums, fold_rotations, replicate_mesh, rows_together


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
    """In every direction the second and fourth moments are those of the sphere, and odd moments are zero."""
    x = points(n)
    assert len(x) == n * (n + 2)
    direction = np.random.default_rng(1).normal(size=n)
    direction /= np.linalg.norm(direction)
    along = x @ direction
    np.testing.assert_allclose(np.mean(along**2), 1 / n, rtol=1e-6)
    np.testing.assert_allclose(np.mean(along**4), 3 / (n * (n + 2)), rtol=1e-6)
    assert abs(np.mean(along**5)) < 1e-12


def test_each_basis_more_takes_its_share_of_degree_four():
    """Σ P₄(⟨x, y⟩) over a union of k of the K bases, a point, falls linearly from one basis to none of it at K."""
    n = 16
    bases = [np.eye(n), *(hadamard(n) * c / math.sqrt(n) for c in kerdock_signs(n))]

    def left(k):
        x = np.concatenate([basis * sign for basis in bases[:k] for sign in (1, -1)])
        t = x @ x.T
        return np.sum(t**4 - 6 * t**2 / (n + 4) + 3 / ((n + 2) * (n + 4))) / len(x)

    total = len(bases)
    for k in range(1, total + 1):
        assert left(k) == pytest.approx(left(1) * (total - k) / (total - 1), abs=1e-9)


def test_the_transform_is_sylvesters():
    v = np.random.default_rng(0).normal(size=(3, 16, 5)).astype(np.float32)
    np.testing.assert_allclose(walsh_hadamard(v), np.einsum("ab,kbn->kan", hadamard(16), v), rtol=1e-4, atol=1e-5)


def test_mean_radius_is_the_chi_distributions():
    for n in (1, 2, 16, 1024):
        assert mean_radius(n) == pytest.approx(stats.chi(n).mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("width", "n_samples", "size", "n_signed"),
    [(256, 10**6, 256, 128), (256, 10**5, 256, 23), (256, 2000, 256, 0), (128, 10**6, 256, 128),
     (1024, 30_000, 1024, 0), (1024, 10**6, 1024, 60), (1024, 10**7, 1024, 512),
     (20, 10**6, 64, 32), (3000, 10**6, 3000, 0), (1, 10, 1, 0)],
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


@pytest.mark.parametrize("n_samples", [2, 100, 3000])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_the_smallest_networks_are_drawn(width, n_samples):
    (mlp,) = small_mlps(width, 2, 1)
    truth = draw(FastTruth(n_samples), mlp)
    assert truth.n_samples >= n_samples
    assert np.isfinite(truth.means).all()


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


@pytest.mark.parametrize("width", [16, 256, 1024])
def test_float32_sums_over_rows_lose_nothing_that_counts(width):
    """Against float64 sums: under 4e-7 in each sum, the rounding of a product, and nothing on average."""
    rng, lost = np.random.default_rng(width), []
    with jax.enable_x64(True):
        for _ in range(2**15 // width):
            h = np.maximum(rng.normal(size=(2 * rows_together(width), width)) + 0.5, 0).astype(np.float32)
            lost.append(np.asarray(_column_sums(jnp.asarray(h))) / h.astype(np.float64).sum(0) - 1)
    assert np.abs(lost).max() < 4e-7
    assert abs(np.mean(lost)) < 6 * np.std(lost) / math.sqrt(np.size(lost)) < 3e-9


def test_a_basis_in_pieces_is_the_basis(monkeypatch):
    """In smaller pieces, or whole, the sums differ by rounding alone."""
    (mlp,) = small_mlps(64, 3, 1)
    weights, mesh, found = jnp.asarray(mlp.weights), replicate_mesh(), []
    signs = jnp.asarray(kerdock_signs(64)[:4])
    for rows in (16, 64, 256):
        jax.clear_caches()
        monkeypatch.setattr("whest.truth.rotations.rows_together", lambda size, rows=rows: rows)
        with jax.enable_x64(True):
            folded = fold_rotations(
                weights, jnp.asarray(mlp.key_samples), np.arange(2, dtype=np.uint32), size=64, mesh=mesh
            )
            found.append(basis_sums(folded, weights, signs, with_identity=True, mesh=mesh))
    jax.clear_caches()
    for sums, squares in found[:2]:
        np.testing.assert_allclose(sums, found[2][0], rtol=1e-5, atol=1e-3)
        np.testing.assert_allclose(squares, found[2][1], rtol=1e-5, atol=1e-3)


def test_a_longer_draw_begins_with_the_shorter():
    """Up to rounding: the blocks of a longer draw have more replicates, which changes the order of float32 sums."""
    (mlp,) = small_mlps(16, 3, 1)
    points = plan(16, 10**5).points
    *_, short = FastTruth(10 * points).stream(mlp)
    *_, longer = (running for running in FastTruth(80 * points).stream(mlp) if running.n_replicates == 10)
    np.testing.assert_allclose(short.total, longer.total, rtol=1e-7)


def assert_same(first, second):
    np.testing.assert_array_equal(first.means, second.means)
    np.testing.assert_array_equal(first.standard_errors, second.standard_errors)
    assert (first.avg_variance, first.n_samples) == (second.avg_variance, second.n_samples)


def test_a_stream_goes_on_from_any_of_its_states(monkeypatch):
    """Stopped between replicates or inside one: the same numbers bit for bit."""
    monkeypatch.setattr("whest.truth.plan.BLOCK_SAMPLES", 2**12)
    (mlp,) = small_mlps(256, 2, 1)
    sampler = FastTruth(8 * 2 * 256 * 17)
    assert plan(256, sampler.n_samples).n_signed == 16
    whole = list(sampler.stream(mlp))
    assert {running.n_bases_begun for running in whole} == {0, 9}
    assert [running.n_bases_begun for running in whole[-3:]] == [0, 9, 0]
    for running in whole[-3:-1]:
        *_, last = sampler.stream(mlp, running.state())
        assert_same(last.truth(), whole[-1].truth())
    assert [running.n_samples for running in whole] == sorted(running.n_samples for running in whole)


def test_a_finished_truth_can_be_continued():
    """More replicates after a truth give what all of them give in one draw, up to the rounding of float32."""
    mlp = draw_mlp(SeedProtocol().streams(12), 64, 4, "64x4")
    replicate = 2 * 64 * 33
    *_, first = FastTruth(10 * replicate).stream(mlp)
    *_, whole = FastTruth(25 * replicate).stream(mlp)
    *_, more = FastTruth(25 * replicate).stream(mlp, state_after(first.truth()))
    ours, expected = more.truth(), whole.truth()
    assert (ours.n_samples, ours.n_replicates) == (expected.n_samples, expected.n_replicates) == (25 * replicate, 25)
    np.testing.assert_allclose(ours.means, expected.means, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.standard_errors, expected.standard_errors, rtol=1e-4, atol=1e-9)
    assert ours.avg_variance == pytest.approx(expected.avg_variance, rel=1e-6)


@pytest.mark.slow
def test_bars_that_sampling_stopped_for_are_hardly_too_small():
    """Stopping at a small error bar favours small bars; with ten replicates it lowers their squares by under 25 %."""
    squares, claimed = [], []
    for mlp in small_mlps(16, 4, 300, seed=77):
        truth = draw(FastTruth(2, standard_error=3e-3), mlp)
        stream = np.random.SeedSequence(mlp.seed + 1)
        precise = draw(FastTruth(200_000), MLP(mlp.weights, mlp.seed, mlp.name, stream))
        squares.append(np.mean((truth.means[-1].astype(float) - precise.means[-1]) ** 2) - precise.floor_mse)
        claimed.append(truth.floor_mse)
    assert 0.9 < np.mean(squares) / np.mean(claimed) < 1.25


def far_from_published(n_samples=2, standard_error=None):
    """The distance to the reference's own N = 1e9 means in joint standard errors, and our floor."""
    published = [0.013288852758705616, 0.638306200504303, 0.5297008752822876, 0.002453362103551626, 2.779923439025879]
    mlp = draw_mlp(SeedProtocol().streams(568690286140009226), 256, 8, "sara-perez")
    truth = draw(FastTruth(n_samples, standard_error), mlp)
    joint = np.hypot(truth.standard_errors[-1, :5], math.sqrt(truth.avg_variance / 1e9))
    return np.abs(truth.means[-1, :5].astype(float) - published) / joint, truth.floor_mse


def test_means_agree_with_the_published_ones():
    distance, _ = far_from_published(200_000)
    assert (distance <= stats.t.ppf(1 - 3e-5, 9)).all(), "four sigma, for ten replicates"


@pytest.mark.slow
def test_means_agree_with_the_published_ones_to_a_floor_of_5e_9():
    distance, floor = far_from_published(standard_error=7e-5)
    assert floor <= 5e-9
    assert (distance <= 4).all()


ON_EIGHT_DEVICES = """
import sys
import jax
import numpy as np
from whest.dataset.sources import FreshDataset
from whest.truth.fast import FastTruth, state_after
assert jax.device_count() == 8
dataset = FreshDataset(width=64, depth=3, seed=5, n_mlps=1).load()
mlp = dataset.mlp(dataset.rows[0])
for name, sampler in {"count": FastTruth(100_000), "bar": FastTruth(2, standard_error=1.3e-3)}.items():
    *_, last = sampler.stream(mlp)
    truth = last.truth()
    counts = [truth.n_samples, truth.n_replicates]
    np.savez(f"{sys.argv[1]}/{name}.npz", means=truth.means, errors=truth.standard_errors, counts=counts)
"""


def test_eight_devices_draw_what_one_draws(tmp_path, environment):
    """The same replicates, each on its own device."""
    simulated = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", ON_EIGHT_DEVICES, str(tmp_path)]
    subprocess.run(command, check=True, env=environment | simulated, timeout=300)
    (mlp,) = small_mlps(64, 3, 1)
    compare(tmp_path / "count.npz", draw(FastTruth(100_000), mlp))
    compare(tmp_path / "bar.npz", draw(FastTruth(2, standard_error=1.3e-3), mlp))


def compare(path, here):
    with np.load(path) as there:
        np.testing.assert_allclose(there["means"], here.means, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(there["errors"], here.standard_errors, rtol=1e-3, atol=1e-7)
        assert there["counts"].tolist() == [here.n_samples, here.n_replicates]


@pytest.mark.parametrize(
    ("width", "depth", "points", "n_replicates"),
    [
        pytest.param(16, 4, 288, 10, marks=pytest.mark.slow),
        pytest.param(20, 3, 40, 12, marks=pytest.mark.slow),
    ],
    ids=["whole designs", "the width's own basis"],
)
def test_intervals_cover_an_independent_truth(width, depth, points, n_replicates):
    """Over 200 MLPs, 95 % t-intervals contain a far more precise truth 93 to 97 % of the time at every layer."""
    covered = []
    for mlp in small_mlps(width, depth, 200):
        truth = draw(FastTruth(n_replicates * points), mlp)
        stream = np.random.SeedSequence(mlp.seed + 1)  # independent of the intervals' own samples
        precise = draw(FastTruth(100_000), MLP(mlp.weights, mlp.seed, mlp.name, stream))
        error = np.hypot(truth.standard_errors.astype(float), precise.standard_errors.astype(float))
        quantile = stats.t.ppf(0.975, truth.n_replicates - 1)
        inside = np.abs(truth.means.astype(float) - precise.means) <= quantile * error
        sampled = truth.standard_errors > 1e-7  # a neuron that is never on has no interval
        covered.append([inside[layer][sampled[layer]].mean() for layer in range(1, mlp.depth)])
    assert truth.n_replicates == n_replicates
    for layer, share in enumerate(np.nanmean(covered, axis=0), start=2):
        assert 0.93 <= share <= 0.97, (layer, share)
