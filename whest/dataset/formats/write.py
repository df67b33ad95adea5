"""Write records to disk, one at a time: a Parquet data file with one row group per MLP, or an .npz archive.

The same content gives the same bytes with the same pyarrow: there are no dates or machine names in the files.
"""

import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whest.dataset.formats.metadata import Document
from whest.dataset.formats.split import Record
from whest.dataset.row import ContentDigest, Row

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

    def __post_init__(self) -> None:
        self._digest = ContentDigest(self.width, self.depth, self.protocol_version)

    def watch(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            row = record.row
            assert row.truth is not None, "a stored dataset has truth for every MLP"
            self._digest.add(row, record.fingerprint)
            self.indices.append(row.index)
            self.names.add(row.name)
            self.n_samples.append(row.truth.n_samples)
            self.floors.append(row.truth.floor_mse)
            yield record

    def document(self) -> dict[str, object]:
        """The metadata that follows from the rows."""
        return {
            "n_mlps": len(self.indices),
            "n_samples": min(self.n_samples),
            "truth_floor_mse": float(np.mean(self.floors)),
            "content_sha256": self._digest.hexdigest(),
            "content_mlp_range": [self.indices[0], self.indices[-1] + 1],
        }


def write_parquet(path: Path, records: Iterable[Record], width: int, depth: int) -> None:
    schema = _schema(width, depth)
    with pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        compression="snappy",
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for record in records:
            writer.write_batch(_batch(record, schema), row_group_size=1)


def _schema(width: int, depth: int) -> pa.Schema:
    """Nested lists, with metadata that tells `datasets` that they are arrays of a fixed shape."""
    lists = pa.list_(pa.list_(pa.float32()))
    kinds: dict[str, tuple[pa.DataType, dict[str, object]]] = {
        "mlp_id": (pa.int32(), _value("int32")),
        "mlp_name": (pa.string(), _value("string")),
        "mlp_seed": (pa.int64(), _value("int64")),
        "weights": (pa.list_(lists), _array(depth, width, width)),
        "all_layer_means": (lists, _array(depth, width)),
        "final_means": (
            pa.list_(pa.float32(), width),
            {"feature": _value("float32"), "length": width, "_type": "List"},
        ),
        "avg_variance": (pa.float64(), _value("float64")),
        "sampling_budget_breakdown": (pa.string(), _value("string")),
        "standard_errors": (lists, _array(depth, width)),
        "n_samples": (pa.int64(), _value("int64")),
        "n_replicates": (pa.int32(), _value("int32")),
    }
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
        "final_means": pa.FixedSizeListArray.from_arrays(pa.array(truth.means[-1]), len(truth.means[-1])),
        "avg_variance": [truth.avg_variance],
        "sampling_budget_breakdown": [record.breakdown],
        "standard_errors": _nested(truth.standard_errors),
        "n_samples": [truth.n_samples],
        "n_replicates": [truth.n_replicates],
    }
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, schema.field(name).type)
        for name, column in columns.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _nested(array: np.ndarray) -> pa.Array:
    """A whole array as one row of nested lists."""
    column = pa.array(np.ascontiguousarray(array).reshape(-1))
    for size in (*array.shape[:0:-1], array.shape[0]):
        column = pa.ListArray.from_arrays(np.arange(0, len(column) + 1, size, dtype=np.int32), column)
    return column


def write_npz(path: Path, records: Iterable[Record], document: Document, tally: Tally, n_mlps: int) -> None:
    """Weights are written to the archive one MLP at a time; the small members are kept in memory and written last."""
    rows: list[Row] = []
    breakdowns: list[object] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(zipfile.ZipInfo("weights.npy", EPOCH), "w", force_zip64=True) as stream:
            shape = (n_mlps, tally.depth, tally.width, tally.width)
            np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
            for record in records:
                stream.write(np.ascontiguousarray(record.weights, "<f4").tobytes())
                rows.append(record.row)
                breakdowns.append(json.loads(record.breakdown))
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
            "metadata": np.array(json.dumps({**document, **tally.document()}, allow_nan=False)),
        }
        for name, array in members.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)
