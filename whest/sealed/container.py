"""The file of a sealed program: a header in JSON, and parts of bytes. docs/format.md describes it.

    magic | sha256 of all that follows | length of the header, 8 bytes | header | parts, one after the other

The file is a stranger's. Every size is bounded before memory is taken, a packed part can't grow beyond the size that it
states, and nothing in the file names a function, a module or another file.
"""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from whest.errors import WhestError
from whest.files import LARGEST_SEALED
from whest.isolation.wire import LARGEST_CONSTANTS, LARGEST_PROGRAM, LENGTH, Bounds, RefusedError, parse_header
from whest.sealed.purpose import Purpose

FORMAT = 1
"""Raised when an older reader would read a new file wrongly."""
MAGIC = b"WHEST sealed program\n"
DIGEST = hashlib.sha256().digest_size
LARGEST_FILE = LARGEST_SEALED
MOST_ENTRIES = 32
"""Shapes in one file."""
HEADER = Bounds(2**20, 40_000, 16, 300, 20_000, 0, 0)
STRICT = ConfigDict(extra="forbid", strict=True)
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=2**100)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class SealedFileError(WhestError):
    """A file that is no sealed program, or one that this version can't read."""


@dataclass(frozen=True)
class Part:
    """Bytes of the file. `size` is their number when they are unpacked."""

    __pydantic_config__ = STRICT

    packing: Literal["none", "deflate"]
    stored: Annotated[int, Field(ge=0, le=LARGEST_FILE)]
    size: Annotated[int, Field(ge=0, le=max(LARGEST_PROGRAM, LARGEST_CONSTANTS))]
    sha256: Sha256
    """Of the unpacked bytes."""


@dataclass(frozen=True)
class Entry:
    """The programs for one shape and budget."""

    __pydantic_config__ = STRICT

    purpose: Purpose
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    """What `setup` was told when it was traced."""
    flops: dict[str, dict[str, Count]]
    """The sealer's count: FLOPs by program and namespace. A claim; whoever runs it counts anew."""
    document: Annotated[int, Field(ge=0)]
    """The number of the part with the programs as JSON."""
    arrays: Annotated[int, Field(ge=0)]
    """The number of the part with their arrays."""
    recipe: dict[str, int | str] | None = None
    """How a learner is trained for an exam."""


@dataclass(frozen=True)
class Versions:
    """What it was sealed with."""

    __pydantic_config__ = STRICT

    whest: Name
    jax: Name
    meter: int
    programs: int
    """The format of the programs inside."""


@dataclass(frozen=True)
class Header:
    """All that a file says about itself."""

    __pydantic_config__ = STRICT

    format: int
    name: Name
    author: Annotated[str, Field(max_length=200)]
    words: Annotated[str, Field(max_length=4000)]
    source_sha256: Sha256 | None
    """Of the file that was traced."""
    versions: Versions
    entries: Annotated[list[Entry], Field(min_length=1, max_length=MOST_ENTRIES)]
    parts: Annotated[list[Part], Field(max_length=2 * MOST_ENTRIES)]


_HEADER = TypeAdapter(Header)


def pack(content: bytes) -> tuple[Part, bytes]:
    """A part and its stored bytes: packed where that is shorter."""
    packed = zlib.compress(content, 9)
    digest = hashlib.sha256(content).hexdigest()
    if len(packed) < len(content):
        return Part("deflate", len(packed), len(content), digest), packed
    return Part("none", len(content), len(content), digest), content


def write_file(header: Header, stored: Sequence[bytes]) -> bytes:
    """The same content always gives the same bytes: no dates, keys in order."""
    text = json.dumps(asdict(header), sort_keys=True, separators=(",", ":")).encode("ascii")
    rest = b"".join([LENGTH.pack(len(text)), text, *stored])
    content = MAGIC + hashlib.sha256(rest).digest() + rest
    if len(content) > LARGEST_FILE or len(text) > HEADER.header_bytes:
        raise SealedFileError(
            f"the sealed file would have {len(content):,} bytes and a header of {len(text):,}, at most "
            f"{LARGEST_FILE:,} and {HEADER.header_bytes:,} are read: seal fewer shapes, or smaller tables"
        )
    return content


def read_file(content: bytes) -> tuple[Header, tuple[memoryview, ...]]:
    """The header, checked, and the stored bytes of each part, which are not unpacked yet."""
    if len(content) > LARGEST_FILE:
        raise SealedFileError(f"it has more than {LARGEST_FILE:,} bytes")
    start = len(MAGIC) + DIGEST
    if not content.startswith(MAGIC) or len(content) < start + LENGTH.size:
        raise SealedFileError("it is no sealed program: it doesn't begin with the words of one, or is cut off")
    view = memoryview(content)
    if hashlib.sha256(view[start:]).digest() != view[len(MAGIC) : start]:
        raise SealedFileError("its sha256 doesn't fit: it was changed, or is cut off")
    (length,) = LENGTH.unpack_from(content, start)
    first = start + LENGTH.size
    if length > min(HEADER.header_bytes, len(content) - first):
        raise SealedFileError(f"it states a header of {length:,} bytes, which it doesn't have")
    header = _read_header(bytearray(view[first : first + length]))
    places = [first + length]
    for part in header.parts:
        places.append(places[-1] + part.stored)
    if places[-1] != len(content):
        raise SealedFileError("its parts have other lengths than its header states")
    return header, tuple(view[place:end] for place, end in pairwise(places))


def _read_header(text: bytearray) -> Header:
    try:
        fields = parse_header(text, HEADER, is_strict=True)
    except RefusedError as error:
        raise SealedFileError(f"its header can't be read: {error}") from None
    found = fields.get("format") if isinstance(fields, dict) else None
    if type(found) is not int or found != FORMAT:
        raise SealedFileError(f"it has format {str(found)[:20]}, and this whest reads format {FORMAT}: seal it again")
    try:
        header = _HEADER.validate_json(json.dumps(fields))
    except (ValidationError, RecursionError) as error:
        raise SealedFileError(f"its header is not in the form of docs/format.md: {_first_problem(error)}") from None
    for entry in header.entries:
        if entry.document >= len(header.parts) or entry.arrays >= len(header.parts):
            raise SealedFileError("its header names a part that isn't there")
    purposes = [entry.purpose for entry in header.entries]
    for place, purpose in enumerate(purposes):
        if purpose in purposes[:place]:
            raise SealedFileError(f"it has two entries for {purpose}: only one can count")
    return header


def _first_problem(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return type(error).__name__
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))[:200]}: {problem['msg'][:200]}"


def unpack(part: Part, stored: memoryview) -> bytes:
    """A part's bytes, never more than the size that it states."""
    if part.packing == "none":
        content = bytes(stored)
    else:
        unpacking = zlib.decompressobj()
        try:
            content = unpacking.decompress(stored, part.size + 1)
        except zlib.error as error:
            raise SealedFileError(f"a part can't be unpacked ({error})") from None
        if not unpacking.eof or unpacking.unused_data:
            raise SealedFileError("a part is not packed as its header states")
    if len(content) != part.size or hashlib.sha256(content).hexdigest() != part.sha256:
        raise SealedFileError("a part is not what its header states: another size or sha256")
    return content
