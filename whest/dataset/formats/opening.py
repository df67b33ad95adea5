"""Open a stored dataset. The path decides the format, the name decides the split."""

from pathlib import Path

from whest.dataset.formats.metadata import (
    NPZ_SCHEMAS,
    PARQUET_SCHEMA,
    Document,
    check_schema,
    choose_split,
    parse_header,
    parse_json,
    refused,
)
from whest.dataset.formats.npz import METADATA_LIMIT, NpzReader, read_npz_metadata
from whest.dataset.formats.parquet import ParquetReader, find_shards, find_splits
from whest.dataset.formats.places import own_file
from whest.dataset.formats.split import StoredSplit
from whest.errors import ConfigError
from whest.files import read_bounded

METADATA = "metadata.json"


def read_document(path: Path) -> Document:
    """The metadata of a Parquet directory or an .npz file. The schema version must be a known one."""
    if path.is_dir():
        document = _directory_document(path)
        check_schema(document, (PARQUET_SCHEMA,), path)
    elif path.is_file():
        document = read_npz_metadata(path)
        check_schema(document, NPZ_SCHEMAS, path)
    else:
        raise refused(path, "no such dataset", "Give the path of a Parquet directory or of an .npz file")
    return document


def open_split(path: Path, split: str | None = None, *, partial: bool = False) -> StoredSplit:
    """One split, with its header checked and its rows still on disk. A slice is refused unless `partial` is set."""
    header = parse_header(choose_split(read_document(path), split, path), path)
    if not header.part.is_whole and not partial:
        part = header.part
        raise refused(
            path,
            f"it is a partial dataset: MLPs [{part.start},{part.end}) of {part.total}",
            f"Merge it with the others first: python -m whest job=merge inputs=[{path.name},…] output=DIR",
        )
    if path.is_dir():
        return StoredSplit(header, ParquetReader(header, find_shards(path, header.stated.split)))
    return StoredSplit(header, NpzReader(header, path))


def _directory_document(path: Path) -> Document:
    try:
        document = parse_json(read_bounded(own_file(path, path / METADATA), METADATA_LIMIT).decode(), path)
    except FileNotFoundError:
        raise refused(path, f"it has no {METADATA}, so it is not a dataset", "Give the folder that holds it") from None
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise refused(path, f"{METADATA} can't be read ({error})", "Restore the file or bake it again") from None
    found = find_splits(path)
    if "split" not in document and "splits" not in document and len(found) == 1:
        document["split"] = found[0]
    return document
