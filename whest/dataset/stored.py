"""`dataset=file`: the rows of a stored dataset. Weights are read when they are used."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from whest.dataset.dataset import Count, Dataset, Range, selected
from whest.dataset.formats.opening import open_split
from whest.dataset.formats.places import is_own
from whest.dataset.formats.split import Record, StoredSplit
from whest.dataset.row import Row
from whest.errors import ConfigError, WhestError
from whest.truth.moments import LayerMoments

VERIFIED_BYTES = 2 * 10**9
"""A dataset up to this size is read and verified completely; of a larger one only the chosen MLPs are."""


@dataclass(frozen=True)
class FileDataset:
    """A Parquet directory or an .npz file."""

    path: str
    split: str | None = None
    range: Range | None = None
    n_mlps: Count | None = None

    def load(self) -> Dataset:
        try:
            path = Path(self.path).expanduser().resolve()
        except RuntimeError as error:  # links that lead to each other
            raise ConfigError(f"dataset.path={self.path} can't be opened ({error})") from None
        if not path.exists():
            raise ConfigError(f"dataset.path={self.path}: no such dataset; give a Parquet directory or an .npz file")
        return load_stored(path, self.split, self.range, self.n_mlps)


@dataclass(frozen=True)
class StoredWeights:
    """Weights from the file. Each is checked against its fingerprint from when the dataset was opened."""

    stored: StoredSplit
    fingerprints: Mapping[int, bytes] = field(repr=False)

    def weights(self, row: Row, width: int, depth: int) -> Float[np.ndarray, "depth width width"]:
        return self._record(row).weights

    def _record(self, row: Row) -> Record:
        record = self.stored.record(row.index)
        if record.fingerprint != self.fingerprints[row.index]:
            raise WhestError(f"{self.stored.header.path} changed while it was in use: MLP {row.index} differs")
        return record

    def fingerprint(self, row: Row) -> bytes:
        return self.fingerprints[row.index]

    def moments(self, row: Row) -> LayerMoments | None:
        if self.stored.header.stated.moments_sha256 is None:
            return None
        truth = self._record(row).row.truth
        return None if truth is None else truth.moments


def load_stored(path: Path, split: str | None, range_: Range | None, n_mlps: int | None) -> Dataset:
    """The chosen rows. One pass over the file checks each MLP without keeping its weights."""
    stored = open_split(path, split)
    header = stored.header
    chosen = selected(path.name, stored.n_mlps, range_, n_mlps)
    records = stored.verified() if stored.reader.n_bytes <= VERIFIED_BYTES else stored.records(chosen)
    kept = {record.row.index: _light(record) for record in records if record.row.index in chosen}
    return Dataset(
        name=path.stem if path.is_file() else path.name,
        width=header.stated.width,
        depth=header.stated.depth,
        protocol_version=header.protocol.version,
        rows=tuple(row for row, _ in kept.values()),
        seed=header.stated.seed if header.stated.seed is not None else header.stated.root_seed,
        path=str(path),
        split=header.stated.split,
        source=StoredWeights(stored, {index: fingerprint for index, (_, fingerprint) in kept.items()}),
        salt_digest=header.protocol.salt_digest,
        sampler=header.stated.sampler,
        standard_error=header.stated.standard_error,
        hidden=(path, *(file.resolve() for file in _files(path))),
    )


def _files(path: Path) -> list[Path]:
    """The dataset's files: links among them lead to where the answers really are."""
    return [file for file in path.rglob("*") if file.is_file() and is_own(path, file)] if path.is_dir() else [path]


def _light(record: Record) -> tuple[Row, bytes]:
    """The part that stays in memory: the row without its weights and moments, and copies of its means."""
    truth = record.row.truth
    assert truth is not None
    own = replace(truth, means=truth.means.copy(), standard_errors=truth.standard_errors.copy(), moments=None)
    return replace(record.row, truth=own), record.fingerprint
