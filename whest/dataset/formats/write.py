"""Write records to disk, one at a time: a Parquet data file with one row group per MLP, or an .npz archive.

The same content gives the same bytes with the same pyarrow: there are no dates or machine names in the files.
"""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whest.dataset.formats.metadata import Document
from whest.dataset.formats.split import Record
from whest.dataset.row import ContentDigest, Row
from whest.errors import ConfigError
from whest.truth.moments import LayerMoments, moment_shapes

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every archive member: the oldest that a zip file can store."""


@dataclass
class Tally:
    """Totals over the rows that were written."""

    width: int
    depth: int
    protocol_version: str
    indices: list[int] = field(default_factory=list)
    n_samples: list[int] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    n_moments: int = 0

    def __post_init__(self) -> None:
        self._digest = ContentDigest(self.width, self.depth, self.protocol_version)
        self._moments = hashlib.sha256()

    def watch(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            row = record.row
            assert row.truth is not None, "a stored dataset has truth for every MLP"
            self._digest.add(row, record.fingerprint)
            if row.truth.moments is not None:
                self._moments.update(row.truth.moments.to_bytes())
                self.n_moments += 1
            if self.n_moments not in (0, len(self.indices) + 1):
                raise ConfigError("some MLPs have moments and some have none: bake all of them with truth.moments=true")
            self.indices.append(row.index)
            self.names.add(row.name)
            self.n_samples.append(row.truth.n_samples)
            self.floors.append(row.truth.floor_mse)
            yield record

    def document(self) -> dict[str, object]:
        """The metadata that follows from the rows."""
        moments = {"moments_sha256": self._moments.hexdigest()} if self.n_moments else {}
        return {
            "n_mlps": len(self.indices),
            "n_samples": min(self.n_samples),
            "truth_floor_mse": float(np.mean(self.floors)),
            "content_sha256": self._digest.hexdigest(),
            "content_mlp_range": [self.indices[0], self.indices[-1] + 1],
            **moments,
        }


def write_parquet(path: Path, records: Iterable[Record], width: int, depth: int) -> None:
    records = iter(records)
    first = next(records)
    schema = _schema(width, depth, first)
    with pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        compression="snappy",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for record in chain([first], records):
            writer.write_batch(_batch(record, schema), row_group_size=1)


def _schema(width: int, depth: int, first: Record) -> pa.Schema:
    """Nested lists, with metadata that tells `datasets` that they are arrays of a fixed shape."""
    lists = pa.list_(pa.list_(pa.float32()))
    kinds: dict[str, tuple[pa.DataType, dict[str, object]]] = {
        "mlp_id": (pa.int32(), _value("int32")),
        "mlp_name": (pa.string(), _value("string")),
        "mlp_seed": (pa.int64(), _value("int64")),
        "weights": (pa.list_(lists), _array(depth, width, width)),
        "all_layer_means": (lists, _array(depth, width)),
        "final_means": _vector(width),
        "avg_variance": (pa.float64(), _value("float64")),
        "sampling_budget_breakdown": (pa.string(), _value("string")),
        "standard_errors": (lists, _array(depth, width)),
        "n_samples": (pa.int64(), _value("int64")),
        "n_replicates": (pa.int32(), _value("int32")),
    }
    if first.row.truth is not None and first.row.truth.moments is not None:
        nested = {2: lists, 3: pa.list_(lists)}
        for name, shape in moment_shapes(width, depth).items():
            kinds[name] = _vector(depth) if len(shape) == 1 else (nested[len(shape)], _array(*shape))
        kinds["n_moment_samples"] = (pa.int64(), _value("int64"))
    features = {name: feature for name, (_, feature) in kinds.items()}
    note = json.dumps({"info": {"features": features}})
    fields = [pa.field(name, kind, metadata=_extension(feature)) for name, (kind, feature) in kinds.items()]
    return pa.schema(fields, metadata={"huggingface": note})


def _extension(feature: dict[str, object]) -> dict[str, str] | None:
    """Arrow's metadata of an array column: the type that `datasets` registers, with its shape."""
    if "shape" not in feature:
        return None
    return {
        "ARROW:extension:name": f"datasets.features.features.{feature['_type']}ExtensionType",
        "ARROW:extension:metadata": json.dumps([feature["shape"], feature["dtype"]]),
    }


def _vector(length: int) -> tuple[pa.DataType, dict[str, object]]:
    return pa.list_(pa.float32(), length), {"feature": _value("float32"), "length": length, "_type": "List"}


def _value(dtype: str) -> dict[str, object]:
    return {"dtype": dtype, "_type": "Value"}


