""".npz datasets, schema 2.4 and 2.3: members are read from the archive row by row, and never unpickled.

NumPy's own loader would hold a whole member in memory. Here NumPy parses only a member's header (it is a literal, not
code), an object dtype is refused, and rows are read in order. Reading an earlier row starts the member again.
"""

import json
import weakref
import zipfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from whest.dataset.formats.metadata import Document, Header, parse_json, refused
from whest.dataset.formats.split import LONGEST_NAME, RESTORE, Cells, require_memory
from whest.errors import ConfigError
from whest.files import require_modest_archive
from whest.mlp import distinct_names
from whest.truth.moments import moment_shapes

METADATA_LIMIT = 2**22
"""Bytes of the metadata: parsed it takes up to twenty times as much memory."""

BREAKDOWN_LIMIT = 2**24
"""Bytes of the breakdowns of all MLPs together, where 8 kB per MLP are not more."""

KINDS = {
    "weights": "<f4",
    "all_layer_means": "<f4",
    "final_means": "<f4",
    "standard_errors": "<f4",
    "avg_variances": "<f8",
    "mlp_seeds": "iu",
    "n_samples": "iu",
    "n_replicates": "iu",
    "n_moment_samples": "iu",
    "mlp_names": "U",
    "sampling_budget_breakdowns": "U",
    "metadata": "U",
}
"""The dtype of each member, or the kinds of dtype it may have. Those of `moment_shapes` are <f4."""


