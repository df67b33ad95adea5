"""A learner's programs, compiled and carried through a stream: the same code in this process and in a worker."""

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, UInt8

from whest.learner.contract import nats, tokens_of
from whest.learner.probe import check_causality, expectations
from whest.learner.programs import Leaves, Programs
from whest.learner.shadow import advanced
from whest.metering.internals import jaxpr_as_fun

Batch = UInt8[np.ndarray, "row time"]
Batches = UInt8[np.ndarray, "batch row time"]
Losses = Float[np.ndarray, "batch row"]
"""Mean nats per byte of each row, in float64."""


class TracedEngine:
    """The loss is one program, the update another: what is charged is settled before anything is learnt."""

    def __init__(self, programs: Programs) -> None:
        self.rows_per_step = programs.rows_per_step
        self.update_cost, self.forward_cost = programs.update_cost, programs.forward_cost
        self.constant_bytes = programs.constant_bytes
        self.compile_time_s = 0.0
        self.programs = programs
        self._state: Leaves = []
        self._shadow: Leaves = []
        self._forward: Any = jax.jit(self._predict)
        self._loss: Any = jax.jit(self._byte_charges)
        self._charge: Any = jax.jit(self._checked_charges)
        everything = tuple(range(len(programs.init.out_avals)))
        self._update: Any = jax.jit(jaxpr_as_fun(programs.update), donate_argnums=everything)

    def begin(self, seed: int, batch: Batch) -> None:
        """The forced start; then the programs are compiled, before anything is timed."""
        started = time.perf_counter()
        start = self.programs.start(seed)
        self._state, self._shadow = ([jnp.array(leaf, copy=True) for leaf in start] for _ in range(2))
        jax.block_until_ready(self._state)
        self._charge = self._charge.lower(self._params, batch, batch, np.zeros(len(batch), np.int32)).compile()
        self._update = self._update.lower(*self._state, batch, *self.programs.told(1.0)).compile()
        self.compile_time_s += time.perf_counter() - started

    def probe(self, batch: Batch, seed: int, with_noise: bool) -> None:
        """Refuse a learner that looks ahead or at other rows."""
        check_causality(
            lambda params, tokens: np.asarray(self._forward(params, tokens)), self._params, batch, seed, with_noise
        )

    def losses(self, batches: Batches) -> Losses:
        """The charges of text that is only read."""
        return row_means([self._loss(self._params, batch) for batch in batches], batches)

    def steps(
        self,
        batches: Batches,
        others: Batches,
        places: Int[np.ndarray, "batch row"],
        time_left: Float[np.ndarray, " batch"],
    ) -> tuple[Losses, Float[np.ndarray, " batch"]]:
        """Charge each batch, check it against a splice of each row with another one at a place, then learn it."""
        charges, moved = [], []
        for batch, other, ends, left in zip(batches, others, places, time_left, strict=True):
            charge, distance = self._charge(self._params, batch, other, ends.astype(np.int32))
            charges.append(charge)
            moved.append(distance)
            self._state = list(self._update(*self._state, batch, *self.programs.told(left)))
        jax.block_until_ready(self._state)
        return row_means(charges, batches), np.array([float(distance) for distance in moved])

    def shadow(self, noise: Batches, text: Batches, time_left: Float[np.ndarray, " batch"]) -> Losses:
        """The charges of text for the state that learns noise alone, after it has learnt this."""
        lessons = ((batch, *self.programs.told(left)) for batch, left in zip(noise, time_left, strict=True))
        self._shadow = advanced(self._shadow, self._state, self._update, lessons)
        params = self.programs.params(self._shadow)
        return row_means([self._loss(params, batch) for batch in text], text)

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]:
        return self._logits_of(self._params, tokens_of(jnp.asarray(batch)))

    def _logits_of(self, params: Leaves, tokens: Any) -> Float[np.ndarray, "row time 256"]:
        return np.asarray(self._forward(params, tokens))

    def close(self) -> None:
        """Nothing to end: the state goes with this object."""

    @property
    def _params(self) -> Leaves:
        return self.programs.params(self._state)

    def _predict(self, params: Leaves, tokens: Any) -> Any:
        (logits,) = jaxpr_as_fun(self.programs.logits)(*params, tokens)
        return logits.astype(jnp.float32)

    def _byte_charges(self, params: Leaves, batch: Any) -> Any:
        return byte_charges(self._predict(params, tokens_of(batch)), batch)

    def _checked_charges(self, params: Leaves, batch: Any, other: Any, ends: Any) -> tuple[Any, Any]:
        """The charges, and how far a prediction moves if each row goes on otherwise from a place of its own.

        One place for all rows would not show a row that looks at the same places of a later one.
        """
        logits = self._predict(params, tokens_of(batch))
        place = jnp.arange(batch.shape[1])
        again = self._predict(params, tokens_of(jnp.where(place < ends[:, None], batch, other)))
        seen = (place <= ends[:, None])[:, :, None] & jnp.isfinite(logits).all(-1, keepdims=True)
        distance = jnp.where(seen, jnp.abs(expectations(logits) - expectations(again)), 0.0)
        return byte_charges(logits, batch), jnp.max(jnp.nan_to_num(distance, nan=jnp.inf))


def byte_charges(logits: Any, batch: Any) -> Any:
    """Nats of each byte, never below zero.

    log Σ exp(z) ≥ max z ≥ z_own, so the exact figure is never negative. The clamp only removes what `exp` and `log` in
    float32 round below zero. What isn't a number stays so.
    """
    return jnp.maximum(nats(logits, batch), 0.0)


def row_means(charges: Sequence[Any], batches: Batches) -> Losses:
    """Means over a row's bytes, in float64: they are negative only if a charge is, and a long row loses nothing."""
    if not len(batches):
        return np.zeros(batches.shape[:2])
    return np.stack([np.asarray(charge, np.float64).mean(axis=1) for charge in charges])
