"""The metadata of a stored dataset: `metadata.json`, or the metadata member of an .npz file, as one typed header.

Every field is checked before any array is read. No memory is allocated because of an unchecked value.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from whest.config.build import build_target
from whest.dataset.dataset import Count, Size
from whest.errors import ConfigError
from whest.mlp import SEED_PROTOCOL_NAMES, VERSIONS, SeedProtocol, Streams, Version, legacy_stream, salted_protocol

Document = Mapping[str, Any]
PARQUET_SCHEMA, PARQUET_FORMAT = "3.0", "hf-datasets-parquet"
NPZ_SCHEMAS = ("2.4", "2.3")
DEFAULT_SPLIT = "public"

SPLIT_NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"

Name = Annotated[str, Field(pattern=f"^{SPLIT_NAME}$", max_length=100)]

Bounds = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1, le=1_000_000)]]


@dataclass(frozen=True)
class Part:
    """The MLPs [start, end) of a slice, out of the `total` MLPs of the whole dataset."""

    start: int
    end: int
    total: int

    @property
    def is_whole(self) -> bool:
        return (self.start, self.end) == (0, self.total)


@dataclass(frozen=True)
class Stated:
    """The fields that are read, with their names in the file."""

    width: Size
    depth: Size
    n_mlps: Count
    n_samples: Annotated[int, Field(ge=1, le=10**15)]
    split: Name = DEFAULT_SPLIT
    config: Name = "default"
    backend: str | None = None
    seed: Annotated[int, Field(ge=0, lt=2**128)] | None = None
    root_seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """The seed from which whest drew the MLPs' own seeds; None if they were given one by one."""
    sampler: str | None = None
    standard_error: Annotated[float, Field(gt=0)] | None = None
    """The standard error at which sampling stopped for every MLP; None if a number of samples was set."""
    is_partial: bool = False
    mlp_range: Bounds | None = None
    total_n_mlps: Count | None = None
    content_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    content_mlp_range: Bounds | None = None
    moments_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of the moments alone: `content_sha256` is that of the same dataset without them, so scores stay comparable."""


@dataclass(frozen=True)
class Header:
    """The checked metadata of one split."""

    path: Path
    stated: Stated
    protocol: SeedProtocol
    part: Part
    document: Document = field(repr=False)
    """The metadata as stored, so that the provenance can be copied."""

    @property
    def content_range(self) -> range:
        """The MLPs that content_sha256 covers: those of the part that was written with it."""
        return range(*(self.stated.content_mlp_range or (self.part.start, self.part.end)))

    @property
    def decoded_bytes(self) -> int:
        """The memory that one MLP needs while it is decoded, checked and copied. Compression doesn't change it."""
        arrays = 1 if self.stated.moments_sha256 is None else 2  # covariances are as large as the weights
        return 3 * 4 * arrays * self.stated.depth * self.stated.width**2

    def streams(self, index: int, mlp_seed: int) -> Streams:
        if self.protocol.version != "2.0":
            return self.protocol.streams(mlp_seed)
        assert self.stated.seed is not None
        return legacy_stream(self.stated.seed, index)


def require_word(key: str, name: str) -> None:
    """Check the name of a split or config that we write. `datasets` allows no hyphen in a split; WhestBench does."""
    if re.fullmatch(r"[a-z][a-z0-9]*", name) is None:
        raise ConfigError(f"{key}={name} must be lower-case letters and digits, starting with a letter")


def refused(path: Path, what: str, remedy: str) -> ConfigError:
    return ConfigError(f"{path}: {what}. {remedy}")


def parse_json(text: str, path: Path) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refused(
            path, f"its metadata is not JSON ({error})", "Restore the file or bake the dataset again"
        ) from None
    if not isinstance(document, dict):
        raise refused(path, "its metadata is not a JSON object", "Restore the file or bake the dataset again")
    return document


def split_names(document: Document, path: Path) -> list[str]:
    """The splits of a document. A document without a list has a single split."""
    if "splits" not in document:
        return [_split_name(document.get("split", DEFAULT_SPLIT), path)]
    splits = document["splits"]
    if not isinstance(splits, dict) or not splits or not all(isinstance(info, dict) for info in splits.values()):
        raise refused(path, "metadata.splits must be an object with one object per split", "Combine the splits again")
    if document.get("is_partial"):
        raise refused(path, "it is partial and has several splits", "Merge each split's parts first, then combine")
    return [_split_name(name, path) for name in splits]


