"""A stored split: its header, and its MLPs. They are read one at a time, and each is checked before it is used."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import psutil
from jaxtyping import Float

from whest.dataset.formats.metadata import Header, refused
from whest.dataset.row import ContentDigest, Row
from whest.errors import ConfigError
from whest.truth.moments import LayerMoments, moment_shapes
from whest.truth.truth import Truth

RESTORE = "Restore the file or bake the dataset again"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_NAME = 200


@dataclass(frozen=True)
class Cells:
    """One MLP as a file holds it. A value that the dataset lacks is None."""

    mlp_id: int
    mlp_name: str
    mlp_seed: int
    weights: Float[np.ndarray, "depth width width"]
    all_layer_means: Float[np.ndarray, "depth width"]
    final_means: Float[np.ndarray, " width"]
    avg_variance: float
    sampling_budget_breakdown: str
    standard_errors: Float[np.ndarray, "depth width"] | None = None
    n_samples: int | None = None
    n_replicates: int | None = None
    moments: Mapping[str, np.ndarray] | None = None
    """Arrays by the names of `moment_shapes`, if the metadata says that there are moments."""
    n_moment_samples: int | None = None


class Reader(Protocol):
    """A file format: MLPs by their position in the file. Reading forwards is cheap; going back may be slow."""

    @property
    def n_bytes(self) -> int: ...

    def cells(self, position: int) -> Cells: ...


@dataclass(frozen=True)
class Record:
    """One MLP with all its stored data."""

    row: Row
    weights: Float[np.ndarray, "depth width width"]
    breakdown: str = "{}"

    @property
    def fingerprint(self) -> bytes:
        return hashlib.sha256(np.ascontiguousarray(self.weights, "<f4").tobytes()).digest()


@dataclass(frozen=True)
class StoredSplit:
    """The result of `open_split`. Only the header is in memory."""

    header: Header
    reader: Reader

    @property
    def n_mlps(self) -> int:
        return self.header.stated.n_mlps

    def record(self, position: int) -> Record:
        """One MLP. A damaged file can raise many kinds of errors; all become one ConfigError."""
        index = self.header.part.start + position
        try:
            cells = self.reader.cells(position)
        except ConfigError:
            raise
        except Exception as error:
            raise refused(self.header.path, f"MLP {index} can't be read ({_reason(error)})", RESTORE) from error
        return _checked(cells, self.header, index)

    def records(self, positions: Iterable[int]) -> Iterator[Record]:
        """Some of the MLPs, in order. Their names must differ."""
        names: set[str] = set()
        for record in map(self.record, positions):
            if record.row.name in names:
                raise refused(self.header.path, f"two MLPs are called {record.row.name}", RESTORE)
            names.add(record.row.name)
            yield record

    def verified(self) -> Iterator[Record]:
        """Every MLP. At the end, the content is checked against its stored digest."""
        header, samples = self.header, []
        digest = ContentDigest(header.stated.width, header.stated.depth, header.protocol.version)
        moments = hashlib.sha256()
        for record in self.records(range(self.n_mlps)):
            if record.row.index in header.content_range:
                digest.add(record.row, record.fingerprint)
            assert record.row.truth is not None
            if record.row.truth.moments is not None and record.row.index in header.content_range:
                moments.update(record.row.truth.moments.to_bytes())
            samples.append(record.row.truth.n_samples)
            yield record
        if header.stated.content_sha256 not in (None, digest.hexdigest()):
            raise refused(header.path, "its content doesn't match metadata.content_sha256: it was changed", RESTORE)
        if header.stated.moments_sha256 not in (None, moments.hexdigest()):
            raise refused(header.path, "its moments don't match metadata.moments_sha256: they were changed", RESTORE)
        if min(samples) != header.stated.n_samples:
            raise refused(
                header.path, f"metadata.n_samples={header.stated.n_samples}, its rows have {min(samples)}", RESTORE
            )


def require_memory(header: Header, n_bytes: int, what: str) -> None:
    """Refuse to start if the machine has too little memory."""
    available = psutil.virtual_memory().available
    if n_bytes > available:
        raise refused(
            header.path,
            f"{what} takes {n_bytes / 1e9:.3g} GB, this machine has {available / 1e9:.3g} GB of memory free",
            "Use a larger machine, or a copy with smaller row groups: job=merge and job=bake write one per MLP",
        )


def as_read(truth: Truth) -> Truth:
    """Truth in the dtypes of the file, so that reading it back gives the same values."""
    means, errors = (np.ascontiguousarray(array, "<f4") for array in (truth.means, truth.standard_errors))
    return replace(truth, means=means, standard_errors=errors)


def _checked(cells: Cells, header: Header, index: int) -> Record:
    """The record of a row's cells. An error says which MLP is wrong and how."""

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise refused(header.path, f"MLP {index}: {what}", RESTORE)

    depth, width = header.stated.depth, header.stated.width
    require(cells.mlp_id == index, f"mlp_id is {cells.mlp_id}; ids count up by one from {header.part.start}")
    require(
        len(cells.mlp_name) <= LONGEST_NAME and NAME.fullmatch(cells.mlp_name) is not None,
        f"mlp_name {cells.mlp_name[:LONGEST_NAME]!r} is not lower-case words joined by hyphens",
    )
    require(0 <= cells.mlp_seed < 2**63, f"mlp_seed {cells.mlp_seed} is not from 0 to 2^63 - 1")
    for name, shape in (
        ("weights", (depth, width, width)),
        ("all_layer_means", (depth, width)),
        ("final_means", (width,)),
    ):
        array = getattr(cells, name)
        require(array.shape == shape, f"{name} has shape {array.shape}, metadata says {shape}")
        require(bool(np.isfinite(array).all()), f"{name} has NaN or infinite values")
    require(bool(0 <= cells.avg_variance < np.inf), f"avg_variance is {cells.avg_variance}")
    same = np.array_equal(cells.final_means, cells.all_layer_means[-1])
    require(same, "final_means differ from the last row of all_layer_means")
    streams = header.streams(index, cells.mlp_seed)
    if header.protocol.version == "2.0":
        require(streams.estimator_seed == cells.mlp_seed, "mlp_seed doesn't follow from metadata.seed")
    truth = _truth(cells, header)
    errors = truth.standard_errors
    require(errors.shape == (depth, width), f"standard_errors has shape {errors.shape}, not {(depth, width)}")
    known = not np.isnan(errors).all()
    require(not known or bool((np.isfinite(errors) & (errors >= 0)).all()), "standard_errors are not all 0 or more")
    require(truth.n_samples >= 1, f"n_samples is {truth.n_samples}")
    require(truth.n_replicates is None or truth.n_replicates >= 2, f"n_replicates is {truth.n_replicates}")
    require(truth.is_possible, "all_layer_means has values below 0 by more than their noise, but a ReLU has none")
    if truth.moments is not None:
        require(1 <= truth.moments.n_samples < 2**63, f"n_moment_samples is {truth.moments.n_samples}")
        for name, wanted in moment_shapes(width, depth).items():
            array = truth.moments[name]
            require(array.shape == wanted, f"{name} has shape {array.shape}, metadata says {wanted}")
            require(bool(np.isfinite(array).all()), f"{name} has NaN or infinite values")
            require(not name.endswith("_se") or bool((array >= 0).all()), f"{name} has values below 0")
    row = Row(index, cells.mlp_seed, cells.mlp_name, streams, truth)
    return Record(row, cells.weights, cells.sampling_budget_breakdown)


def _truth(cells: Cells, header: Header) -> Truth:
    """The truth of a row. A dataset made by WhestBench has no error bars, and one number of samples for all MLPs."""
    errors = cells.standard_errors
    if errors is None or np.isnan(errors).all():
        errors = np.full(cells.all_layer_means.shape, np.nan, np.float32)
    n_samples = header.stated.n_samples if cells.n_samples is None else cells.n_samples
    moments = None if cells.moments is None else LayerMoments(cells.n_moment_samples or 0, cells.moments)
    return Truth(cells.all_layer_means, errors, cells.avg_variance, n_samples, cells.n_replicates, moments)


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
