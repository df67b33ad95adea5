"""Small datasets with invented truth, and functions to change their files, for the tests of the formats."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whest.dataset.dataset import Dataset
from whest.dataset.formats.metadata import Part
from whest.dataset.formats.save import Provenance, save_dataset
from whest.dataset.sources import FreshDataset
from whest.dataset.stored import FileDataset
from whest.truth.truth import Truth

OURS = ["standard_errors", "n_samples", "n_replicates"]
"""Columns that datasets made by WhestBench lack."""
OUR_METADATA = ["content_sha256", "content_mlp_range", "truth_floor_mse", "sampler", "command", "versions"]


def with_truth(dataset: Dataset, n_samples: int = 1000) -> Dataset:
    """Means and errors without any meaning."""

    def truth(index: int) -> Truth:
        generator = np.random.default_rng(index)
        means, errors = generator.random((2, dataset.depth, dataset.width)).astype(np.float32)
        return Truth(means, errors / 100, float(generator.random()), n_samples, 16)

    return replace(dataset, rows=tuple(replace(row, truth=truth(row.index)) for row in dataset.rows))


def tiny(n_mlps: int = 2, width: int = 4, depth: int = 2, seed: int = 7, **knobs: Any) -> Dataset:
    return with_truth(FreshDataset(width, depth, seed, n_mlps, **knobs).load())


def provenance(split: str = "public", **knobs: Any) -> Provenance:
    made = {
        "split": split,
        "config": "default",
        "sampler": "fast 1",
        "standard_error": None,
        "command": "python -m whest job=bake",
        "created_at": datetime(2026, 1, 2, tzinfo=UTC),
        "hardware": {"machine": "x86_64"},
        "versions": {"numpy": "2"},
    }
    return Provenance(**(made | knobs))


def save(dataset: Dataset, output: Path, part: Part | None = None, **knobs: Any) -> str:
    return save_dataset(dataset, output, provenance=provenance(**knobs), part=part)


def save_slice(dataset: Dataset, output: Path, start: int, end: int, **knobs: Any) -> str:
    part = replace(dataset, rows=dataset.rows[start:end])
    return save(part, output, Part(start, end, dataset.n_mlps), **knobs)


def load(path: Path, **knobs: Any) -> Dataset:
    return FileDataset(str(path), **knobs).load()


def data_file(folder: Path, split: str = "public") -> Path:
    return folder / "data" / f"{split}-00000-of-00001.parquet"


def edit_table(folder: Path, edit: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    """The data file with another table in it."""
    pq.write_table(edit(pq.read_table(data_file(folder))), data_file(folder), **options)


def edit_metadata(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "metadata.json"
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


def as_foreign(folder: Path, **options: Any) -> None:
    """The directory as another tool would have written it: no error bars, no digest."""
    edit_table(folder, lambda table: table.drop_columns(OURS), **options)
    edit_metadata(folder, lambda document: [document.pop(key) for key in OUR_METADATA])


def read_members(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def edit_npz(path: Path, edit: Callable[[dict[str, np.ndarray]], object], **metadata: Any) -> None:
    """The archive with other members; metadata fields are set, or removed if None."""
    members = read_members(path)
    document = json.loads(str(members["metadata"])) | metadata
    members["metadata"] = np.array(json.dumps({key: value for key, value in document.items() if value is not None}))
    edit(members)
    np.savez(path, **members)  # type: ignore[arg-type]


def write_members(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def column(name: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    """An edit of one column's values, its type kept."""

    def edit(table: pa.Table) -> pa.Table:
        place, field = table.schema.get_field_index(name), table.schema.field(name)
        return table.set_column(place, field, pa.array(change(table[name].to_pylist()), field.type))

    return edit
