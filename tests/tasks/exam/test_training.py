"""Training calls of an exam, in this process: what an update is told, and knowledge from before."""

import math
from typing import Any

import numpy as np
import pytest

from tests.support.byte_learners import Bigram, TakesTime, Waits
from whest.learner.contract import LearnerContext
from whest.tasks.exam.process.programs import read_programs, write_programs
from whest.tasks.exam.process.training import Left, Training

CONTEXT = LearnerContext(10**9, 16, 2**53, 3)
LINES = np.frombuffer((b"a" * 15 + b"\n") * 200, np.uint8)
N_STEPS = 400


def training(learner: Any, share: float = 1 / 16) -> Training:
    return Training(read_programs(*write_programs(learner, CONTEXT), CONTEXT), CONTEXT, LINES, 3, share)


def test_an_honest_learner_is_trained_to_the_end() -> None:
    spent = training(Bigram()).train(N_STEPS, None, Left(N_STEPS, N_STEPS, by_clock=False))
    assert (spent.steps, spent.known) == (N_STEPS, None)


@pytest.mark.parametrize("after", [1, 300])
def test_a_counter_does_not_hide_knowledge(after: int) -> None:
    spent = training(Waits(after=after)).train(N_STEPS, None, Left(N_STEPS, N_STEPS, by_clock=False))
    assert spent.known is not None
    step, nats = spent.known
    assert spent.steps == step < after + 2 * 64 + 1
    assert nats < 0.5 * math.log(256)


def test_an_update_is_told_what_is_left_over_all_calls() -> None:
    trained = training(TakesTime())
    for done in (0, 100):
        trained.train(100, None, Left(200 - done, 200, by_clock=False))
    told = np.asarray(trained._state[-1])[-200:]
    np.testing.assert_allclose(told, 1 - np.arange(200) / 200, rtol=1e-6)


def test_what_is_left_of_a_clock_is_seconds() -> None:
    left = Left(30.0, 60.0, by_clock=True)
    assert [left.share(9, elapsed_s) for elapsed_s in (0.0, 15.0, 31.0)] == [0.5, 0.25, 0.0]
