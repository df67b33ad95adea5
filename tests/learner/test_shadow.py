"""From nothing: a learner's shadow, which reads random bytes, must not know the text. And what an update is told."""

import numpy as np
import pytest

from tests.support.prequential import scored, task_of, text_of
from whest.isolation.learner import read_flat, written_programs
from whest.learner.contract import create_learner
from whest.learner.programs import LearnerError, flatten_learner, trace_programs
from whest.learner.shadow import known_words, knows_text, random_updates
from whest.progress import SilentProgress

N_STEPS = 512
LETTERS = text_of(b"a" * (N_STEPS * 2 * 64))
"""8 updates per block. An honest learner is soon sure of the next byte; its shadow never is."""


def test_an_honest_learner_passes_however_much_is_repeated() -> None:
    scores = [scored(task_of("Bigram", LETTERS, random_updates=share)) for share in (1 / 16, 1)]
    assert scores[0].failure is None
    assert scores[0].score == scores[1].score


@pytest.mark.parametrize(
    ("learner", "after", "share"),
    [
        ("Waits", 1, 1 / 16),
        ("Waits", 300, 1 / 16),
        ("WritesLater", 300, 1 / 16),
        ("WritesOnce", 300, 1),
        ("CountsInWeights", 30, 1 / 16),
        ("CountsInWeights", 300, 1),
    ],
)
def test_a_counter_in_the_state_does_not_hide_knowledge(learner: str, after: int, share: float) -> None:
    score = scored(task_of(learner, LETTERS, budget=1e12, random_updates=share, after=after))
    assert score.score is None
    assert score.failure is not None
    assert "read random bytes instead of the text needs" in score.failure


def test_what_remains_possible_is_what_the_documents_say() -> None:
    """Knowledge that is used only after text was seen, by a counter among the weights (docs/learners.md)."""
    assert scored(task_of("RecognisesText", LETTERS, budget=1e12, random_updates=1)).failure is None


def test_updates_are_repeated_up_to_each_check() -> None:
    assert random_updates(-1, 5, 1.0).tolist() == [0, 1, 2, 3, 4, 5]
    assert random_updates(5, 9, 1.0).tolist() == [6, 7, 8, 9]
    assert random_updates(0, 64, 1 / 16).tolist() == [1, 22, 43, 64]
    assert random_updates(5, 6, 1 / 16).tolist() == [6]


def test_what_is_no_number_knows_nothing() -> None:
    assert not knows_text(float("nan"))
    assert not knows_text(np.log(256))
    assert knows_text(0.49 * np.log(256))
    assert known_words(np.log(4), 7).startswith("after update 7, a copy of the learner")
    assert "needs 2 bits per byte of text, which is below 4" in known_words(np.log(4), 7)


# What is left


def test_update_is_told_what_is_left() -> None:
    """From 1 at the first update to 1/n at the last."""
    task = task_of("TakesTime", LETTERS, budget=1e12)
    with task._opened() as (engine, _):
        *_, last = task._blocks(engine, SilentProgress())
        told = np.asarray(engine._state[-1])
    assert last.closing is not None
    np.testing.assert_allclose(told, 1 - np.arange(N_STEPS) / N_STEPS, rtol=1e-6)


def test_only_a_learner_that_asks_has_one_more_input() -> None:
    for name, more in (("Bigram", 0), ("TakesTime", 1)):
        task = task_of(name)
        learner = create_learner(task.estimator, task.context)
        programs = trace_programs(flatten_learner(learner), task.context)
        document, arrays = written_programs(programs)
        assert ("time_left" in document, len(programs.update.in_avals)) == (
            bool(more),
            len(programs.init.out_avals) + 1 + more,
        )
        again = trace_programs(read_flat(document, arrays), task.context)
        assert again.asks_time_left is bool(more)
        assert again.update_cost == programs.update_cost


@pytest.mark.parametrize(("told", "words"), [(1, "time_left is true or left out"), (False, "could not be traced")])
def test_a_document_that_lies_about_it_is_refused(told: object, words: str) -> None:
    task = task_of("TakesTime")
    programs = trace_programs(flatten_learner(create_learner(task.estimator, task.context)), task.context)
    document, arrays = written_programs(programs)
    with pytest.raises(LearnerError, match=words):
        trace_programs(read_flat({**document, "time_left": told}, arrays), task.context)
