"""`job=bake`: draw the truth of a dataset's MLPs and store it with their weights.

The truth cache keeps every finished block, so the same command continues a bake that was stopped. A row depends only on
its own seed and the sampler. So a slice baked on another machine has the same rows, bit for bit, as the whole dataset.
The files are written at the end, completely or not at all.
"""

import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Float
from pydantic import Field

from whest.dataset.dataset import Dataset
from whest.dataset.formats.metadata import Part, require_word
from whest.dataset.formats.save import Provenance, require_place, save_dataset
from whest.dataset.row import Row, ShiftedWeights, WeightSource
from whest.errors import ConfigError, WhestError
from whest.progress import Progress
from whest.truth.cache import TruthCache, asked_moments, watched_truth
from whest.truth.crew import Crew, Stage, is_long, usable_cores
from whest.truth.moments import LayerMoments
from whest.truth.truth import Truth, TruthSampler


@dataclass(frozen=True)
class BakeOptions:
    """The config's `bake`."""

    slice: str | int | float | None
    split: str
    config: str
    slices: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """With a slice: only its truth is drawn, for a bake elsewhere that writes the whole."""
    processes: Annotated[int, Field(ge=1, le=4096)] | None = None

    def __post_init__(self) -> None:
        for key in ("split", "config"):
            require_word(f"bake.{key}", getattr(self, key))

    def words(self, n_mlps: int) -> list[str]:
        """The slices that together are the whole, each as the word of a job."""
        if self.slices is None or self.slices > n_mlps:
            raise ConfigError(f"bake.slices={self.slices} must be at most {n_mlps}, the number of MLPs")
        return [f"bake.slice={k}/{self.slices}" for k in range(1, self.slices + 1)]

    def part(self, n_mlps: int) -> Part:
        """Slice k of n: parts of nearly equal size, in order."""
        found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", str(self.slice or "1/1"))
        k, n = map(int, found.groups()) if found else (0, 0)
        if not 1 <= k <= n <= n_mlps:
            raise ConfigError(f"bake.slice={self.slice} must be k/n with 1 ≤ k ≤ n ≤ {n_mlps} (the MLPs), e.g. 1/4")
        return Part(n_mlps * (k - 1) // n, n_mlps * k // n, n_mlps)


@dataclass(frozen=True)
class BakedRow:
    """One MLP's truth, and the seconds to draw it; None if it was already there."""

    row: Row
    truth: Truth
    seconds: float | None


@dataclass(frozen=True)
class Bake:
    """The MLPs to bake, and the output."""

    dataset: Dataset
    """The whole dataset, with rows counted from zero; `part` says which rows are baked."""
    part: Part
    sampler: TruthSampler
    cache: TruthCache
    output: Path
    provenance: Provenance
    processes: int | None = None
    """Processes that draw truth; None: one per core if it takes long. One process is this one, with all its threads."""
    is_drawn_only: bool = False
    """Whether the truth is only drawn, and the output written elsewhere."""

    def __post_init__(self) -> None:
        if not self.is_drawn_only:
            require_place(self.output)

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.dataset.rows[self.part.start : self.part.end]

    def draw(self, progress: Progress) -> Iterator[BakedRow]:
        """Yield each MLP when its truth is ready: from the dataset, from the cache, or newly drawn."""
        source = self._source()
        n_processes = self._n_processes()
        shared = [row for row in self.rows if self._stored(row) is None] if n_processes > 1 else []
        places = {row.index: place for place, row in enumerate(shared)}
        mlps = [partial(self.dataset.mlp, row) for row in shared]
        with Crew(n_processes, self.cache, self.sampler, mlps) as crew:
            for row in progress.each(self.rows, f"baking {self.output.name}"):
                source.moments(row)  # they go to the cache, and are read again when the files are written
                if row.index in places:
                    yield self._awaited(row, crew.stages(places[row.index]), progress)
                else:
                    yield self._stored(row) or self._drawn(row, progress)

    def _n_processes(self) -> int:
        """It depends on the whole dataset, so that a slice, or the rest of a stopped bake, has the same bits."""
        if self.processes is not None:
            return self.processes
        whole = self.dataset
        return usable_cores() if is_long(self.sampler, whole.width, whole.depth, whole.n_mlps) else 1

    def _stored(self, row: Row) -> BakedRow | None:
        """The truth that the dataset or the cache has."""
        if row.truth is not None and not self.sampler.resample:
            return BakedRow(row, row.truth, None)
        found = self.cache.find(self.sampler, self.dataset.mlp(row))
        return None if found is None else BakedRow(row, found, None)

    def _drawn(self, row: Row, progress: Progress) -> BakedRow:
        started = time.perf_counter()
        truth = watched_truth(self.cache, self.sampler, self.dataset.mlp(row), progress)
        return BakedRow(row, truth, time.perf_counter() - started)

    def _awaited(self, row: Row, stages: Iterator[Stage], progress: Progress) -> BakedRow:
        """The truth that the crew draws."""
        (last,) = deque(progress.samples(stages, f"truth of {row.name}", lambda stage: stage.expected), maxlen=1)
        truth = self.cache.find(self.sampler, self.dataset.mlp(row))
        if truth is None:
            raise WhestError(f"the drawn truth of {row.name} is not in {self.cache.folder}: was the cache emptied?")
        return BakedRow(row, truth, last.seconds)

    def files(self) -> list[Path]:
        """The files of the cache that this bake reads when its truth is drawn."""
        asked, found = asked_moments(self.sampler), []
        for row in self.rows:
            mlp = self.dataset.mlp(row)
            if row.truth is None or self.sampler.resample:
                found.append(self.cache.truth_file(self.sampler, mlp))
            if asked is not None and self.dataset.source.moments(row) is None:
                found.append(self.cache.moments_file(mlp, asked))
        return found

    def save(self, baked: list[BakedRow]) -> "Baked":
        """Write the dataset."""
        rows = tuple(replace(one.row, truth=one.truth) for one in baked)
        part = replace(self.dataset, rows=rows, source=self._source())
        sha256 = save_dataset(part, self.output, provenance=self.provenance, part=self.part)
        floor = float(np.mean([one.truth.floor_mse for one in baked]))
        return Baked(self.output, self.part, floor, sum(one.truth.n_samples for one in baked), sha256)

    def _source(self) -> WeightSource:
        asked = asked_moments(self.sampler)
        return self.dataset.source if asked is None else DrawnMoments(self.dataset, self.cache, asked)


@dataclass(frozen=True)
class DrawnMoments:
    """A dataset's weights, with moments from the cache where the dataset has none."""

    dataset: Dataset
    cache: TruthCache
    n_samples: int

    def weights(self, row: Row, width: int, depth: int) -> Float[np.ndarray, "depth width width"]:
        return self.dataset.source.weights(row, width, depth)

    def fingerprint(self, row: Row) -> bytes:
        return self.dataset.source.fingerprint(row)

    def moments(self, row: Row) -> LayerMoments | None:
        stored = self.dataset.source.moments(row)
        return stored if stored is not None else self.cache.moments(self.dataset.mlp(row), self.n_samples)


@dataclass(frozen=True)
class Baked:
    """The result of a bake."""

    output: Path
    part: Part
    floor_mse: float
    n_samples: int
    sha256: str


def counted_from_zero(dataset: Dataset) -> Dataset:
    """A selection of rows as a dataset whose rows count from zero. The MLPs keep their names."""
    first = dataset.rows[0].index
    if first == 0:
        return dataset
    if dataset.protocol_version == "2.0":
        raise ConfigError(
            f"dataset.range must start at 0 for seed protocol 2.0, got {first}: its MLPs depend on their place"
        )
    rows = tuple(replace(row, index=row.index - first) for row in dataset.rows)
    return replace(dataset, rows=rows, source=ShiftedWeights(dataset.source, first))
