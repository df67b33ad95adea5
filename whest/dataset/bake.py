"""`job=bake`: the truth of a dataset's MLPs, drawn once and written beside their weights for anyone to read.

Each MLP's truth goes through the cache, which keeps every finished block, so a bake that was stopped goes on when the
same command is given again. Rows depend on nothing but their own seed and the sampler: a slice baked elsewhere holds
the rows of the whole, bit for bit. The files are written at the end, whole or not at all.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from whest.dataset.dataset import Dataset
from whest.dataset.formats.metadata import Part, require_word
from whest.dataset.formats.save import Provenance, require_place, save_dataset
from whest.dataset.row import Row, ShiftedWeights
from whest.errors import ConfigError
from whest.progress import Progress
from whest.truth.cache import TruthCache, watched_truth
from whest.truth.truth import Truth, TruthSampler


@dataclass(frozen=True)
class BakeOptions:
    """The config's `bake`."""

    slice: str | int | float | None
    split: str
    config: str

    def __post_init__(self) -> None:
        for key in ("split", "config"):
            require_word(f"bake.{key}", getattr(self, key))

    def part(self, n_mlps: int) -> Part:
        """Slice k of n: shares as equal as they can be, in order."""
        found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", str(self.slice or "1/1"))
        k, n = map(int, found.groups()) if found else (0, 0)
        if not 1 <= k <= n <= n_mlps:
            raise ConfigError(f"bake.slice={self.slice} must be k/n, say 1/4, with 1 ≤ k ≤ n ≤ {n_mlps} (the MLPs)")
        return Part(n_mlps * (k - 1) // n, n_mlps * k // n, n_mlps)


@dataclass(frozen=True)
class BakedRow:
    """One MLP's truth, and how long it took; null where it was there already."""

    row: Row
    truth: Truth
    seconds: float | None


@dataclass(frozen=True)
class Bake:
    """What is baked and where to."""

    dataset: Dataset
    """The whole of it, counted from zero; `part` says which of its rows are baked."""
    part: Part
    sampler: TruthSampler
    cache: TruthCache
    output: Path
    provenance: Provenance

    def __post_init__(self) -> None:
        require_place(self.output)

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.dataset.rows[self.part.start : self.part.end]

    def draw(self, progress: Progress) -> Iterator[BakedRow]:
        """Each MLP as its truth is there: the dataset's own, the cache's, or newly drawn."""
        for row in progress.each(self.rows, f"baking {self.output.name}"):
            if row.truth is not None and not self.sampler.resample:
                yield BakedRow(row, row.truth, None)
                continue
            mlp = self.dataset.mlp(row)
            found, started = self.cache.find(self.sampler, mlp), time.perf_counter()
            truth = found or watched_truth(self.cache, self.sampler, mlp, progress)
            yield BakedRow(row, truth, None if found else time.perf_counter() - started)

    def save(self, baked: list[BakedRow]) -> "Baked":
        """Write what was drawn."""
        rows = tuple(replace(one.row, truth=one.truth) for one in baked)
        part = replace(self.dataset, rows=rows)
        sha256 = save_dataset(part, self.output, provenance=self.provenance, part=self.part)
        floor = float(np.mean([one.truth.floor_mse for one in baked]))
        return Baked(self.output, self.part, floor, sum(one.truth.n_samples for one in baked), sha256)


@dataclass(frozen=True)
class Baked:
    """What a bake left."""

    output: Path
    part: Part
    floor_mse: float
    n_samples: int
    sha256: str


def counted_from_zero(dataset: Dataset) -> Dataset:
    """A selection as a dataset of its own; names stay those of the whole."""
    first = dataset.rows[0].index
    if first == 0:
        return dataset
    if dataset.protocol_version == "2.0":
        raise ConfigError("dataset.range must start at 0 for seed protocol 2.0, whose MLPs are known by their place")
    rows = tuple(replace(row, index=row.index - first) for row in dataset.rows)
    return replace(dataset, rows=rows, source=ShiftedWeights(dataset.source, first))
