"""Truth: sampled means against closed forms, and the size of their error bars."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from omegaconf import OmegaConf

from tests.support.contracts.sampler import SamplerContract, sample
from tests.support.estimators import draw
from tests.support.places import CONF
from whest.config.build import build_target
from whest.errors import ConfigError
from whest.mlp import MLP
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth
from whest.truth.plain import Moments, PlainTruth, rows_per_chunk
from whest.truth.pruned import PrunedTruth
from whest.truth.reference import ReferenceTruth
from whest.truth.truth import Truth, TruthSampler, expected_samples


def moments_of(sampler: TruthSampler, mlp: MLP) -> Moments:
    *_, last = sampler.stream(mlp)
    return last


def first_layer_variances(mlp: MLP) -> np.ndarray:
    """Var[relu(x·w)] = ‖w‖²·(1/2 − 1/(2π))."""
    return np.square(np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0)) * (0.5 - 0.5 / np.pi)


class TestContract(SamplerContract):
    subjects = {
        "plain": PlainTruth,
        "reference": ReferenceTruth,
        "fast": FastTruth,
        "mixed": MixedTruth,
        "pruned": PrunedTruth,
    }


def test_every_shipped_sampler_is_a_subject() -> None:
    shipped = {OmegaConf.load(path)["_target_"] for path in (CONF / "truth").glob("*.yaml")}
    assert {f"{each.__module__}.{each.__name__}" for each in TestContract.subjects.values()} == shipped


# Against closed forms


def test_first_layer_standard_errors_agree_with_their_closed_form() -> None:
    """SE² = Var/N; a sample variance has relative error √((κ − 1)/N), κ < 6 for a rectified Gaussian."""
    mlp, n = draw(11, 128, 2), 40_000
    ratio = np.square(sample(PlainTruth(n), mlp).standard_errors[0], dtype=np.float64) * n / first_layer_variances(mlp)
    assert (np.abs(ratio - 1) < 6 * np.sqrt(5 / n)).all()


def test_average_variance_agrees_with_its_closed_form() -> None:
    mlp, n = draw(11, 64, 1), 40_000
    expected = first_layer_variances(mlp).mean()
    assert sample(ReferenceTruth(n), mlp).avg_variance == pytest.approx(expected, rel=6 * np.sqrt(5 / n))


def test_published_means_of_a_billion_samples() -> None:
    published = [0.013288852758705616, 0.638306200504303, 0.5297008752822876, 0.002453362103551626, 2.779923439025879]
    truth = sample(PlainTruth(2**15), draw(568690286140009226, 256, 8))
    distance = np.abs(truth.means[-1, :5].astype(np.float64) - published)
    assert (distance < 6 * truth.standard_errors[-1, :5]).all()
    assert (truth.standard_errors[-1, :5] > 0).all()


def test_reference_reproduces_the_published_bake() -> None:
    truth = sample(ReferenceTruth(1024), draw(20260525, 256, 8))
    np.testing.assert_allclose(truth.means[0, :2], [0.5594725012779236, 0.5556882619857788], rtol=0, atol=1e-6)
    np.testing.assert_allclose(truth.means[-1, :2], [1.9422929286956787, 0.01929149590432644], rtol=0, atol=1e-6)
    assert truth.n_samples == 1024


def test_plain_and_reference_agree() -> None:
    mlp = draw(3, 128, 2)
    plain, reference = sample(PlainTruth(100_000), mlp), sample(ReferenceTruth(100_000), mlp)
    joint = np.hypot(plain.standard_errors, reference.standard_errors)
    assert (np.abs(plain.means - reference.means) <= 6 * joint + 1e-6).all()
    assert not np.array_equal(plain.means, reference.means), "two samplers that draw the same are one"


# The error bar


def test_floor_is_the_mean_square_of_the_final_standard_errors() -> None:
    errors = np.array([[9, 9], [0.1, 0.3]], np.float32)
    assert Truth(np.zeros((2, 2), np.float32), errors, 1.0, 10).floor_mse == pytest.approx(0.05, rel=1e-6)


# Moments


def test_truth_of_moments_by_hand() -> None:
    """Two layers of one neuron; samples 1, 2, 6 and 0, 0, 3."""
    samples = np.array([[1, 2, 6], [0, 0, 3]], np.float64)
    truth = Moments(3, samples.sum(1, keepdims=True), np.square(samples).sum(1, keepdims=True)).truth()
    assert truth.means[:, 0].tolist() == [3, 1]
    np.testing.assert_allclose(truth.standard_errors[:, 0], samples.std(1, ddof=1) / np.sqrt(3), rtol=1e-6)
    assert truth.avg_variance == pytest.approx(2.0), "biased, over the last layer: (0 + 0 + 9)/3 − 1²"


def test_average_variance_takes_off_the_rounded_mean() -> None:
    """If float32 can't hold the mean exactly, avg_variance = Σx²/N − float32(mean)²: the reference's definition."""
    total, squares = np.array([[1 / 3 * 7, 10.1]]), np.array([[5.0, 20.3]])
    rounded = (total[0] / 7).astype(np.float32).astype(np.float64)
    expected = np.mean(squares[0] / 7 - rounded**2)
    unrounded = np.mean(squares[0] / 7 - (total[0] / 7) ** 2)
    assert Moments(7, total, squares).truth().avg_variance == pytest.approx(expected, rel=1e-14)
    assert expected != pytest.approx(unrounded, rel=1e-10)


def test_moments_add_up() -> None:
    a = Moments(2, np.array([[1.0]]), np.array([[2.0]])) + Moments(3, np.array([[4.0]]), np.array([[8.0]]))
    assert (a.n_samples, a.total.item(), a.total_squares.item()) == (5, 5.0, 10.0)


def test_constant_activations_have_no_error() -> None:
    truth = Moments(3, np.full((1, 2), 0.3), np.full((1, 2), 0.03)).truth()
    np.testing.assert_allclose(truth.standard_errors, 0, atol=1e-9)


# What plain sampling draws, exactly


def manual_moments(mlp: MLP, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """The same normals chunk by chunk, the surplus rows cut off, through NumPy."""
    rows = rows_per_chunk(mlp.width, n_samples)
    key = jax.random.wrap_key_data(jnp.asarray(mlp.key_samples))
    chunks = [
        np.asarray(jax.random.normal(jax.random.fold_in(key, i), (rows, mlp.width), jnp.float32))
        for i in range(-(-n_samples // rows))
    ]
    h = np.concatenate(chunks)[:n_samples]
    assert len(h) == n_samples
    total, squares = [], []
    for w in mlp.weights:
        h = np.maximum(h @ w, 0)
        total.append(h.sum(0, dtype=np.float64))
        squares.append(np.square(h, dtype=np.float64).sum(0))
    return np.stack(total), np.stack(squares)


@pytest.mark.parametrize("n_samples", [2, 8192, 20_000])
def test_plain_truth_is_the_sum_over_exactly_n_samples(n_samples: int) -> None:
    """At width 128 a chunk has 8192 rows; the last one's surplus rows add nothing."""
    mlp = draw(8, 128, 2)
    moments = moments_of(PlainTruth(n_samples), mlp)
    total, squares = manual_moments(mlp, n_samples)
    assert moments.n_samples == n_samples
    np.testing.assert_allclose(moments.total, total, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(moments.total_squares, squares, rtol=2e-5, atol=1e-5)


def test_one_sample_more_adds_one_sample() -> None:
    """With one row more than a whole chunk the first chunks stay the same: sums differ only by the new row."""
    mlp = draw(8, 128, 2)
    rows = rows_per_chunk(128, 10**6)
    fewer, more = (moments_of(PlainTruth(n), mlp) for n in (rows, rows + 1))
    key = jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(mlp.key_samples)), 1)
    h = np.asarray(jax.random.normal(key, (rows, 128), jnp.float32))[:1]
    for layer, w in enumerate(mlp.weights):
        h = np.maximum(h @ w, 0)
        np.testing.assert_allclose(more.total[layer] - fewer.total[layer], h[0], atol=1e-5)


