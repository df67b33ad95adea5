"""The samplers: unbiased and exact in some degrees, as their docstrings say, and never over their budget."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from omegaconf import OmegaConf

from estimators.hybrid import Sampled, blend
from estimators.kerdock import Kerdock
from estimators.orthogonal import Orthogonal, fixed_bases
from estimators.parts.bivariate import arc_cosine_covariance
from estimators.parts.chain import anchored, first_means
from estimators.parts.pruning import NARROWEST, kept, pilot_run, prune
from estimators.parts.sizing import largest
from estimators.pruned_mc import PrunedMonteCarlo
from estimators.telescoping import Telescoping
from estimators.whitened_mc import WhitenedMonteCarlo, fold_whitening
from tests.support.places import CONF
from whest.estimator.contract import Estimator
from whest.estimator.spec import estimator_spec
from whest.estimator.traced import estimator_function
from whest.metering.walk import Cost, meter
from whest.mlp import MLP, SeedProtocol, draw_mlp
from whest.truth.designs import haar, hadamard, kerdock_signs, mean_radius
from whest.truth.reference import ReferenceTruth
from whest.truth.truth import Truth

ESTIMATORS = CONF / "estimator"
SAMPLERS = "whitened_mc telescoping orthogonal pruned_mc kerdock hybrid".split()


def make(name: str, **knobs: Any) -> Estimator:
    node = OmegaConf.to_container(OmegaConf.load(ESTIMATORS / f"{name}.yaml"))
    assert isinstance(node, dict)
    return estimator_spec({"name": name, "mode": "traced", **node, **knobs}).create()


def cost(estimator: Estimator, width: int, depth: int, budget: int) -> Cost:
    shapes = [((depth, width, width), jnp.float32), ((), jnp.uint32), ((2,), jnp.uint32)]
    return meter(estimator_function(estimator, budget))(*(jax.ShapeDtypeStruct(*shape) for shape in shapes))


def answer(estimator: Estimator, mlp: MLP, budget: int) -> np.ndarray:
    run = jax.jit(estimator_function(estimator, budget))
    key = jax.random.key_data(jax.random.key(mlp.seed))
    return np.asarray(run(jnp.asarray(mlp.weights), jnp.uint32(mlp.seed), key), np.float64)


def draw(mlp_seed: int, width: int, depth: int) -> MLP:
    return draw_mlp(SeedProtocol().streams(mlp_seed), width, depth, "test")


@cache
def network_and_truth() -> tuple[MLP, Truth]:
    mlp = draw(70, 16, 3)
    *_, moments = ReferenceTruth(400_000).stream(mlp)
    return mlp, moments.truth()


# Sizing


@pytest.mark.parametrize("limit", [0, 10, 1007, 1008, 123_456, 10**9])
@pytest.mark.parametrize("turn", [1, 32, 1000])
def test_largest_size_fits_and_leaves_no_room_for_a_turn_more(turn: int, limit: int) -> None:
    """A price with a fixed part, a price per block, and a price per `turn` blocks."""
    asked = []

    def flops(size: int) -> int:
        asked.append(size)
        return 1000 + 7 * size + 50 * math.ceil(size / turn)

    size = largest(flops, limit)
    assert len(asked) <= 9
    assert size == 0 or flops(size) <= limit
    assert flops(size + 1 + 16 * (turn > 1)) > limit


def spent_too_much(name: str, width: int, depth: int, budgets: list[int]) -> list[tuple[int, int]]:
    spent = [(budget, cost(make(name), width, depth, budget).flops) for budget in budgets]
    return [(budget, flops) for budget, flops in spent if flops > budget]


SMALL = [(4, 8, [10**7, 10**12]), (16, 2, [10**8]), (64, 1, [10**9, 10**7])]
THINNED = [*SMALL, (256, 2, [10**8, 6 * 10**10]), (257, 2, [10**9])]


@pytest.mark.parametrize(("width", "depth", "budgets"), THINNED)
@pytest.mark.parametrize("name", SAMPLERS)
def test_no_sampler_exceeds_its_budget(name: str, width: int, depth: int, budgets: list[int]) -> None:
    assert spent_too_much(name, width, depth, budgets) == []


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 8, 32])
@pytest.mark.parametrize("width", [4, 16, 64, 256, 257])
@pytest.mark.parametrize("name", SAMPLERS)
def test_no_sampler_exceeds_any_budget(name: str, width: int, depth: int) -> None:
    budgets = [int(budget) for budget in np.geomspace(1e7, 2.72e11, 10)]
    assert spent_too_much(name, width, depth, budgets) == []


@pytest.mark.parametrize("name", ["whitened_mc", "telescoping", "orthogonal", "pruned_mc"])
def test_samplers_spend_what_they_are_told(name: str) -> None:
    budget = 10**8
    flops = cost(make(name, budget_fraction=0.3), 16, 3, budget).flops
    assert 0.95 * 0.3 * budget <= flops <= 0.3 * budget


@pytest.mark.parametrize("name", SAMPLERS)
def test_without_a_sample_mean_propagation_answers_and_then_zeros(name: str) -> None:
    some = cost(make(name), 64, 2, 60_000)
    assert {charge.namespace.rpartition(".")[0] for charge in some.charges if charge.flops} == {"fallback.mean_prop"}
    assert cost(make(name), 64, 2, 100).flops == 0


# Unbiased


def means_over_keys(sample: Callable[[Any, Any], Any], mlp: MLP, n_keys: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of a sampler's answers over independent keys, and its standard error."""
    keys = jax.random.split(jax.random.key(5), n_keys)
    answers = np.asarray(jax.jit(jax.vmap(sample, (None, 0)))(jnp.asarray(mlp.weights), keys), np.float64)
    return answers.mean(axis=0), answers.std(axis=0, ddof=1) / math.sqrt(n_keys)


