"""The contract of a truth sampler: unbiased, with honest error bars, and the same bits however often it is stopped.

    class TestMine(SamplerContract):
        subjects = {"mine": MyTruth}

Each subject is the class; the contract chooses `n_samples` and `standard_error`.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.contracts.contract import Contract
from tests.support.estimators import draw
from whest.mlp import MLP
from whest.truth.truth import Running, Truth, TruthSampler

Sampler = type[Any]
N_STREAMS = 300


class Drawn(NamedTuple):
    """A stream to its end."""

    mlp: MLP
    sampler: TruthSampler
    steps: list[Running]


def sample(sampler: TruthSampler, mlp: MLP) -> Truth:
    *_, last = sampler.stream(mlp)
    return last.truth()


def first_layer_means(mlp: MLP) -> np.ndarray:
    """E[relu(x·w)] = ‖w‖/√(2π) for x ~ N(0, I)."""
    return np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0) / np.sqrt(2 * np.pi)


def assert_within_six_errors(truth: Truth, layer: int, expected: np.ndarray) -> None:
    """1e-6 is float32's share; a sampler that knows a layer exactly claims no error there."""
    distance = np.abs(truth.means[layer].astype(np.float64) - expected)
    assert (distance <= 6 * truth.standard_errors[layer] + 1e-6).all()


def assert_same(first: Truth, second: Truth) -> None:
    """Bit for bit."""
    np.testing.assert_array_equal(first.means, second.means)
    np.testing.assert_array_equal(first.standard_errors, second.standard_errors)
    assert (first.avg_variance, first.n_samples) == (second.avg_variance, second.n_samples)


class SamplerContract(Contract):
    """The subjects are classes of samplers. `drawn` is one stream that several tests look at."""

    @pytest.fixture(scope="class")
    @classmethod
    def drawn(cls, subject: Sampler) -> Iterator[Drawn]:
        """Small blocks, and chunks of 32,768 rows at width 32: the stream has several steps."""
        mlp, sampler = draw(8, 32, 2), subject(100_000)
        with pytest.MonkeyPatch.context() as patch:
            for module in (subject.__module__, "whest.truth.plan"):
                patch.setattr(sys.modules[module], "BLOCK_SAMPLES", 8192, raising=False)
            yield Drawn(mlp, sampler, list(sampler.stream(mlp)))

    def test_it_says_who_it_is(self, subject: Sampler) -> None:
        sampler = subject(500)
        assert sampler.name
        assert sampler.version >= 1
        assert (sampler.n_samples, sampler.standard_error, sampler.resample) == (500, None, False)

    def test_one_neuron_agrees_with_its_closed_form(self, subject: Sampler) -> None:
        mlp = draw(11, 1, 1)
        truth = sample(subject(40_000), mlp)
        assert truth.means.shape == truth.standard_errors.shape == (1, 1)
        assert truth.n_samples >= 40_000
        assert_within_six_errors(truth, 0, first_layer_means(mlp))

    def test_every_measured_step_agrees_with_the_first_layers_closed_form(self, drawn: Drawn) -> None:
        assert drawn.steps[-1].is_measured
        assert drawn.steps[-1].truth().n_samples >= drawn.sampler.n_samples
        for truth in (step.truth() for step in drawn.steps if step.is_measured):
            assert truth.means.shape == truth.standard_errors.shape == (drawn.mlp.depth, drawn.mlp.width)
            assert truth.means.dtype == truth.standard_errors.dtype == np.float32
            assert_within_six_errors(truth, 0, first_layer_means(drawn.mlp))

    def test_the_spread_over_independent_streams_is_the_standard_error(self, subject: Sampler) -> None:
        """s²/SE² over K streams is χ²/(K − 1): 1 ± √(2/(K − 1)). A layer that claims no error must have no spread."""
        mlp = draw(5, 6, 3)
        streams = [np.random.SeedSequence(900, spawn_key=(i,)) for i in range(N_STREAMS)]
        draws = [sample(subject(500), replace(mlp, sample_stream=stream)) for stream in streams]
        spread = np.var([truth.means for truth in draws], axis=0, ddof=1, dtype=np.float64)
        claimed = np.mean([np.square(truth.standard_errors, dtype=np.float64) for truth in draws], axis=0)
        alive = claimed > 0
        assert alive[1:].any()
        assert (spread[~alive] < 1e-12).all()
        assert (np.abs(spread[alive] / claimed[alive] - 1) < 6 * np.sqrt(2 / (N_STREAMS - 1))).all()
        off = np.mean([truth.means[0] for truth in draws], axis=0, dtype=np.float64) - first_layer_means(mlp)
        assert (np.abs(off) < 6 * np.sqrt(claimed[0] / N_STREAMS) + 1e-6).all()

    def test_drawing_twice_gives_the_same_numbers_and_another_stream_gives_others(self, drawn: Drawn) -> None:
        first = drawn.steps[-1].truth()
        assert_same(sample(drawn.sampler, drawn.mlp), first)
        other = replace(drawn.mlp, sample_stream=np.random.SeedSequence(901))
        assert not np.array_equal(sample(drawn.sampler, other).means, first.means)

    def test_sampling_goes_on_until_the_error_bar_is_small_enough(self, subject: Sampler) -> None:
        mlp, aim = draw(5, 64, 3), 0.004
        *before, last = subject(2, standard_error=aim).stream(mlp)
        assert last.is_measured
        assert last.truth().floor_mse <= aim**2
        assert all(running.truth().floor_mse > aim**2 for running in before if running.is_measured)

    def test_a_stream_goes_on_from_any_of_its_states(self, drawn: Drawn) -> None:
        """The state it was given comes first; then the same numbers bit for bit."""
        counts = [step.n_samples for step in drawn.steps]
        assert len(counts) > 1
        assert counts == sorted(set(counts))
        for index, step in enumerate(drawn.steps):
            resumed = list(drawn.sampler.stream(drawn.mlp, step.state()))
            assert [each.n_samples for each in resumed] == counts[index:]
            ended = resumed[-1].state()
            for name, value in drawn.steps[-1].state().items():
                np.testing.assert_array_equal(ended[name], value)
            assert_same(resumed[-1].truth(), drawn.steps[-1].truth())
