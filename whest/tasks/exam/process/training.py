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
from whest.learner.shadow import advanced, knows_text, n_tried_batches, random_batches, random_updates
from whest.metering.internals import jaxpr_as_fun
from whest.tasks.exam.process.answering import Answerer
from whest.tasks.exam.process.bundle import Bundle, pack, unpack
from whest.tasks.exam.process.programs import ExamPrograms

CHECKED_EVERY = 64
"""Updates per check of the shadow, which is at a place among them that nobody can know."""

N_LOSSES = 60
"""Points of the training curve. Each is a forward pass of the harness, which costs no budget."""


@dataclass(frozen=True)
class Spent:
    """The result of a training call."""

    steps: int
    wall_time_s: float
    losses: tuple[tuple[int, float], ...]
    """The number of an update, and the bits per byte before it."""
    known: tuple[int, float] | None = None
    """The update after which the learner's shadow knew the text, and the nats per byte. Training ends there."""


@dataclass(frozen=True)
class Left:
    """What is left of the budget when a call begins, of all that there was: updates, or seconds."""

    left: float
    total: float
    by_clock: bool

    def share(self, steps: int, elapsed_s: float) -> float:
        """Before the next update of the call."""
        return max(0.0, self.left - (elapsed_s if self.by_clock else steps)) / self.total


class Rows:
    """Random rows of a text. Each begins at the start of a line."""

    def __init__(self, text: UInt8[np.ndarray, " byte"], rows: int, length: int, seed: int | None) -> None:
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
        self,
        programs: ExamPrograms,
        context: LearnerContext,
        text: UInt8[np.ndarray, " byte"],
        seed: int,
        random_updates: float,
    ) -> None:
        self._programs, learning = programs, programs.learning
        self._rows = Rows(text, learning.rows_per_step, context.row_length, seed)
        self._secret = np.random.default_rng()  # no learner can know the places of the checks; no score depends on it
        self._tried = Rows(text, learning.rows_per_step, context.row_length, seed=None)
        self._random_updates, self._batch = random_updates, (learning.rows_per_step, context.row_length)
        self._update = jax.jit(jaxpr_as_fun(learning.update))
        logits = jaxpr_as_fun(learning.logits)
        self._loss = jax.jit(
            lambda params, batch: nats(logits(*params, tokens_of(batch))[0], batch).mean() / math.log(2)
        )
        self._state = learning.start(seed)
        self._shadow = list(self._state)
        self._last_check, self._next_check = -1, 0
        self.update_cost, self.constant_bytes = learning.update_cost, learning.constant_bytes
        self.steps = 0
        self.first_bits = float(self._loss(self._params(), jnp.asarray(self._rows.draw())))

    @property
    def n_params(self) -> int:
        return sum(int(np.prod(leaf.shape)) for leaf in self._params())

    def _params(self) -> list[jax.Array]:
        return self._programs.learning.params(self._state)

    def _checked(self, time_left: float) -> float | None:
        """Let the shadow learn random bytes and read text; the nats per byte if it knows text."""
        learning = self._programs.learning
        n_again = len(random_updates(self._last_check, self.steps, self._random_updates))
        noise = random_batches(self._secret, n_again, *self._batch)
        lessons = ((jnp.asarray(batch), *learning.told(time_left)) for batch in noise)
        self._shadow = advanced(self._shadow, self._state, self._update, lessons)
        self._last_check = self.steps
        params, n = learning.params(self._shadow), n_tried_batches(learning.rows_per_step)
        bits = [float(self._loss(params, jnp.asarray(self._tried.draw()))) for _ in range(n)]
        nats_per_byte = float(np.mean(bits)) * math.log(2)
        return nats_per_byte if knows_text(nats_per_byte) else None

    def train(self, n_steps: int | None, seconds: float | None, left: Left) -> Spent:
        """Run `n_steps` updates, or as many as can be started within `seconds`."""
        started, known = time.monotonic(), None
        begun, losses = self.steps, []
        every = max(1, (n_steps or 10 * N_LOSSES) // N_LOSSES)
        while n_steps is None or self.steps - begun < n_steps:
            if seconds is not None:
                jax.block_until_ready(self._state)
                if time.monotonic() - started >= seconds:
                    break
            if self.steps % CHECKED_EVERY == 0:
                self._next_check = self.steps + int(self._secret.integers(1, CHECKED_EVERY + 1))
            batch = jnp.asarray(self._rows.draw())
            if (self.steps - begun) % every == 0:
                losses.append((self.steps, float(self._loss(self._params(), batch))))
            share = left.share(self.steps - begun, time.monotonic() - started)
            self._state = self._update(*self._state, batch, *self._programs.learning.told(share))
            self.steps += 1
            if self.steps == self._next_check:
                found = self._checked(share)
                if found is not None:
                    known = self.steps, found
                    break
        jax.block_until_ready(self._state)
        return Spent(self.steps - begun, time.monotonic() - started, tuple(losses), known)

    def package(self, learner: dict[str, object]) -> bytes:
        params = [np.asarray(leaf) for leaf in self._params()]
        return pack(Bundle(params, self._programs.answer, self._programs.answer_constants, learner))


def count_right(bundle: bytes, questions: Sequence[Question]) -> int:
    """The number of right answers on the public validation set. It is only feedback."""
    answerer = Answerer(unpack(bundle))
    return sum(answerer.answer(question).given == question.answer for question in questions)