UNBIASED = {
    "telescoping": lambda w, key: Telescoping(0.1, 0).sample(w, key, 40),
    "orthogonal": lambda w, key: Orthogonal(0.1, "none", 0).sample(w, key, 2),
    "orthogonal, anchored": lambda w, key: Orthogonal(0.1, "mean", 0).sample(w, key, 2),
    "kerdock": lambda w, key: Kerdock(0.1, 1.0, 0.0, "mean", 0, 0).designs(w, key, 1),
    "part of kerdock": lambda w, key: Kerdock(0.1, 1.0, 0.0, "none", 0, 0).bases(w, key, 3),
    "whitened": lambda w, key: WhitenedMonteCarlo(0.1, "none", 0).sample(w, key, 1),
}


@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased(name: str) -> None:
    """The average over many keys is within 6 standard errors of the truth. Few samples make a bias visible."""
    mlp, truth = network_and_truth()
    mean, error = means_over_keys(UNBIASED[name], mlp, 2000)
    joint = np.hypot(error, truth.standard_errors) + 2e-6  # float32
    assert (np.abs(mean - truth.means) < 6 * joint).all()
    assert (error[-1] < 0.015).all()


def test_a_design_s_error_is_smaller_than_that_of_as_many_orthogonal_points() -> None:
    """288 points at width 16: nine bases, as a design or with random rotations."""
    mlp, _ = network_and_truth()
    by_design = means_over_keys(UNBIASED["kerdock"], mlp, 300)[1]
    at_random = means_over_keys(lambda w, key: Orthogonal(0.1, "mean", 0).sample(w, key, 9), mlp, 300)[1]
    assert np.square(by_design[-1]).sum() < 0.85 * np.square(at_random[-1]).sum()


# Exact in low degrees


def test_whitened_points_have_covariance_one() -> None:
    """Degrees 1 and all odd ones vanish by ±; degree 2 by whitening."""
    x = jax.random.normal(jax.random.key(0), (70, 24))
    points = np.asarray(x @ fold_whitening(x, jnp.eye(24)), np.float64)
    np.testing.assert_allclose(points.T @ points / len(points), np.eye(24), atol=1e-5)


def test_fixed_bases_are_orthogonal_and_differ() -> None:
    for width in (1, 5, 16):
        blocks = fixed_bases(width).reshape(-1, width, width).astype(np.float64)
        np.testing.assert_allclose(
            blocks @ blocks.swapaxes(1, 2), np.broadcast_to(np.eye(width), blocks.shape), atol=1e-6
        )
    assert len(np.unique(blocks[:100], axis=0)) == 100


def design_points(key: jax.Array, n: int) -> np.ndarray:
    """The whole design written out: every basis, the identity first, and its negatives, turned, at the mean radius."""
    bases = [np.eye(n), *(hadamard(n) * signs / math.sqrt(n) for signs in kerdock_signs(n).astype(float))]
    points = mean_radius(n) * np.concatenate(bases) @ np.asarray(haar(key, n), np.float64)
    return np.concatenate([points, -points])


