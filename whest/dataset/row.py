"""The rows of a dataset (one MLP each), the sources of their weights, and the digest of their content."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from jaxtyping import Float

from whest.mlp import Streams, draw_weights
from whest.truth.moments import LayerMoments
from whest.truth.truth import Truth


@dataclass(frozen=True)
class Row:
    """One MLP of a dataset. `index` is its place in the whole dataset, also in a selection."""

    index: int
    mlp_seed: int
    name: str
    streams: Streams
    truth: Truth | None = None


class WeightSource(Protocol):
    """A source of the weights of a dataset's rows."""

    def weights(self, row: Row, width: int, depth: int) -> Float[np.ndarray, "depth width width"]: ...

    def fingerprint(self, row: Row) -> bytes:
        """Bytes that identify the weights; empty if the row's seed determines them."""
        ...

    def moments(self, row: Row) -> LayerMoments | None:
        """Stored moments of the layers; None if there are none. They are read when they are used."""
        ...


class KeptWeights:
    """Weights that the jobs of one process share: a sweep draws each MLP once, not once per job."""

    def __init__(self) -> None:
        self._room, self._kept = 0, dict[tuple[object, ...], np.ndarray]()
        self._made: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def keep(self, n_bytes: int = 2**28) -> None:
        """Keep weights from now on, until this many bytes are full; with 0, forget them."""
        self._room, self._kept, self._made = n_bytes, {}, {}

    def draw(self, stream: np.random.SeedSequence, width: int, depth: int) -> Float[np.ndarray, "depth width width"]:
        key = (str(stream.entropy), stream.spawn_key, width, depth)
        if key in self._kept:
            return self._kept[key]
        weights = draw_weights(stream, width, depth)
        if weights.nbytes <= self._room:
            weights.flags.writeable = False
            self._kept[key] = weights
            self._room -= weights.nbytes
        return weights

    def made_of(self, weights: np.ndarray, given: np.ndarray, make: Callable[..., np.ndarray]) -> np.ndarray:
        """`make(weights, given)`, made once for kept weights and an array of the same values."""
        known = self._made.get(id(weights))
        if known is not None and known[0] is weights and np.array_equal(known[1], given):
            return known[2]
        made = make(weights, given)
        if made.nbytes + given.nbytes <= self._room and not weights.flags.writeable:
            made.flags.writeable = False
            self._room -= 0 if known is not None else made.nbytes + given.nbytes
            self._made[id(weights)] = (
                weights,
                given.copy(),
                made,
            )  # while the weights are held, no other array has their id
        return made


KEPT = KeptWeights()


@dataclass(frozen=True)
class DrawnWeights:
    """Weights that are drawn again from the row's own stream, unless this process keeps them."""

    def weights(self, row: Row, width: int, depth: int) -> Float[np.ndarray, "depth width width"]:
        return KEPT.draw(row.streams.weights, width, depth)

    def fingerprint(self, row: Row) -> bytes:
        return b""

    def moments(self, row: Row) -> LayerMoments | None:
        return None


@dataclass(frozen=True)
class ShiftedWeights:
    """Weights of another source, for rows whose index 0 is its row `first`."""

    source: WeightSource
    first: int

    def weights(self, row: Row, width: int, depth: int) -> Float[np.ndarray, "depth width width"]:
        return self.source.weights(self._there(row), width, depth)

    def fingerprint(self, row: Row) -> bytes:
        return self.source.fingerprint(self._there(row))

    def moments(self, row: Row) -> LayerMoments | None:
        return self.source.moments(self._there(row))

    def _there(self, row: Row) -> Row:
        return replace(row, index=row.index + self.first)


class ContentDigest:
    """sha256 of a dataset's content, row by row. It does not depend on dates, paths or compression."""

    def __init__(self, width: int, depth: int, protocol_version: str) -> None:
        self._sha256 = hashlib.sha256(json.dumps([width, depth, protocol_version]).encode())

    def add(self, row: Row, fingerprint: bytes) -> None:
        """Add a row: its numbers as JSON, its arrays as bytes. The shape fixes the lengths, so no two rows collide."""
        truth = row.truth
        drawn = [truth.n_samples, truth.avg_variance, truth.n_replicates] if truth is not None else None
        self._sha256.update(json.dumps([row.index, row.mlp_seed, row.name, drawn, len(fingerprint)]).encode())
        if truth is not None:
            self._sha256.update(truth.means.tobytes() + truth.standard_errors.tobytes())
        self._sha256.update(fingerprint)

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()
