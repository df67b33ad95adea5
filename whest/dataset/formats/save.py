"""Save datasets: write a hidden file or folder first, and rename it when it is complete."""

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from whest import __version__
from whest.dataset.dataset import Dataset
from whest.dataset.formats.card import write_card
from whest.dataset.formats.metadata import NPZ_SCHEMAS, PARQUET_FORMAT, PARQUET_SCHEMA, Document, Part, require_word
from whest.dataset.formats.opening import METADATA
from whest.dataset.formats.split import Record, as_read
from whest.dataset.formats.write import Tally, write_npz, write_parquet
from whest.dataset.row import Row
from whest.errors import ConfigError
from whest.host import describe_host
from whest.mlp import SEED_PROTOCOL_NAMES, Version


@dataclass(frozen=True)
class Provenance:
    """How a dataset was made."""

    split: str
    config: str
    sampler: str | None
    """The sampler with its version, e.g. "fast 2"; None if it is unknown."""
    standard_error: float | None
    """The standard error at which sampling stopped; None if a number of samples was set."""
    command: str
    created_at: datetime
    hardware: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in ("split", "config"):
            require_word(key, getattr(self, key))


def provenance_here(
    split: str, config: str, sampler: str | None, standard_error: float | None, command: str
) -> Provenance:
    """The provenance of a dataset that is made now, on this machine."""
    host = describe_host()
    versions = {name.removesuffix("_version"): value for name, value in host.items() if name.endswith("_version")}
    hardware = {name: value for name, value in host.items() if name != "hostname" and not name.endswith("_version")}
    made_with = {"whest": __version__, **versions}
    return Provenance(split, config, sampler, standard_error, command, datetime.now(UTC), hardware, made_with)


@dataclass(frozen=True)
class Share:
    """The records of one split to be written, and the metadata that isn't computed from them."""

    records: Iterable[Record]
    n_mlps: int
    document: Document


def save_dataset(dataset: Dataset, output: Path, *, provenance: Provenance, part: Part | None = None) -> str:
    """Write a dataset, or the part of it that its rows are. Every row needs truth. Returns the sha256."""
    part = part or Part(0, dataset.n_mlps, dataset.n_mlps)
    if [row.index for row in dataset.rows] != list(range(part.start, part.end)) or part.end > part.total:
        raise ConfigError(
            f"output={output}: the dataset's rows are not its MLPs [{part.start},{part.end}) of {part.total}; "
            "bake a slice with bake.slice=k/n, or remove dataset.range"
        )
    if not dataset.has_truth:
        raise ConfigError(f"output={output}: not every MLP has its truth yet; draw it with job=bake")
    share = Share(_records(dataset, provenance), dataset.n_mlps, _document(dataset, provenance, part))
    return write_single(output, share)


def write_single(output: Path, share: Share) -> str:
    """Write one split as an .npz file if the output's name ends so, else as a Parquet directory. Returns the sha256."""
    document = share.document
    tally = Tally(document["width"], document["depth"], document["seed_protocol"]["version"])
    records = tally.watch(share.records)
    with staged(output) as stage:
        if output.suffix == ".npz":
            head = {**document, "schema_version": NPZ_SCHEMAS[0], "format": "npz"}
            write_npz(stage, records, head, tally, share.n_mlps)
        else:
            _write_data(stage, document["split"], records, tally)
            _write_documents(stage, {**document, **tally.document()})
        _require_distinct(tally, output)
    return str(tally.document()["content_sha256"])


def write_splits(output: Path, shares: Mapping[str, Share], common: Document, default_split: str) -> None:
    """Write several splits to one directory."""
    if output.suffix == ".npz":
        raise ConfigError(f"output={output}: an .npz file holds one split; give the name of a folder")
    splits: dict[str, Document] = {}
    with staged(output) as stage:
        for split, share in shares.items():
            tally = Tally(common["width"], common["depth"], common["seed_protocol"]["version"])
            _write_data(stage, split, tally.watch(share.records), tally)
            _require_distinct(tally, output)
            splits[split] = {**share.document, **tally.document()}
        _write_documents(stage, {**common, "splits": splits, "default_split": default_split})