@pytest.mark.parametrize(("width", "n"), [(16, 16), (11, 16)])
def test_kerdock_is_the_mean_over_the_design_written_out(width: int, n: int) -> None:
    """Transforms and ± identities change nothing; a width between designs uses coordinates of the next larger one."""
    mlp, key = draw(71, width, 3), jax.random.key(9)
    h = design_points(jax.random.fold_in(jax.random.fold_in(key, 0), 0), n)[:, :width]
    for w, means in zip(mlp.weights, Kerdock(0.1, 1.0, 0.0, "none", 0, 0).designs(mlp.weights, key, 1), strict=True):
        h = np.maximum(h @ w, 0)
        np.testing.assert_allclose(means, h.mean(axis=0), atol=1e-5)


def test_design_integrates_fourth_powers() -> None:
    """E[(u·v)⁴] = 3/(n(n+2)) on the sphere for every unit v; for a part of the design it isn't."""
    n = 16
    points = design_points(jax.random.key(2), n) / mean_radius(n)
    v = np.random.default_rng(0).standard_normal((n, 50))
    v /= np.linalg.norm(v, axis=0)
    expected = 3 / (n * (n + 2))
    np.testing.assert_allclose(np.mean((points @ v) ** 4, axis=0), expected, rtol=1e-5)
    assert np.abs(np.mean((points[: 3 * n] @ v) ** 4, axis=0) - expected).max() > 0.1 * expected


# Closed forms


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "telescoping"])
@pytest.mark.parametrize("depth", [1, 3])
def test_anchored_first_layer_is_exact(name: str, depth: int) -> None:
    mlp = draw(72, 16, depth)
    exact = np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(answer(make(name), mlp, 10**8)[0], exact, rtol=2e-5)


def test_one_layer_by_telescoping() -> None:
    """The rest after the linear part is |z|/2 − E, with variance σ²/4·(1 − 2/π)."""
    mlp, n_samples = draw(72, 16, 1), 20_000
    weights = jnp.asarray(mlp.weights)
    means = np.asarray(Telescoping(0.1, 0).sample(weights, jax.random.key(0), n_samples)[0], np.float64)
    error = np.linalg.norm(mlp.weights[0], axis=0) / 2 * math.sqrt((1 - 2 / math.pi) / n_samples)
    z = (means - np.asarray(first_means(weights[0]))) / error
    assert (np.abs(z) < 6).all()
    assert 0.3 < np.sqrt(np.mean(z**2)) < 3


def test_full_anchors_against_brute_force() -> None:
    w = draw(73, 6, 1).weights[0].astype(np.float64)
    h = np.maximum(np.random.default_rng(1).standard_normal((400_000, 6)) @ w, 0)
    products = (h - h.mean(axis=0))[:, :, None] * (h - h.mean(axis=0))[:, None]
    error = products.std(axis=0) / math.sqrt(len(h))
    assert (np.abs(np.asarray(arc_cosine_covariance(jnp.asarray(w.T @ w))) - products.mean(axis=0)) < 6 * error).all()


@pytest.mark.parametrize("anchors", ["none", "mean", "full"])
def test_whitened_anchors_all_agree_with_truth(anchors: Any) -> None:
    mlp, truth = network_and_truth()
    sample = WhitenedMonteCarlo(0.1, anchors, 0).sample
    mean, error = means_over_keys(lambda w, key: sample(w, key, 500), mlp, 50)
    assert np.abs(mean - truth.means).max() < 6 * np.hypot(error, truth.standard_errors).max() + 1e-4


def test_known_layers_are_kept_and_their_errors_carried() -> None:
    """If all neurons are on, the network is linear and the correction is exact."""
    weights = jnp.asarray(np.abs(draw(76, 8, 4).weights))
    truth = [first_means(weights[0])]
    for w in weights[1:]:
        truth.append(truth[-1] @ w)
    off = jnp.stack(truth).at[:].add(carry_of_ones(weights))
    for known, shares in ((None, (1.0,)), (jnp.stack(truth[:3]), (1.0, 1.0, 1.0))):
        corrected = anchored(off, weights, known, shares)
        n = len(shares)
        np.testing.assert_allclose(corrected[:n], jnp.stack(truth[:n]), rtol=1e-5)
        np.testing.assert_allclose(corrected[n:], jnp.stack(truth[n:]), rtol=0.02)