def _array(*shape: int) -> dict[str, object]:
    return {"shape": list(shape), "dtype": "float32", "_type": f"Array{len(shape)}D"}


def _batch(record: Record, schema: pa.Schema) -> pa.RecordBatch:
    row, truth = record.row, record.row.truth
    assert truth is not None
    columns = {
        "mlp_id": [row.index],
        "mlp_name": [row.name],
        "mlp_seed": [row.mlp_seed],
        "weights": _nested(record.weights),
        "all_layer_means": _nested(truth.means),
        "final_means": _fixed(truth.means[-1]),
        "avg_variance": [truth.avg_variance],
        "sampling_budget_breakdown": [record.breakdown],
        "standard_errors": _nested(truth.standard_errors),
        "n_samples": [truth.n_samples],
        "n_replicates": [truth.n_replicates],
    }
    if truth.moments is not None:
        arrays = truth.moments.arrays
        columns |= {name: _fixed(array) if array.ndim == 1 else _nested(array) for name, array in arrays.items()}
        columns["n_moment_samples"] = [truth.moments.n_samples]
    cells = [
        column if isinstance(column, pa.Array) else pa.array(column, schema.field(name).type)
        for name, column in ((name, columns[name]) for name in schema.names)
    ]
    return pa.RecordBatch.from_arrays(cells, schema=schema)


def _fixed(array: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array)), len(array))


def _nested(array: np.ndarray) -> pa.Array:
    """A whole array as one row of nested lists."""
    column = pa.array(np.ascontiguousarray(array).reshape(-1))
    for size in (*array.shape[:0:-1], array.shape[0]):
        column = pa.ListArray.from_arrays(np.arange(0, len(column) + 1, size, dtype=np.int32), column)
    return column


def write_npz(path: Path, records: Iterable[Record], document: Document, tally: Tally, n_mlps: int) -> None:
    """Weights go to the archive one MLP at a time, moments to temporary files; small members are written last."""
    rows: list[Row] = []
    breakdowns: list[object] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive, ExitStack() as stack:
        moments = MomentColumns(stack)
        with archive.open(zipfile.ZipInfo("weights.npy", EPOCH), "w", force_zip64=True) as stream:
            _write_header(stream, (n_mlps, tally.depth, tally.width, tally.width))
            for record in records:
                stream.write(np.ascontiguousarray(record.weights, "<f4").tobytes())
                truth = record.row.truth
                assert truth is not None
                moments.add(truth.moments)
                rows.append(replace(record.row, truth=replace(truth, moments=None)))
                breakdowns.append(json.loads(record.breakdown))
        moments.write(archive)
        truths = [row.truth for row in rows if row.truth is not None]
        means = np.stack([truth.means for truth in truths])
        members = {
            "all_layer_means": means,
            "final_means": means[:, -1],
            "avg_variances": np.array([truth.avg_variance for truth in truths], np.float64),
            "sampling_budget_breakdowns": np.array(json.dumps(breakdowns)),
            "mlp_seeds": np.array([row.mlp_seed for row in rows], np.int64),
            "mlp_names": np.array([row.name for row in rows]),
            "standard_errors": np.stack([truth.standard_errors for truth in truths]),
            "n_samples": np.array([truth.n_samples for truth in truths], np.int64),
            "n_replicates": np.array([truth.n_replicates or 0 for truth in truths], np.int32),
            **({"n_moment_samples": np.array(moments.n_samples, np.int64)} if moments.n_samples else {}),
            "metadata": np.array(json.dumps({**document, **tally.document()}, allow_nan=False)),
        }
        for name, array in members.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)


class MomentColumns:
    """The moments of all MLPs, one temporary file per array: together they are as large as the weights."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._files: dict[str, IO[bytes]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self.n_samples: list[int] = []

    def add(self, moments: LayerMoments | None) -> None:
        if moments is None:
            return
        self.n_samples.append(moments.n_samples)
        for name, array in moments.arrays.items():
            if name not in self._files:
                self._files[name] = self._stack.enter_context(TemporaryFile())  # noqa: SIM115, the stack closes it
                self._shapes[name] = array.shape
            self._files[name].write(np.ascontiguousarray(array, "<f4").tobytes())

    def write(self, archive: zipfile.ZipFile) -> None:
        for name, file in self._files.items():
            file.seek(0)
            with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as stream:
                _write_header(stream, (len(self.n_samples), *self._shapes[name]))
                shutil.copyfileobj(file, stream)


def _write_header(stream: IO[bytes], shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
