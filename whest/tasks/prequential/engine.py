"""What carries a learner through the stream: its traced programs, or, for a reference, its own host code."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Float, UInt8

from whest.learner import nats, tokens_of
from whest.meter import Cost
from whest.programs import Leaves, Programs
from whest.scoring.prism import NATS_OF_UNIFORM

Batch = UInt8[np.ndarray, "row time"]
Losses = Float[np.ndarray, " row"]
NOTHING = Cost(())


class Engine(Protocol):
    """A learner at its place in the stream."""

    rows_per_step: int
    update_cost: Cost
    forward_cost: Cost
    compile_time_s: float

    def begin(self, seed: int) -> None:
        """The forced start."""

    def losses(self, batch: Batch) -> Any:
        """Mean nats a byte of each row, as the learner is now; may still be on its way."""

    def learn(self, batch: Batch) -> None: ...

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]: ...


class TracedEngine:
    """The loss is one program, the update another: what is charged is settled before anything is learnt."""

    def __init__(self, programs: Programs) -> None:
        self.rows_per_step = programs.rows_per_step
        self.update_cost, self.forward_cost = programs.update_cost, programs.forward_cost
        self.compile_time_s = 0.0
        self._programs = programs
        self._state: Leaves = []
        self._forward: Any = jax.jit(self._predict)
        self._loss: Any = jax.jit(self._row_losses)
        everything = tuple(range(len(programs.init.out_avals)))
        self._update: Any = jax.jit(jaxpr_as_fun(programs.update), donate_argnums=everything)

    def begin(self, seed: int) -> None:
        started = time.perf_counter()
        self._state = [jnp.array(leaf, copy=True) for leaf in self._programs.start(seed)]
        jax.block_until_ready(self._state)
        self.compile_time_s += time.perf_counter() - started

    def compile(self, batch: Batch) -> None:
        """Both programs, before anything is timed."""
        started = time.perf_counter()
        params = self._programs.params(self._state)
        self._loss = self._loss.lower(params, batch).compile()
        self._update = self._update.lower(*self._state, batch).compile()
        self.compile_time_s += time.perf_counter() - started

    def losses(self, batch: Batch) -> Any:
        return self._loss(self._programs.params(self._state), batch)

    def learn(self, batch: Batch) -> None:
        self._state = list(self._update(*self._state, batch))

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]:
        return np.asarray(self._forward(self._programs.params(self._state), tokens_of(jnp.asarray(batch))))

    def logits_of(self, params: Sequence[Any], tokens: Any) -> Float[np.ndarray, "row time 256"]:
        return np.asarray(self._forward(list(params), tokens))

    @property
    def params(self) -> Leaves:
        return self._programs.params(self._state)

    def _predict(self, params: Leaves, tokens: Any) -> Any:
        (logits,) = jaxpr_as_fun(self._programs.logits)(*params, tokens)
        return logits.astype(jnp.float32)

    def _row_losses(self, params: Leaves, batch: Any) -> Any:
        """Summed as differences from uniform, so that a long row loses nothing to rounding."""
        differences = nats(self._predict(params, tokens_of(batch)), batch) - NATS_OF_UNIFORM
        return differences.mean(axis=1) + NATS_OF_UNIFORM


class HostEngine:
    """A reference whose work nobody counts: it is listed, and never ranked."""

    def __init__(self, learner: Any) -> None:
        self.rows_per_step: int = learner.rows_per_step
        self.update_cost = self.forward_cost = NOTHING
        self.compile_time_s = 0.0
        self._learner = learner

    def begin(self, seed: int) -> None:
        self._learner.begin()

    def losses(self, batch: Batch) -> Losses:
        log_probabilities = self.logits(batch)
        own = np.take_along_axis(log_probabilities, batch[..., None].astype(np.int64), axis=-1)
        return -own[..., 0].mean(axis=1)

    def learn(self, batch: Batch) -> None:
        self._learner.learn(batch)

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]:
        return np.asarray(self._learner.log_probabilities(batch))