def test_a_share_of_none_is_as_if_the_layer_were_unknown() -> None:
    mlp, rng = draw(78, 8, 4), np.random.default_rng(0)
    means, known = rng.random((4, 8), np.float32), rng.random((2, 8), np.float32)
    one = anchored(jnp.asarray(means), mlp.weights, jnp.asarray(known[:1]), (1.0,))
    two = anchored(jnp.asarray(means), mlp.weights, jnp.asarray(known), (1.0, 0.0))
    half = anchored(jnp.asarray(means), mlp.weights, jnp.asarray(known), (1.0, 0.5))
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(half[1], (one[1] + known[1]) / 2, rtol=1e-5, atol=1e-6)


def carry_of_ones(weights: jax.Array) -> jax.Array:
    """The effect of a first layer with an error of .1 on deeper layers that are always on."""
    errors = [jnp.full(weights.shape[1], 0.1)]
    for w in weights[1:]:
        errors.append(errors[-1] @ w)
    return jnp.stack(errors)


# Pruning


def test_pruned_sizes() -> None:
    sizes = kept(256, 32, 0.3)
    assert sizes[:4] == [256] * 4
    assert sizes == sorted(sizes, reverse=True)
    assert all(size % 16 == 0 for size in sizes)
    assert 0.7 < sizes[-1] / 256 < 0.8
    assert kept(256, 32, 0.0) == [256] * 32
    assert kept(NARROWEST - 1, 4, 0.3) == [NARROWEST - 1] * 4


def test_pruning_leaves_out_what_is_off_and_puts_the_rest_back() -> None:
    """Removing neurons that are never on changes nothing."""
    rng = np.random.default_rng(3)
    layers = [jnp.asarray(rng.standard_normal((8, 8)), jnp.float32) for _ in range(3)]
    layers[1] = layers[1].at[:, 2].set(-1).at[:, 5].set(-1)  # inputs are positive
    h = jnp.abs(jnp.asarray(rng.standard_normal((50, 8)), jnp.float32))
    whole = pilot_run(h, layers)
    pruned = prune(layers, whole.alphas, [8, 6, 8])
    assert [w.shape for w in pruned.layers] == [(8, 8), (8, 6), (6, 8)]
    restored = pruned.restore(pilot_run(h, pruned.layers).sums, 8)
    for a, b in zip(restored, whole.sums, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_pruning_s_bias_is_far_below_the_noise() -> None:
    """The same points with and without pruning: the difference is under 1 % of the MSE of 2,048 points (.02/2048)."""
    mlp, key = draw(74, 256, 32), jax.random.key(1)
    run = jax.jit(lambda w, share: PrunedMonteCarlo(0.1, share, "none", 0).sample(w, key, 4), static_argnums=1)
    whole, pruned = (np.asarray(run(jnp.asarray(mlp.weights), share)[-1], np.float64) for share in (0.0, 0.3))
    assert 0 < np.mean((whole - pruned) ** 2) < 0.01 * 0.02 / 2048


# The hybrid's weights


def test_blend_trusts_the_sampler_as_far_as_it_is_quiet() -> None:
    known = jnp.asarray([[1.0, 2.0, 3.0]])
    sampled = jnp.asarray([[2.1, 3.9, 6.0]])
    scale = float((sampled * known).sum() / (known * known).sum())
    spread = float(jnp.mean((sampled - scale * known) ** 2))
    for variance, weight in [(0.0, 0.0), (spread / 4, 0.25), (spread * 9, 1.0)]:
        expected = (1 - weight) * sampled + weight * scale * known
        np.testing.assert_allclose(blend(Sampled(sampled, jnp.asarray([variance])), known), expected, rtol=1e-5)


def test_samplers_take_another_product() -> None:
    calls = []

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        calls.append(a.shape)
        return a @ b

    mlp = draw(75, 16, 4)
    sample = Orthogonal(0.1, "none", 0).sample
    weights, key = jnp.asarray(mlp.weights), jax.random.key(0)
    np.testing.assert_allclose(sample(weights, key, 3, product), sample(weights, key, 3), rtol=1e-5)
    assert calls == [(48, 16), (96, 16)], "layer 2's product, and that of the deeper layers in a loop"