@contextmanager
def staged(output: Path) -> Iterator[Path]:
    """A hidden path beside the output. At the end it is renamed to the output; after an error it is removed."""
    require_new(output)
    stage = output.parent / f".{output.name}.{secrets.token_hex(4)}"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        yield stage
        for path in [*stage.rglob("*"), stage] if stage.is_dir() else [stage]:
            _flush(path)
        stage.rename(output)
    except OSError as error:
        raise ConfigError(f"output={output} can't be written ({error.strerror or error}): choose another") from error
    finally:
        if stage.is_dir():
            shutil.rmtree(stage, ignore_errors=True)
        else:
            with suppress(OSError):
                stage.unlink()


def require_new(output: Path) -> None:
    """Refuse an output that exists: nothing is overwritten."""
    if output.exists() or output.is_symlink():
        raise ConfigError(f"output={output} exists already: choose another name, or remove it first")


def require_place(output: Path) -> None:
    """Check before a long job that the output is new and that its folder is writable."""
    require_new(output)
    folder = next(parent for parent in output.absolute().parents if parent.exists())
    try:
        with TemporaryDirectory(prefix=f".{output.name}.", dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"output={output} can't be written ({error.strerror or error}): choose another") from error


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_data(stage: Path, split: str, records: Iterable[Record], tally: Tally) -> None:
    (stage / "data").mkdir(parents=True, exist_ok=True)
    write_parquet(stage / "data" / f"{split}-00000-of-00001.parquet", records, tally.width, tally.depth)


def _write_documents(stage: Path, document: Document) -> None:
    document = {"schema_version": PARQUET_SCHEMA, "format": PARQUET_FORMAT, **document}
    (stage / METADATA).write_text(json.dumps(document, indent=2, allow_nan=False) + "\n")
    write_card(stage / "README.md", document)


def _require_distinct(tally: Tally, output: Path) -> None:
    if len(tally.names) != len(tally.indices):
        raise ConfigError(f"output={output}: two MLPs have the same name; merge only slices of one dataset")


def _records(dataset: Dataset, provenance: Provenance) -> Iterator[Record]:
    for row in dataset.rows:
        assert row.truth is not None
        stored = replace(row, truth=replace(as_read(row.truth), moments=dataset.source.moments(row)))
        weights = dataset.source.weights(row, dataset.width, dataset.depth)
        yield Record(stored, weights, _breakdown(row, dataset, provenance))


def _breakdown(row: Row, dataset: Dataset, provenance: Provenance) -> str:
    """The cost of the truth, in FLOPs of its matmuls. It has no times, so that equal content gives equal files."""
    assert row.truth is not None
    flops = row.truth.n_samples * dataset.depth * 2 * dataset.width**2
    spent = {"flop_budget": flops, "flops_used": flops, "flops_remaining": 0, "flopscope_overhead_time_s": 0.0}
    return json.dumps({**spent, "provenance": {"sampler": provenance.sampler}})


def _document(dataset: Dataset, provenance: Provenance, part: Part) -> dict[str, Any]:
    version = dataset.protocol_version
    protocol = {"name": SEED_PROTOCOL_NAMES[cast(Version, version)], "version": version}
    if version == "4.0":  # the salt itself is never written
        protocol |= {"kdf": "blake2b-keyed", "salt_source": "env", "salt_digest": str(dataset.salt_digest)}
    document = {
        "backend": "whest",
        "seed_protocol": protocol,
        "created_at_utc": provenance.created_at.isoformat(),
        "split": provenance.split,
        "config": provenance.config,
        "width": dataset.width,
        "depth": dataset.depth,
        "sampler": provenance.sampler,
        "standard_error": provenance.standard_error,
        "command": provenance.command,
        "hardware": dict(provenance.hardware),
        "versions": dict(provenance.versions),
    }
    if version == "2.0":
        document["seed"] = dataset.seed
    elif dataset.seed is not None:  # `seed` is the reference's key, and only for protocol 2.0
        document["root_seed"] = dataset.seed
    if not part.is_whole:
        document |= {"is_partial": True, "mlp_range": [part.start, part.end], "total_n_mlps": part.total}
    return document
