"""byte_recall: it starts knowing nothing, looks only back, and learns to copy; tiny, so that it takes a second."""

from functools import partial

import jax
import numpy as np
import pytest

from estimators.byte_recall import ByteRecall
from whest.build import build_target
from whest.errors import ConfigError
from whest.learner import LearnerContext, affordable_steps, mean_nats, tokens_of

KNOBS = {"rows_per_step": 8, "width": 16, "depth": 1, "heads": 2, "hidden": 32, "learning_rate": 2e-2}
SCHEDULE = {"final_rate": 0.1, "warmup": 0.05}


@pytest.fixture(scope="module")
def learner() -> ByteRecall:
    made: ByteRecall = build_target(ByteRecall, KNOBS | SCHEDULE, "estimator")
    made.setup(LearnerContext(10**9, 12, 10**9, 0))
    return made


def batch(seed: int) -> np.ndarray:
    """Six letters, twice."""
    half = np.random.default_rng(seed).integers(97, 101, (8, 6), dtype=np.uint8)
    return np.concatenate([half, half], axis=1)


def test_it_starts_at_eight_bits_and_looks_only_back(learner: ByteRecall) -> None:
    state = jax.jit(learner.init)(jax.random.key(0))
    assert float(jax.jit(partial(mean_nats, learner))(state.params, batch(0))) == pytest.approx(np.log(256), rel=1e-6)
    params = state.params | {"output": jax.random.normal(jax.random.key(1), state.params["output"].shape)}
    tokens = np.asarray(tokens_of(batch(0)))
    changed = tokens.copy()
    changed[:, 7:] = 0
    logits = jax.jit(learner.logits)
    before, after = logits(params, tokens), logits(params, changed)
    np.testing.assert_allclose(before[:, :7], after[:, :7], atol=1e-5)
    assert not np.allclose(before[:, 7:], after[:, 7:])


def test_it_learns_to_copy(learner: ByteRecall) -> None:
    """Four letters at random are two bits each; a row's second half can be had for less."""
    state, update = jax.jit(learner.init)(jax.random.key(0)), jax.jit(learner.update)
    for step in range(300):
        state = update(state, batch(step))
    held_out = batch(10_000)
    logits = jax.jit(learner.logits)(state.params, tokens_of(held_out))
    guessed = np.asarray(logits).argmax(axis=-1) == held_out
    assert guessed[:, 7:].mean() > 0.6
    assert guessed[:, :6].mean() < 0.5


def test_its_schedule_ends_with_the_budget(learner: ByteRecall) -> None:
    assert learner.n_steps == affordable_steps(learner, LearnerContext(10**9, 12, 10**9, 0))


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"estimator\.width=18 must be a multiple of 2·estimator\.heads=4"):
        build_target(ByteRecall, KNOBS | SCHEDULE | {"width": 18}, "estimator")
