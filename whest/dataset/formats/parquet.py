"""Parquet directories, schema 3.0: `data/<split>-NNNNN-of-MMMMM.parquet`, read one MLP at a time.

A row group is decoded in batches of one row. So a file with many MLPs per row group needs no more memory than a file
with one. Reading an earlier row of a group starts the group again.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float

from whest.dataset.formats.metadata import Header, refused
from whest.dataset.formats.places import own_file
from whest.dataset.formats.split import RESTORE, Cells, require_memory
from whest.truth.moments import moment_shapes

SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.parquet")
REQUIRED = {
    "mlp_id": pa.int32(),
    "mlp_name": pa.string(),
    "mlp_seed": pa.int64(),
    "weights": 3,
    "all_layer_means": 2,
    "final_means": 1,
    "avg_variance": pa.float64(),
    "sampling_budget_breakdown": pa.string(),
}
"""Columns and their types. A number n means n nested lists of float32."""

ROW_OVERHEAD = 2**20
"""Bytes of a row beside its arrays: names, the breakdown, headers of pages."""

OURS = {"standard_errors": 2, "n_samples": pa.int64(), "n_replicates": pa.int32()}
"""Columns for the error bars. Datasets made by WhestBench lack them."""

N_MOMENT_SAMPLES = "n_moment_samples"
"""A column beside those of `moment_shapes`, in a dataset whose metadata has moments_sha256."""


def find_splits(folder: Path) -> list[str]:
    """The splits, from the names of the data files."""
    matches = (SHARD.fullmatch(path.name) for path in sorted((folder / "data").glob("*.parquet")))
    return list(dict.fromkeys(match["split"] for match in matches if match))


def find_shards(folder: Path, split: str) -> list[Path]:
    """The files of a split in order. All of them must exist."""
    found: dict[int, Path] = {}
    counts = set()
    for path in (folder / "data").glob("*.parquet"):
        match = SHARD.fullmatch(path.name)
        if match and match["split"] == split:
            found[int(match["number"])] = own_file(folder, path)
            counts.add(int(match["count"]))
    if not found or counts != {len(found)} or sorted(found) != list(range(len(found))):
        there = ", ".join(path.name for path in found.values()) or "none"
        raise refused(
            folder,
            f"the data files of split {split} are not complete: there are {there}",
            f"Expected data/{split}-00000-of-00001.parquet, or all of its numbered shards",
        )
    return [found[number] for number in sorted(found)]


class ParquetReader:
    """The shards of one split as a sequence of MLPs."""

    def __init__(self, header: Header, shards: Sequence[Path]) -> None:
        self._header = header
        stated = header.stated
        self._moments = {} if stated.moments_sha256 is None else moment_shapes(stated.width, stated.depth)
        self._files = [_open(path, self._moments) for path in shards]
        self._groups = [(file, group) for file in self._files for group in range(file.num_row_groups)]
        rows = [file.metadata.row_group(group).num_rows for file, group in self._groups]
        self._starts = [0, *accumulate(rows)]
        if self._starts[-1] != header.stated.n_mlps or min(rows, default=0) < 1:
            what = f"metadata.n_mlps={header.stated.n_mlps}, its data files hold {self._starts[-1]} rows"
            raise refused(header.path, what, RESTORE)
        self.n_bytes = sum(path.stat().st_size for path in shards)
        self._require_modest_groups()
        self._next = self._end = 0
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def _require_modest_groups(self) -> None:
        """A row group is no larger than its rows: the rest would be unpacked for nothing."""
        for file, group in self._groups:
            stated = file.metadata.row_group(group)
            most = stated.num_rows * (self._header.decoded_bytes + ROW_OVERHEAD)
            if not 0 <= stated.total_byte_size <= most:
                what = (
                    f"row group {group} unpacks to {stated.total_byte_size:,} bytes, its {stated.num_rows} rows need "
                )
                raise refused(self._header.path, f"{what}at most {most:,}", RESTORE)

    def cells(self, position: int) -> Cells:
        if not self._next <= position < self._end:
            self._open_group(bisect_right(self._starts, position) - 1)
        while self._next <= position:
            batch = next(self._batches, None)
            if batch is None:
                self._end = 0
                raise ValueError("its row group ends early")
            self._next += 1
        return self._row(batch)

    def _open_group(self, number: int) -> None:
        file, group = self._groups[number]
        encoded = file.metadata.row_group(group).total_byte_size
        require_memory(self._header, max(encoded, self._header.decoded_bytes), f"row group {group}")
        columns = [name for name in (*REQUIRED, *OURS) if name in file.schema_arrow.names]
        columns += [*self._moments, N_MOMENT_SAMPLES] if self._moments else []
        self._batches = file.iter_batches(batch_size=1, row_groups=[group], columns=columns, use_threads=False)
        self._next, self._end = self._starts[number : number + 2]

    def _row(self, batch: pa.RecordBatch) -> Cells:
        depth, width = self._header.stated.depth, self._header.stated.width
        if batch.num_rows != 1:
            raise ValueError(f"a batch of {batch.num_rows} rows")
        values: dict[str, object] = {}
        if self._moments:
            values["moments"] = {name: _dense(batch.column(name), shape, name) for name, shape in self._moments.items()}
        for name in batch.schema.names:
            if name in self._moments:
                continue
            column, kind = batch.column(name), (REQUIRED | OURS | {N_MOMENT_SAMPLES: pa.int64()})[name]
            if isinstance(kind, int):
                shape = {3: (depth, width, width), 2: (depth, width), 1: (width,)}[kind]
                values[name] = _dense(column, shape, name)
            else:
                values[name] = column[0].as_py()
                if values[name] is None and name != "n_replicates":
                    raise ValueError(f"{name} is null")
        return Cells(**values)  # type: ignore[arg-type]


def _open(path: Path, moments: Mapping[str, tuple[int, ...]]) -> pq.ParquetFile:
    """Open a shard and check its columns.

    Only the schema of the footer is used. If bytes are damaged, pyarrow's accessors of column chunks crash the process,
    but reading raises an error.
    """
    try:
        file = pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False, page_checksum_verification=True)
        schema = file.schema_arrow
    except Exception as error:  # pyarrow's own errors, and others that hostile bytes cause
        raise refused(path, f"it is not a readable Parquet file ({str(error).strip()[:200]})", RESTORE) from error
    ours: dict[str, Any] = {name: len(shape) for name, shape in moments.items()}
    ours |= {N_MOMENT_SAMPLES: pa.int64()} if moments else {}
    for name, kind in (REQUIRED | OURS | ours).items():
        if schema.names.count(name) != 1 and (name in REQUIRED or name in ours or name in schema.names):
            what = f"it has {schema.names.count(name)} columns named {name}; a dataset has one"
            raise refused(path, what, f"Is this a WhestBench dataset? Its columns are {', '.join(REQUIRED)}")
        if name in schema.names and not _fits(schema.field(name).type, kind):
            kind = f"{kind} nested lists of float" if isinstance(kind, int) else kind
            raise refused(path, f"column {name} is {schema.field(name).type}, a dataset's is {kind}", RESTORE)
    return file


def _fits(found: pa.DataType, kind: pa.DataType | int) -> bool:
    if not isinstance(kind, int):
        return found == kind or (kind == pa.string() and pa.types.is_large_string(found))
    for _ in range(kind):
        if not (pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found)):
            return False
        found = found.value_type
    return found == pa.float32()


def _dense(column: pa.Array, shape: tuple[int, ...], name: str) -> Float[np.ndarray, "..."]:
    """Nested lists as one array. Every list must have the length that the shape gives."""
    for size in shape:
        lengths = pc.list_value_length(column)
        if lengths.null_count or set(pc.unique(lengths).to_pylist()) != {size}:
            raise ValueError(f"{name} is ragged, or not of shape {shape}")
        column = column.flatten()
    if column.null_count:
        raise ValueError(f"{name} has nulls")
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), "<f4").reshape(shape)