@pytest.mark.parametrize("width", [1, 16, 256, 1024, 4096])
def test_chunks_never_hold_more_than_was_asked(width: int) -> None:
    assert rows_per_chunk(width, 10) == 10
    assert rows_per_chunk(width, 10**9) >= 1024


@pytest.mark.parametrize("block", [1, 8192, 3 * 8192, 2**30])
def test_result_does_not_depend_on_the_block_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the order of float64 additions may differ."""
    mlp, sampler = draw(8, 128, 2), PlainTruth(30_000)
    expected = moments_of(sampler, mlp)
    monkeypatch.setattr("whest.truth.plain.BLOCK_SAMPLES", block)
    stream = list(sampler.stream(mlp))
    counts = [moments.n_samples for moments in stream]
    assert counts == sorted(set(counts))
    assert len(counts) == {1: 4, 8192: 4, 3 * 8192: 2, 2**30: 1}[block]
    assert stream[-1].n_samples == expected.n_samples == 30_000
    np.testing.assert_allclose(stream[-1].total, expected.total, rtol=1e-13)
    np.testing.assert_allclose(stream[-1].total_squares, expected.total_squares, rtol=1e-13)
    np.testing.assert_array_equal(stream[-1].truth().means, expected.truth().means)


def test_reference_chunks_follow_one_generator() -> None:
    """After a chunk of 8192 rows the stream continues; plain NumPy code gives the same sums."""
    mlp, n = draw(8, 128, 2), 10_000
    generator = np.random.default_rng(mlp.sample_stream)
    h = np.concatenate([generator.standard_normal((rows, 128), dtype=np.float32) for rows in (8192, n - 8192)])
    moments = moments_of(ReferenceTruth(n), mlp)
    for layer, w in enumerate(mlp.weights):
        h = np.maximum(h @ w, 0)
        np.testing.assert_allclose(moments.total[layer], h.sum(0, dtype=np.float64), rtol=1e-5)
    assert [m.n_samples for m in ReferenceTruth(n).stream(mlp)] == [8192, n]


# Until the error bar is small enough


def test_what_is_expected_follows_the_error_bar() -> None:
    """A quarter of the variance needs four times the samples. Before there is an error bar, nothing is predicted."""
    sampler = PlainTruth(2, standard_error=0.05)
    moments = Moments(2000, np.full((1, 1), 0.0), np.full((1, 1), 2000 * 20.0))  # SE 0.1
    assert expected_samples(sampler, moments) == pytest.approx(8000, rel=1e-3)
    assert expected_samples(sampler, Moments(10, np.zeros((1, 1)), np.ones((1, 1)))) is None
    assert expected_samples(PlainTruth(5000), moments) == 5000


@pytest.mark.parametrize("asked", [0, -1, 1e-9, 2, float("nan")])
def test_an_impossible_standard_error_is_refused(asked: float) -> None:
    with pytest.raises(ConfigError, match=r"truth\.standard_error"):
        build_target(PlainTruth, {"n_samples": 10, "standard_error": asked}, "truth")
