"""Training, in the process that never sees the exam. It gets the programs as data, the text, a seed and a budget.

Nothing here imports a learner. The harness draws the random numbers, calls `init` itself and counts the cost of an
update.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8

from whest.cases.exam import Question
from whest.learner.contract import LearnerContext, nats, tokens_of
from whest.metering.internals import jaxpr_as_fun
from whest.tasks.exam.process.answering import Answerer
from whest.tasks.exam.process.bundle import Bundle, pack, unpack
from whest.tasks.exam.process.programs import ExamPrograms

N_LOSSES = 60
"""Points of the training curve. Each is a forward pass of the harness, which costs no budget."""


@dataclass(frozen=True)
class Spent:
    """The result of a training call."""

    steps: int
    wall_time_s: float
    losses: tuple[tuple[int, float], ...]
    """The number of an update, and the bits per byte before it."""


class Rows:
    """Random rows of a text. Each begins at the start of a line."""

    def __init__(self, text: UInt8[np.ndarray, " byte"], rows: int, length: int, seed: int) -> None:
        starts = np.flatnonzero(np.concatenate([[True], text[:-1] == ord("\n")]))
        starts = starts[starts + length <= len(text)]
        self._text = text
        self._starts = starts if len(starts) > 1 else np.arange(max(1, len(text) - length + 1))
        self._offsets = np.arange(length)
        self._rows, self._random = rows, np.random.default_rng(seed)

    def draw(self) -> UInt8[np.ndarray, "row time"]:
        chosen = self._random.integers(len(self._starts), size=self._rows)
        return self._text[self._starts[chosen][:, None] + self._offsets]


class Training:
    """A model in training."""

    def __init__(
        self, programs: ExamPrograms, context: LearnerContext, text: UInt8[np.ndarray, " byte"], seed: int
    ) -> None:
        self._programs, learning = programs, programs.learning
        self._rows = Rows(text, learning.rows_per_step, context.row_length, seed)
        self._update = jax.jit(jaxpr_as_fun(learning.update))
        logits = jaxpr_as_fun(learning.logits)
        self._loss = jax.jit(
            lambda params, batch: nats(logits(*params, tokens_of(batch))[0], batch).mean() / math.log(2)
        )
        self._state = learning.start(seed)
        self.update_cost = learning.update_cost
        self.steps = 0
        self.first_bits = float(self._loss(self._params(), jnp.asarray(self._rows.draw())))

    @property
    def n_params(self) -> int:
        return sum(int(np.prod(leaf.shape)) for leaf in self._params())

    def _params(self) -> list[jax.Array]:
        return self._programs.learning.params(self._state)

    def train(self, n_steps: int | None, seconds: float | None) -> Spent:
        """Run `n_steps` updates, or as many as can be started within `seconds`."""
        started = time.monotonic()
        begun, losses = self.steps, []
        every = max(1, (n_steps or 10 * N_LOSSES) // N_LOSSES)
        while n_steps is None or self.steps - begun < n_steps:
            if seconds is not None:
                jax.block_until_ready(self._state)
                if time.monotonic() - started >= seconds:
                    break
            batch = jnp.asarray(self._rows.draw())
            if (self.steps - begun) % every == 0:
                losses.append((self.steps, float(self._loss(self._params(), batch))))
            self._state = self._update(*self._state, batch)
            self.steps += 1
        jax.block_until_ready(self._state)
        return Spent(self.steps - begun, time.monotonic() - started, tuple(losses))

    def package(self, learner: dict[str, object]) -> bytes:
        params = [np.asarray(leaf) for leaf in self._params()]
        return pack(Bundle(params, self._programs.answer, self._programs.answer_constants, learner))


def count_right(bundle: bytes, questions: Sequence[Question]) -> int:
    """The number of right answers on the public validation set. It is only feedback."""
    answerer = Answerer(unpack(bundle))
    return sum(answerer.answer(question).given == question.answer for question in questions)
