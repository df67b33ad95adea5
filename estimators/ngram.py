"""An adaptive n-gram on the host: a reference that shows what counting alone gives. It is listed but never ranked.

    p_k(b) = (c_k(b) + w_k·p_{k−1}(b)) / (N_k + w_k),   p_0 uniform

It learns every byte as soon as the byte is coded, which a learner in batches can't do. Its dictionaries are on the
host, where no FLOPs are counted. So it can't be ranked with the others.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Float, UInt8
from pydantic import Field

from whest.learner import N_BYTES

Counts = dict[bytes, np.ndarray]


@dataclass
class NGram:
    is_reference: ClassVar[bool] = True
    """It works on the host, where FLOPs are not counted."""

    order: Annotated[int, Field(ge=0, le=16)]
    weight: Annotated[float, Field(gt=0)]
    """w_k: the weight of the shorter context, in counts."""
    rows_per_step: Annotated[int, Field(ge=1)] = 1
    tables: list[Counts] = field(default_factory=list, init=False)
    past: bytes = field(default=b"", init=False)

    def begin(self) -> None:
        self.tables = [defaultdict(lambda: np.zeros(N_BYTES, np.float32)) for _ in range(self.order + 1)]
        self.past = b""

    def log_probabilities(self, batch: UInt8[np.ndarray, "row time"]) -> Float[np.ndarray, "row time 256"]:
        """Log-probabilities of each next byte. Counts grow within the batch and are reset at its end."""
        stream, past = batch.tobytes(), self.past
        rows = []
        for place in range(len(stream)):
            rows.append(np.log(self._predict(past)))
            self._add(past, stream[place], 1.0)
            past = (past + stream[place : place + 1])[-self.order :] if self.order else b""
        self._take_back(stream)
        return np.array(rows).reshape(*batch.shape, N_BYTES)

    def learn(self, batch: UInt8[np.ndarray, "row time"]) -> None:
        for byte in batch.tobytes():
            self._add(self.past, byte, 1.0)
            self.past = (self.past + bytes([byte]))[-self.order :] if self.order else b""

    def _predict(self, past: bytes) -> Float[np.ndarray, " 256"]:
        probabilities = np.full(N_BYTES, 1 / N_BYTES)
        for order in range(min(self.order, len(past)) + 1):
            counts = self.tables[order].get(past[len(past) - order :])
            if counts is None:
                break
            probabilities = (counts + self.weight * probabilities) / (counts.sum() + self.weight)
        return probabilities

    def _add(self, past: bytes, byte: int, amount: float) -> None:
        for order in range(min(self.order, len(past)) + 1):
            self.tables[order][past[len(past) - order :]][byte] += amount

    def _take_back(self, stream: bytes) -> None:
        past = self.past
        for place in range(len(stream)):
            self._add(past, stream[place], -1.0)
            past = (past + stream[place : place + 1])[-self.order :] if self.order else b""
