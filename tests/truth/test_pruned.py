"""A network without its idle neurons, whose error is removed: no bias, honest error bars, always the same choice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from whest.dataset.sources import FreshDataset
from whest.mlp import MLP
from whest.truth import pruned
from whest.truth.designs import kerdock_signs
from whest.truth.fast import FastTruth
from whest.truth.plain import PlainTruth
from whest.truth.plan import plan
from whest.truth.pruned import LEVELS, Choice, PrunedTruth, cheapest, climb, matmul_share, remaining, sizes, together
from whest.truth.rotations import Surrogate, _pair_sums, basis_sums, fold_rotations, replicate_mesh

DEEP = 64, 20
WHOLE_DESIGNS = 40_000
"""Samples that pay for eight whole designs of 64 dimensions."""


def small_mlps(width, depth, n, seed=5):
    dataset = FreshDataset(width=width, depth=depth, seed=seed, n_mlps=n).load()
    return [dataset.mlp(row) for row in dataset.rows]


def draw(sampler, mlp):
    *_, last = sampler.stream(mlp)
    return last.truth()


def chosen(mlp, n_samples=WHOLE_DESIGNS):
    weights, key = jnp.asarray(mlp.weights), jnp.asarray(mlp.key_samples)
    return PrunedTruth(n_samples)._surrogate(weights, key, plan(mlp.width, n_samples))


@pytest.mark.parametrize("shape", [(256, 32), (1024, 16), (256, 8), (16, 40), (1, 1), (3, 50)])
def test_sizes_shrink_with_the_level_and_the_first_layers_are_whole(shape):
    width, depth = shape
    by_level = np.array([sizes(width, depth, level) for level in (0.0, *LEVELS)])
    assert (by_level[0] == width).all()
    assert (by_level[:, :4] == width).all()
    assert (np.diff(by_level, axis=0) <= 0).all()
    assert by_level.min() >= width // 2
    assert (by_level % max(1, width // 16) == width % max(1, width // 16)).all()
    assert matmul_share(list(by_level[0])) == 1


def test_the_share_of_matmuls():
    assert matmul_share([8, 8, 8, 4]) == pytest.approx((32 + 64 + 32) / (32 + 64 + 64))
    assert matmul_share([5]) == 1


@pytest.mark.parametrize(("size", "n_signed"), [(16, 8), (64, 32), (256, 8), (256, 24), (256, 128), (1024, 512)])
def test_whole_batches_are_corrected_at_most_one_basis_in_eight(size, n_signed):
    layout = plan(size, 8 * 2 * size * (1 + n_signed))
    assert layout.n_signed == n_signed
    counts = {cheapest(layout, 0.3, 0.7, r).n_corrected for r in (0, 1e-4, 1e-3, 1e-2, 1)}
    for n in counts:
        assert n % together(layout) == 0
        assert (n_signed - n) % together(layout) == 0
        assert 0 < n <= n_signed / 8
    assert max(counts) == max(n for n in (2**i for i in range(10)) if n * 8 <= n_signed)


def test_the_level_with_the_lowest_cost_is_found_from_both_sides():
    for best in (0, 2, 6, len(LEVELS) - 1):
        assert climb(lambda level, best=best: Choice(abs(level - LEVELS[best]), level, 1)).level == LEVELS[best]


def test_a_network_with_all_neurons_is_the_network():
    (mlp,) = small_mlps(16, 6, 1)
    layers = tuple(jnp.asarray(mlp.weights))
    whole = remaining(mlp.weights, np.ones((6, 16), bool), np.ones((6, 16), np.float32))
    z = jnp.asarray(np.random.default_rng(0).normal(size=(64, 16)), jnp.float32)
    z_next = jnp.matmul(z, layers[1], precision="highest")
    with jax.enable_x64(True):
        for a, b in zip(_pair_sums(z, z_next, layers), _pair_sums(z, z_next, layers, remaining=whole), strict=True):
            np.testing.assert_array_equal(a, b)


def test_left_out_neurons_are_replaced_by_their_means():
    """Against plain matrix products, where the activations of these neurons are set to the means."""
    (mlp,) = small_mlps(16, 6, 1)
    rng = np.random.default_rng(0)
    kept = rng.random((6, 16)) < 0.7
    kept[:2] = True
    means = rng.random((6, 16)).astype(np.float32)
    z = rng.normal(size=(64, 16)).astype(np.float32)
    h, expected = np.maximum(np.concatenate([z, -z]), 0).astype(np.float64), []
    for layer, w in enumerate(mlp.weights):
        h = np.where(kept[layer], np.maximum(h @ w, 0) if layer else h, means[layer])
        expected.append(h.sum(0))
    with jax.enable_x64(True):
        layers = tuple(jnp.asarray(mlp.weights))
        z_next = jnp.asarray(z @ mlp.weights[1])
        sums, squares = _pair_sums(jnp.asarray(z), z_next, layers, remaining=remaining(mlp.weights, kept, means))
    np.testing.assert_allclose(sums, np.stack(expected), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(squares, np.square(h).sum(0), rtol=1e-4, atol=1e-3)


def test_the_correction_is_the_whole_error_of_the_surrogate():
    """With every basis corrected the sums are those of the network; with none they are not."""
    (mlp,) = small_mlps(64, 8, 1)
    weights, mesh = jnp.asarray(mlp.weights), replicate_mesh()
    kept = np.arange(64) >= 64 - np.array(sizes(64, 8, 0.5))[:, None]
    less = remaining(mlp.weights, kept, np.zeros((8, 64), np.float32))
    signs = jnp.asarray(kerdock_signs(64)[:8])
    with jax.enable_x64(True):
        folded = fold_rotations(
            weights, jnp.asarray(mlp.key_samples), np.arange(1, dtype=np.uint32), size=64, mesh=mesh
        )

        def sums(**how):
            return [
                np.asarray(part) for part in basis_sums(folded, weights, signs, with_identity=False, mesh=mesh, **how)
            ]

        exact = sums(surrogate=Surrogate(4, 0, 0.0, in_halves=False))
        how = {"surrogate": Surrogate(4, 8, 1.0, in_halves=False), "remaining": less}
        for ours, true in zip(sums(n_corrected=8, **how), exact, strict=True):
            np.testing.assert_allclose(ours, true, rtol=1e-5, atol=1e-3)
        assert np.abs(sums(n_corrected=0, **how)[0] - exact[0]).max() > 1


def test_deep_networks_are_pruned_and_shallow_ones_are_not():
    (deep,), (shallow,) = small_mlps(*DEEP, 1), small_mlps(64, 4, 1)
    surrogate, less = chosen(deep)
    assert surrogate.n_corrected > 0
    assert less.layers[-1].shape[1] < 60
    assert less.layers[1].shape == (64, 64)
    surrogate, less = chosen(shallow)
    assert surrogate.n_corrected == 0
    assert less is None
    np.testing.assert_allclose(
        draw(PrunedTruth(WHOLE_DESIGNS), shallow).means,
        draw(FastTruth(WHOLE_DESIGNS), shallow).means,
        rtol=1e-5,
        atol=1e-6,
    )


def test_too_few_bases_are_drawn_as_by_fast():
    (mlp,) = small_mlps(*DEEP, 1)
    few = 2000
    assert plan(64, few).n_signed == 0
    assert chosen(mlp, few) == (None, None)
    np.testing.assert_array_equal(draw(PrunedTruth(few), mlp).means, draw(FastTruth(few), mlp).means)


def test_the_choice_is_a_function_of_the_mlp_and_the_plan():
    (mlp,) = small_mlps(*DEEP, 1)
    first = chosen(mlp)
    jax.clear_caches()
    again = chosen(mlp)
    assert first[0] == again[0]
    jax.tree.map(np.testing.assert_array_equal, first[1], again[1])


@pytest.mark.parametrize(("width", "depth"), [(16, 4), (64, 3), (20, 12), DEEP])
def test_pruned_and_plain_agree(width, depth):
    (mlp,) = small_mlps(width, depth, 1)
    ours, plain = draw(PrunedTruth(100_000), mlp), draw(PlainTruth(200_000), mlp)
    error = np.hypot(ours.standard_errors.astype(float), plain.standard_errors.astype(float))
    assert (np.abs(ours.means - plain.means) <= 6 * error + 1e-6).all()
    assert ours.avg_variance == pytest.approx(plain.avg_variance, rel=0.05)


def always_prune(monkeypatch, level):
    """Leave so much out, whatever it costs."""
    monkeypatch.setattr(pruned, "LEVELS", (level,))
    monkeypatch.setattr(pruned, "FIRST_TRIED", 0)
    monkeypatch.setattr(pruned, "cheapest", lambda layout, level, c, r: Choice(0.0, level, together(layout)))


def test_a_surrogate_of_any_quality_leaves_no_bias(monkeypatch):
    """Far too much is left out: the error bars grow, and the means stay right."""
    always_prune(monkeypatch, 0.9)
    (mlp,) = small_mlps(*DEEP, 1)
    assert chosen(mlp)[1].layers[-1].shape[1] == sizes(*DEEP, 0.9)[-1]
    ours, fast = draw(PrunedTruth(400_000), mlp), draw(FastTruth(400_000), mlp)
    assert ours.floor_mse > 2 * fast.floor_mse
    distance = (ours.means - fast.means)[1:] / np.maximum(
        np.hypot(ours.standard_errors, fast.standard_errors)[1:], 1e-6
    )
    assert ours.n_replicates >= 80
    assert np.abs(distance).max() < 6
    assert np.mean(distance**2) < 1.5


def test_a_pruned_stream_goes_on_from_any_of_its_states(monkeypatch):
    monkeypatch.setattr("whest.truth.plan.BLOCK_SAMPLES", 2**12)
    always_prune(monkeypatch, 0.3)
    (mlp,) = small_mlps(256, 7, 1)
    sampler = PrunedTruth(8 * 2 * 256 * 17)
    assert chosen(mlp, sampler.n_samples)[1] is not None
    whole = list(sampler.stream(mlp))
    assert [running.n_bases_begun for running in whole[-3:]] == [0, 9, 0]
    for running in whole[-3:-1]:
        *_, last = sampler.stream(mlp, running.state())
        np.testing.assert_array_equal(last.truth().means, whole[-1].truth().means)


@pytest.mark.slow
def test_pruned_intervals_cover_an_independent_truth(monkeypatch):
    """Ten replicates of a design each, of 200 networks that are pruned more than would pay."""
    always_prune(monkeypatch, 0.5)
    covered, n_pruned, n_samples = [], 0, 10 * 2 * 16 * 9
    for mlp in small_mlps(16, 8, 200):
        stream = np.random.SeedSequence(mlp.seed + 1)  # independent of the intervals' own samples
        precise = draw(FastTruth(100_000), MLP(mlp.weights, mlp.seed, mlp.name, stream))
        truth = draw(PrunedTruth(n_samples), mlp)
        assert truth.n_replicates == 10
        n_pruned += chosen(mlp, n_samples)[1] is not None
        error = np.hypot(truth.standard_errors.astype(float), precise.standard_errors.astype(float))
        inside = np.abs(truth.means.astype(float) - precise.means) <= stats.t.ppf(0.975, 9) * error
        sampled = truth.standard_errors > 1e-6  # a neuron that is never on has no interval
        covered.append([inside[layer][sampled[layer]].mean() for layer in range(1, mlp.depth)])
    shares = np.nanmean(covered, axis=0)
    assert ((shares >= 0.93) & (shares <= 0.97)).all(), shares
    assert n_pruned == 200