class Member:
    """One array of the archive, read from front to back."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._name = archive, name
        self._stream = self._open()
        self._position = 0

    def _open(self) -> IO[bytes]:
        stream = self._archive.open(f"{self._name}.npy")
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):  # a later version's header can have 4 GB, which NumPy reads whole
            raise ValueError(f"{self._name} has an array header of version {version}; save it with plain dtypes")
        self.shape, fortran, self.dtype = np.lib.format.read_array_header_1_0(stream)
        kind = KINDS.get(self._name, "<f4")
        if not (self.dtype == np.dtype(kind) if kind.startswith("<") else self.dtype.kind in kind):
            raise ValueError(f"{self._name} has dtype {self.dtype}, a dataset's is {kind}")
        if fortran and len(self.shape) > 1:
            raise ValueError(f"{self._name} is in Fortran order; save it in C order")
        return stream

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def whole(self) -> np.ndarray:
        """The whole array of a small member."""
        with self._open() as stream:
            array = np.frombuffer(_read(stream, self.n_bytes, self._name), self.dtype).reshape(self.shape)
            if stream.read(1):
                raise ValueError(f"{self._name} is longer than its shape")
        return array

    def row(self, position: int) -> np.ndarray:
        if position < self._position:
            self._stream.close()
            self._stream, self._position = self._open(), 0
        size = self.n_bytes // self.shape[0]
        while self._position <= position:
            content = _read(self._stream, size, self._name)
            self._position += 1
        if self._position == self.shape[0] and self._stream.read(1):  # reading to the end checks the archive's checksum
            raise ValueError(f"{self._name} is longer than its shape")
        return np.frombuffer(content, self.dtype).reshape(self.shape[1:])


class NpzReader:
    """An .npz file as a sequence of MLPs."""

    def __init__(self, header: Header, path: Path) -> None:
        self._header, self._path = header, path
        self.n_bytes = path.stat().st_size
        self._archive = _archive(path)
        stated = header.stated
        n, depth, width = stated.n_mlps, stated.depth, stated.width
        shapes: dict[str, tuple[int, ...]] = {
            "weights": (n, depth, width, width),
            "all_layer_means": (n, depth, width),
            "final_means": (n, width),
            "standard_errors": (n, depth, width),
            **dict.fromkeys(("avg_variances", "mlp_seeds", "mlp_names", "n_samples", "n_replicates"), (n,)),
        }
        self._moments = moment_shapes(width, depth) if stated.moments_sha256 is not None else {}
        shapes |= {name: (n, *shape) for name, shape in self._moments.items()}
        shapes |= {"n_moment_samples": (n,)} if self._moments else {}
        optional = ["standard_errors", "n_samples", "n_replicates"]
        optional += ["mlp_names"] if header.document.get("schema_version") == "2.3" else []
        there = [name for name in shapes if name not in optional or f"{name}.npy" in self._archive.namelist()]
        self._members = {name: self._member(name, shapes[name]) for name in there}
        rows = [member.n_bytes // n for member in self._members.values() if len(member.shape) > 1]
        columns = [member.n_bytes for member in self._members.values() if len(member.shape) == 1]
        names = self._members.get("mlp_names")
        if names is not None and names.dtype.itemsize > 4 * LONGEST_NAME:
            raise refused(path, f"mlp_names has room for {names.dtype.itemsize // 4} letters per name", RESTORE)
        require_memory(header, max(*rows, *columns, header.decoded_bytes), "one MLP or column of it")

    def _member(self, name: str, shape: tuple[int, ...]) -> Member:
        try:
            member = Member(self._archive, name)
        except KeyError:
            there = ", ".join(self._archive.namelist()[:20])
            raise refused(self._path, f"it has no {name}; it holds {there}", "Is this a WhestBench dataset?") from None
        except Exception as error:
            raise refused(self._path, f"{name} can't be read ({error})", RESTORE) from error
        if member.shape != shape:
            raise refused(self._path, f"{name} has shape {member.shape}, metadata says {shape}", RESTORE)
        return member

    @cached_property
    def _columns(self) -> dict[str, Sequence[Any]]:
        """The members with one number or word per MLP."""
        columns: dict[str, Sequence[Any]] = {
            name: member.whole().tolist() for name, member in self._members.items() if len(member.shape) == 1
        }
        if "mlp_names" not in columns:
            columns["mlp_names"] = distinct_names(self._name_seeds(columns["mlp_seeds"]))
        columns["breakdowns"] = self._breakdowns()
        return columns

    def _name_seeds(self, mlp_seeds: Sequence[int]) -> list[int]:
        header, start = self._header, self._header.part.start
        streams = [header.streams(start + i, seed) for i, seed in enumerate(mlp_seeds)]
        return [header.protocol.name_seed(seed, s.estimator_seed) for seed, s in zip(mlp_seeds, streams, strict=True)]

    def _breakdowns(self) -> list[str]:
        """One JSON string per MLP, from one list for all. It is only provenance, so a file may lack it."""
        n = self._header.stated.n_mlps
        if "sampling_budget_breakdowns.npy" not in self._archive.namelist():
            return ["{}"] * n
        member = self._member("sampling_budget_breakdowns", ())
        if member.n_bytes > max(BREAKDOWN_LIMIT, min(8192 * n, 2**27)):
            raise ValueError("sampling_budget_breakdowns is too long")
        found = json.loads(str(member.whole()))
        if not isinstance(found, list) or len(found) != n:
            raise ValueError(f"sampling_budget_breakdowns is not a list of {n}")
        return [json.dumps(item) for item in found]

    def cells(self, position: int) -> Cells:
        columns, members = self._columns, self._members
        replicates = columns["n_replicates"][position] if "n_replicates" in columns else 0
        return Cells(
            mlp_id=self._header.part.start + position,
            mlp_name=columns["mlp_names"][position],
            mlp_seed=columns["mlp_seeds"][position],
            weights=members["weights"].row(position),
            all_layer_means=members["all_layer_means"].row(position),
            final_means=members["final_means"].row(position),
            avg_variance=columns["avg_variances"][position],
            sampling_budget_breakdown=columns["breakdowns"][position],
            standard_errors=members["standard_errors"].row(position) if "standard_errors" in members else None,
            n_samples=columns["n_samples"][position] if "n_samples" in columns else None,
            n_replicates=replicates or None,
            moments={name: members[name].row(position) for name in self._moments} if self._moments else None,
            n_moment_samples=columns["n_moment_samples"][position] if self._moments else None,
        )


def read_npz_metadata(path: Path) -> Document:
    try:
        with _archive(path) as archive:
            member = Member(archive, "metadata")
            if member.shape != () or member.n_bytes > METADATA_LIMIT:
                raise ValueError(f"metadata has shape {member.shape} and {member.n_bytes} bytes")
            text = str(member.whole())
    except ConfigError:
        raise
    except Exception as error:
        what = f"it is not an .npz dataset: its metadata can't be read ({error})"
        raise refused(path, what, "Give a file with schema 2.3 or 2.4, or a Parquet directory") from error
    return parse_json(text, path)


def _archive(path: Path) -> zipfile.ZipFile:
    """An open archive. Its file is closed when the archive is garbage-collected."""
    require_modest_archive(path)
    file = path.open("rb")
    try:
        archive = zipfile.ZipFile(file)
    except BaseException:
        file.close()
        raise
    weakref.finalize(archive, file.close)
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise refused(path, "it holds two members with the same name", RESTORE)
    return archive


def _read(stream: IO[bytes], n_bytes: int, name: str) -> bytes:
    """Read exactly `n_bytes`, in pieces, so that a header with a false size doesn't allocate that much memory."""
    pieces, missing = [], n_bytes
    while missing:
        piece = stream.read(min(missing, 2**24))
        if not piece:
            raise ValueError(f"{name} ends early")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