def _split_name(name: Any, path: Path) -> str:
    """A split's name is part of file names, so it holds no separator, dot or pattern."""
    if not isinstance(name, str) or len(name) > 100 or re.fullmatch(SPLIT_NAME, name) is None:
        raise refused(path, f"metadata.split names {str(name)[:100]!r}", "Use lower-case letters, digits and hyphens")
    return name


def choose_split(document: Document, split: str | None, path: Path) -> dict[str, Any]:
    """The document of one split: the given one, or else the default, or else the only one."""
    names = split_names(document, path)
    chosen = split if split is not None else document.get("default_split", names[0] if len(names) == 1 else None)
    known = ", ".join(names)
    if chosen is None:
        raise refused(path, "it has several splits and no default", f"Choose one with split=…: {known}")
    if chosen not in names:
        raise refused(path, f"it has no split {chosen!r}", f"Its splits are: {known}")
    common = {key: value for key, value in document.items() if key not in ("splits", "default_split")}
    return common | (document["splits"][chosen] if "splits" in document else {}) | {"split": chosen}


def parse_header(document: Document, path: Path) -> Header:
    """Check one split's document. `check_schema` has checked its schema version before."""
    known = {item.name for item in fields(Stated)}
    try:
        stated: Stated = build_target(Stated, {k: v for k, v in document.items() if k in known}, "metadata")
        protocol = _protocol(document.get("seed_protocol"), path)
    except ConfigError as error:
        raise error if str(error).startswith(str(path)) else ConfigError(f"{path}: {error}") from None
    if (protocol.version == "2.0") != (stated.seed is not None):
        must = "needs its root seed in" if stated.seed is None else "has one seed per MLP and none in"
        raise refused(path, f"seed protocol {protocol.version} {must} metadata.seed", "Bake the dataset again")
    return Header(path, stated, protocol, _part(stated, path), document)


def check_schema(document: Document, allowed: tuple[str, ...], path: Path) -> None:
    version = document.get("schema_version")
    if version not in allowed:
        block = document.get("seed_protocol")
        if isinstance(block, dict) and "version" in block and block["version"] not in VERSIONS:
            _protocol(block, path)  # a file of an old protocol is told so, whatever its schema
        raise refused(
            path,
            f"schema_version is {version!r}, this whest reads {' and '.join(allowed)} here",
            "Bake it again with python -m whest job=bake output=DIR",
        )


def _protocol(block: Any, path: Path) -> SeedProtocol:
    block = block if isinstance(block, dict) else {}
    version = block.get("version")
    if version not in VERSIONS:
        raise refused(
            path,
            f"Incompatible dataset seed_protocol version: file has {version!r}, this whest requires '2.0' (or '3.0', "
            "'4.0')",
            "Re-bake it: python -m whest job=bake dataset=fresh output=DIR",
        )
    if block.get("name") != SEED_PROTOCOL_NAMES[cast(Version, version)]:
        raise refused(path, f"seed_protocol {version} is not called {block.get('name')!r}", "Bake the dataset again")
    return _salted(block, path) if version == "4.0" else SeedProtocol(cast(Version, version))


def _salted(block: Document, path: Path) -> SeedProtocol:
    source, digest, salt = block.get("salt_source", "metadata"), block.get("salt_digest"), block.get("salt")
    if source not in ("metadata", "env") or not isinstance(digest, str):
        raise refused(path, "seed protocol 4.0 needs salt_source (metadata, env) and salt_digest", "Bake it again")
    if (source == "metadata") != isinstance(salt, str):
        raise refused(path, f"salt_source is {source!r}, which doesn't fit its salt field", "Bake it again")
    return salted_protocol(digest, salt)


def _part(stated: Stated, path: Path) -> Part:
    if not stated.is_partial:
        return Part(0, stated.n_mlps, stated.n_mlps)
    if stated.mlp_range is None or stated.total_n_mlps is None:
        raise refused(path, "it is partial but lacks mlp_range or total_n_mlps", "Bake the slice again")
    part = Part(*stated.mlp_range, stated.total_n_mlps)
    if not part.start < part.end <= part.total or part.end - part.start != stated.n_mlps:
        raise refused(
            path,
            f"mlp_range [{part.start},{part.end}) doesn't fit {stated.n_mlps} of {part.total} MLPs",
            "Bake the slice again",
        )
    return part
