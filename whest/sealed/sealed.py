"""A sealed file, opened: what it says about itself, and the programs that fit a run."""

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec
from whest.files import TooLargeError, read_bounded
from whest.isolation.channel import Message, read_frame
from whest.isolation.wire import LENGTH, PROGRAM, RefusedError, frame, parse_header
from whest.sealed.container import (
    FORMAT,
    LARGEST_FILE,
    Entry,
    Header,
    SealedFileError,
    Versions,
    pack,
    read_file,
    unpack,
    write_file,
)
from whest.sealed.purpose import Purpose

Programs = tuple[Message, list[np.ndarray]]
"""The message of a worker that traced: programs as JSON, and the arrays beside them."""


@dataclass(frozen=True)
class Traced:
    """Programs that are to be sealed, and what was measured of them."""

    purpose: Purpose
    programs: Programs
    flops: Mapping[str, Mapping[str, int]]
    seed: int
    recipe: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Sealed:
    """A file that was read and whose header is in order. A part is unpacked when it is asked for."""

    header: Header
    stored: Sequence[memoryview]
    sha256: str
    n_bytes: int

    def entry(self, wanted: Purpose, key: str) -> Entry:
        """The entry for a run; an error that names what there is if none fits."""
        for entry in self.header.entries:
            if entry.purpose == wanted:
                return entry
        there = "; ".join(str(entry.purpose) for entry in self.header.entries[:8])
        raise ConfigError(
            f"{key} was sealed for {there}, and this run is {wanted}: seal it for this one, "
            f"job=seal {wanted.seal_words}, or run it as it was sealed, {self.header.entries[0].purpose.run_words}"
        )

    def programs(self, entry: Entry) -> Programs:
        """The programs of an entry, bounded as a worker's message is, and not read yet."""
        text = bytearray(self._part(entry.document))
        content = self._part(entry.arrays)
        try:
            message, shapes = read_frame(parse_header(text, PROGRAM, is_strict=True), PROGRAM)
        except RefusedError as error:
            raise SealedFileError(f"its programs can't be read: {error}") from None
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in shapes]
        if sum(sizes) != len(content):
            raise SealedFileError(f"its arrays have {len(content):,} bytes, and their shapes say {sum(sizes):,}")
        arrays, place = [], 0
        for (dtype, shape), size in zip(shapes, sizes, strict=True):
            arrays.append(_native(np.frombuffer(content[place : place + size], dtype)).reshape(shape))
            place += size
        return message, arrays

    def _part(self, number: int) -> bytes:
        return unpack(self.header.parts[number], self.stored[number])


def sealed_programs(spec: EstimatorSpec, wanted: Purpose) -> Programs | None:
    """The programs of a sealed estimator for a run; None for any other estimator."""
    if not spec.is_sealed or spec.path is None:
        return None
    sealed = open_sealed(spec.path)
    entry = sealed.entry(wanted, f"estimator.path={spec.path}")
    try:
        return sealed.programs(entry)
    except SealedFileError as error:
        raise ConfigError(f"estimator.path={spec.path} can't be used: {error}") from None


def _native(array: np.ndarray) -> np.ndarray:
    """Files are little-endian."""
    return array if sys.byteorder == "little" else array.byteswap()


def open_sealed(path: Path, key: str = "estimator.path") -> Sealed:
    """Read a sealed file. What is none, or is damaged, is a config error that says why."""
    try:
        return read_sealed(read_bounded(path, LARGEST_FILE))
    except TooLargeError as error:
        raise ConfigError(f"{key}={path} is no sealed program: {error}") from None
    except OSError as error:
        raise ConfigError(f"{key}={path} can't be read ({error.strerror}): name a file that job=seal wrote") from None
    except SealedFileError as error:
        raise ConfigError(f"{key}={path} can't be used: {error}") from None


def read_sealed(content: bytes) -> Sealed:
    header, stored = read_file(content)
    return Sealed(header, stored, hashlib.sha256(content).hexdigest(), len(content))


def write_sealed(
    name: str, author: str, words: str, source_sha256: str | None, versions: Versions, traced: Sequence[Traced]
) -> bytes:
    """The file of these programs. Parts that are the same are stored once."""
    parts: dict[bytes, int] = {}
    entries = []
    for each in traced:
        message, arrays = each.programs
        contiguous = [np.asarray(array, order="C") for array in arrays]
        shapes = [[array.dtype.name, list(array.shape)] for array in contiguous]
        document = frame({"message": message, "arrays": shapes})[LENGTH.size :]
        numbers = (document, b"".join(_native(array).tobytes() for array in contiguous))
        first, second = (parts.setdefault(content, len(parts)) for content in numbers)
        flops = {program: dict(spaces) for program, spaces in each.flops.items()}
        recipe = None if each.recipe is None else dict(each.recipe)
        entries.append(Entry(each.purpose, each.seed, flops, first, second, recipe))
    packed = [pack(content) for content in parts]
    header = Header(FORMAT, name, author, words, source_sha256, versions, entries, [part for part, _ in packed])
    content = write_file(header, [stored for _, stored in packed])
    read_sealed(content)  # what can't be read back is not written
    return content
