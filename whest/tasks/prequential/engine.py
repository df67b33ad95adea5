"""Engines run a learner through the stream: with its traced programs, or, for a reference, with its own host code."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Float, UInt8

from whest.cost import Cost
from whest.learner.contract import nats, tokens_of
from whest.learner.programs import Leaves, Programs
from whest.scoring.prism import NATS_OF_UNIFORM

Batch = UInt8[np.ndarray, "row time"]
Losses = Float[np.ndarray, " row"]
NOTHING = Cost(())
LEAST_EXPECTED = -30.0
"""In nats. Smaller log-probabilities are treated as equal."""


class Engine(Protocol):
    """A learner and its present state in the stream."""

    rows_per_step: int
    update_cost: Cost
    forward_cost: Cost
    compile_time_s: float

    def begin(self, seed: int) -> None:
        """Start from random numbers that the harness draws."""

    def losses(self, batch: Batch) -> Any:
        """Mean nats per byte of each row, with the present state. JAX may still be computing them."""

    def charged(self, batch: Batch, other: Batch, place: int) -> tuple[Any, Any]:
        """The same losses, and the largest change of a prediction up to `place` if the rows continue as `other`."""

    def learn(self, batch: Batch) -> None: ...

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]: ...


class TracedEngine:
    """Runs traced programs. The loss and the update are separate: the loss is fixed before the batch is learnt."""

    def __init__(self, programs: Programs) -> None:
        self.rows_per_step = programs.rows_per_step
        self.update_cost, self.forward_cost = programs.update_cost, programs.forward_cost
        self.compile_time_s = 0.0
        self._programs = programs
        self._state: Leaves = []
        self._forward: Any = jax.jit(self._predict)
        self._loss: Any = jax.jit(self._row_losses)
        self._charge: Any = jax.jit(self._charged_losses)
        everything = tuple(range(len(programs.init.out_avals)))
        self._update: Any = jax.jit(jaxpr_as_fun(programs.update), donate_argnums=everything)

    def begin(self, seed: int) -> None:
        started = time.perf_counter()
        self._state = [jnp.array(leaf, copy=True) for leaf in self._programs.start(seed)]
        jax.block_until_ready(self._state)
        self.compile_time_s += time.perf_counter() - started

    def compile(self, batch: Batch) -> None:
        """Compile the programs, so that compiling is not part of the measured time."""
        started = time.perf_counter()
        params = self._programs.params(self._state)
        self._charge = self._charge.lower(params, batch, batch, np.int32(0)).compile()
        self._update = self._update.lower(*self._state, batch).compile()
        self.compile_time_s += time.perf_counter() - started

    def losses(self, batch: Batch) -> Any:
        return self._loss(self._programs.params(self._state), batch)

    def charged(self, batch: Batch, other: Batch, place: int) -> tuple[Any, Any]:
        losses, moved = self._charge(self._programs.params(self._state), batch, other, np.int32(place))
        return losses, moved

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
        """The losses of the rows, summed as differences from uniform to avoid rounding errors in long rows."""
        return _mean_losses(self._predict(params, tokens_of(batch)), batch)

    def _charged_losses(self, params: Leaves, batch: Any, other: Any, place: Any) -> tuple[Any, Any]:
        logits = self._predict(params, tokens_of(batch))
        spliced = jnp.where(jnp.arange(batch.shape[1]) < place, batch, other)
        again = self._predict(params, tokens_of(spliced))
        seen = (jnp.arange(batch.shape[1]) <= place)[None, :, None] & jnp.isfinite(logits).all(-1, keepdims=True)
        distance = jnp.where(seen, jnp.abs(expectations(logits) - expectations(again)), 0.0)
        return _mean_losses(logits, batch), jnp.max(jnp.nan_to_num(distance, nan=jnp.inf))


def _mean_losses(logits: Any, batch: Any) -> Any:
    differences = nats(logits, batch) - NATS_OF_UNIFORM
    return differences.mean(axis=1) + NATS_OF_UNIFORM


def expectations(logits: Any) -> Any:
    """Log-probabilities, cut at LEAST_EXPECTED: changes of very unlikely bytes don't count."""
    return jnp.maximum(jax.nn.log_softmax(logits - logits.max(axis=-1, keepdims=True)), LEAST_EXPECTED)


class HostEngine:
    """Runs a reference, whose work on the host is not counted: it is listed but never ranked."""

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

    def charged(self, batch: Batch, other: Batch, place: int) -> tuple[Losses, float]:
        return self.losses(batch), 0.0

    def learn(self, batch: Batch) -> None:
        self._learner.learn(batch)

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]:
        return np.asarray(self._learner.log_probabilities(batch))
