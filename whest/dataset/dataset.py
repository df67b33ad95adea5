"""Datasets: the MLPs of a run, and their stored truth if they have any.

A dataset is a short list of rows and a source of weights. Weights are drawn from the seeds or read from a file, and are
in memory only while they are used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Protocol, cast

from pydantic import Field

from whest.dataset.row import ContentDigest, DrawnWeights, Row, WeightSource
from whest.errors import ConfigError
from whest.mlp import MLP, SEED_PROTOCOL_NAMES, Version
from whest.truth.truth import Truth

Size = Annotated[int, Field(ge=1, le=65536)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Range = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1, le=1_000_000)]]


@dataclass(frozen=True)
class Dataset:
    """A selection of rows, and the facts that identify them."""

    name: str
    width: int
    depth: int
    protocol_version: str
    rows: tuple[Row, ...]
    seed: int | None = None
    path: str | None = None
    split: str | None = None
    source: WeightSource = field(default_factory=DrawnWeights)
    salt_digest: str | None = None
    sampler: str | None = None
    """The sampler of the stored truth with its version, e.g. "fast 2"; None if unknown."""
    standard_error: float | None = None
    """The standard error at which sampling stopped; None if a number of samples was set."""
    hidden: tuple[Path, ...] = ()
    """Files with the answers: an estimator's worker can't read them."""

    @property
    def n_mlps(self) -> int:
        return len(self.rows)

    @property
    def has_truth(self) -> bool:
        return all(row.truth is not None for row in self.rows)

    def __len__(self) -> int:
        return self.n_mlps

    def __iter__(self) -> Iterator[tuple[MLP, Truth | None]]:
        """Each MLP, made when it is needed, with its stored truth."""
        return ((self.mlp(row), self.truth(row)) for row in self.rows)

    def truth(self, row: Row) -> Truth | None:
        """The stored truth, with its moments if the dataset has them."""
        return None if row.truth is None else replace(row.truth, moments=self.source.moments(row))

    def mlp(self, row: Row) -> MLP:
        weights = self.source.weights(row, self.width, self.depth)
        return MLP(weights, row.streams.estimator_seed, row.name, row.streams.samples)

    @cached_property
    def sha256(self) -> str:
        """A digest of the content: weights (or the seeds and shape that determine them), means, errors and counts."""
        digest = ContentDigest(self.width, self.depth, self.protocol_version)
        for row in self.rows:
            digest.add(row, self.source.fingerprint(row))
        return digest.hexdigest()

    @property
    def n_samples(self) -> int | None:
        """The smallest number of samples of a row's truth; None if the dataset has no truth."""
        return min((row.truth.n_samples for row in self.rows if row.truth), default=None)

    def describe(self) -> dict[str, object]:
        """The report's `run_config.dataset`."""
        return {
            "name": self.name,
            "path": self.path,
            "sha256": self.sha256,
            "seed": self.seed,
            "n_mlps": self.n_mlps,
            "seed_protocol": {
                "name": SEED_PROTOCOL_NAMES[cast(Version, self.protocol_version)],
                "version": self.protocol_version,
            },
            "split": self.split,
            "n_samples": self.n_samples,
        }


class DatasetSource(Protocol):
    """A `conf/dataset` choice."""

    def load(self) -> Dataset: ...


def selected(name: str, total: int, range_: Range | None, n_mlps: int | None) -> range:
    """The chosen indices: a half-open range, and its first n_mlps."""
    start, end = range_ or (0, total)
    if not start < end <= total:
        raise ConfigError(f"dataset.range=[{start},{end}] must be a half-open range within {name}'s {total} MLPs")
    if n_mlps is not None and n_mlps > end - start:
        raise ConfigError(
            f"dataset.n_mlps={n_mlps} is more than the {end - start} MLPs of {name}: give at most that many"
        )
    return range(start, end if n_mlps is None else start + n_mlps)
