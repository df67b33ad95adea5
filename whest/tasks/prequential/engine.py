"""Engines run a learner through the stream: with its programs, here or in a worker, or with a reference's host code."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int

from whest.cost import Cost
from whest.learner.engine import Batch, Batches, Losses, row_means

NOTHING = Cost(())


class Engine(Protocol):
    """A learner and its present state in the stream: `TracedEngine`, `WorkerEngine` or `HostEngine`."""

    rows_per_step: int
    update_cost: Cost
    forward_cost: Cost
    compile_time_s: float

    def begin(self, seed: int, batch: Batch) -> None:
        """Start from random numbers that the harness draws, and compile for batches of this shape."""

    def probe(self, batch: Batch, seed: int, with_noise: bool) -> None:
        """Refuse a learner that looks ahead or at other rows."""

    def losses(self, batches: Batches) -> Losses:
        """Mean nats per byte of each row, with the present state."""

    def steps(
        self,
        batches: Batches,
        others: Batches,
        places: Int[np.ndarray, "batch row"],
        time_left: Float[np.ndarray, " batch"],
    ) -> tuple[Losses, Float[np.ndarray, " batch"]]:
        """For each batch in turn: its losses, then the update, which is told the share of the updates still to come.

        The second result is the largest change of a prediction up to `place` if the rows continue as `other`.
        """

    def shadow(self, noise: Batches, text: Batches, time_left: Float[np.ndarray, " batch"]) -> Losses:
        """The losses of text for a second state, which learns noise alone (`whest.learner.shadow`)."""

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]: ...

    def close(self) -> None: ...


class HostEngine:
    """Runs a reference, whose work on the host is not counted: it is listed but never ranked."""

    def __init__(self, learner: Any) -> None:
        self.rows_per_step: int = learner.rows_per_step
        self.update_cost = self.forward_cost = NOTHING
        self.compile_time_s = 0.0
        self._learner = learner

    def begin(self, seed: int, batch: Batch) -> None:
        self._learner.begin()

    def probe(self, batch: Batch, seed: int, with_noise: bool) -> None:
        """It is our own code, and codes each byte before it counts it."""

    def losses(self, batches: Batches) -> Losses:
        return row_means([self._charges(batch) for batch in batches], batches)

    def steps(
        self,
        batches: Batches,
        others: Batches,
        places: Int[np.ndarray, "batch row"],
        time_left: Float[np.ndarray, " batch"],
    ) -> tuple[Losses, Float[np.ndarray, " batch"]]:
        charges = []
        for batch in batches:
            charges.append(self._charges(batch))
            self._learner.learn(batch)
        return row_means(charges, batches), np.zeros(len(batches))

    def shadow(self, noise: Batches, text: Batches, time_left: Float[np.ndarray, " batch"]) -> Losses:
        """It is our own code, and brings nothing along."""
        return np.full(text.shape[:2], np.nan)

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]:
        return np.asarray(self._learner.log_probabilities(batch))

    def close(self) -> None:
        """Nothing to end."""

    def _charges(self, batch: Batch) -> Float[np.ndarray, "row time"]:
        own = np.take_along_axis(self.logits(batch), batch[..., None].astype(np.int64), axis=-1)[..., 0]
        return np.maximum(-own, 0.0)  # a log-probability may round above zero
