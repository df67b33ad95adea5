"""Files that are written whole or not at all, and files of strangers that are read within bounds."""

import errno
import hashlib
import io
import json
import math
import os
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

SWEEP_STATE, SWEEP_PAGE = "sweep_state.json", "sweep.html"
"""Files of a sweep, above the folders of its jobs."""
MOST_VALUES = 2_000_000
"""Values of a JSON document that is read whole."""

LARGEST_SOURCE = 2**24
"""Bytes of a file of a submission's code."""

SEALED, LARGEST_SEALED = ".whest", 2**26
"""How the name of a sealed program ends, and the bytes that such a file may have. It is data and never imported."""

LARGEST_DIRECTORY = 2**20
"""Bytes of a zip archive's directory: some thousand members."""

LARGEST_RATIO, FREE_BYTES = 20, 2**22
"""How much larger an archive may be than its packed bytes, and what is allowed to any archive."""

DIGEST_BYTES = hashlib.sha256().digest_size


class TooLargeError(ValueError):
    """A file with more bytes than one of its kind may have."""


def read_bounded(path: Path, most: int) -> bytes:
    """An ordinary file of at most so many bytes. A pipe or a device is refused and never waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        raise TooLargeError(f"it has more than {most:,} bytes")
    return content


def parse_document(content: bytes, *, is_strict: bool = True) -> Any:
    """JSON with a bound on its values: many small ones take twenty times the memory of their text.

    Strict JSON has no NaN and no Infinity, also not as 1e999; other programs write them all the same. Text with half of
    a letter (a lone surrogate) can't be written anywhere, so it is refused.
    """
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        raise TooLargeError(f"it has more than {MOST_VALUES:,} values")
    hooks: dict[str, Any] = {"parse_constant": _refuse_constant, "parse_float": _finite} if is_strict else {}
    try:
        document = json.loads(content, **hooks)
        if b"\\ud" in content.lower():
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return document


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no number that a float can hold")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def read_within(folder: Path, name: str, most: int) -> bytes:
    """A file below a folder: neither `..` nor a link leads out of it."""
    return read_bounded(inside(folder, name), most)


def inside(folder: Path, name: str) -> Path:
    """Where a name below a folder really is; an error if that is elsewhere."""
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise OSError(errno.EPERM, f"it leads out of {folder}", str(folder / name))
    return place


def is_writable_by_others(path: Path) -> bool:
    """Whether somebody else than this user and root may have written a file."""
    found = path.stat()
    return found.st_uid not in (os.geteuid(), 0) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def require_modest_archive(path: Path, most: int | None = None) -> None:
    """Refuse a zip bomb before a member is opened: by the sizes that the archive declares, which zipfile holds it to.

    `most` bounds all members together. Weights hardly shrink, so an archive that shrinks much holds no data.
    """
    with path.open("rb") as file:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # what ZipFile itself reads the directory by
        if end is None:
            raise zipfile.BadZipFile("it is no archive")
        if end[zipfile._ECD_SIZE] > LARGEST_DIRECTORY:  # type: ignore[attr-defined]
            raise TooLargeError(f"its directory has {end[zipfile._ECD_SIZE]:,} bytes")  # type: ignore[attr-defined]
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise TooLargeError(f"{member.filename[:50]} is packed by another method than deflate")
    unpacked, packed = sum(member.file_size for member in members), path.stat().st_size
    if unpacked > FREE_BYTES + LARGEST_RATIO * packed or (most is not None and unpacked > most):
        raise TooLargeError(f"it has {packed:,} bytes and unpacks to {unpacked:,}")


def remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder if it is empty, and with it the folders up to `root` that then are empty too."""
    above = [place for place in folder.parents if place.is_relative_to(root.absolute())]
    with suppress(OSError):
        for place in (folder, *above):
            place.rmdir()


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays with their digest in front, completely or not at all."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content = buffer.getvalue()
    write_atomically(path, hashlib.sha256(content).digest() + content)


def read_arrays(path: Path) -> "dict[str, np.ndarray] | None":
    """Arrays from `write_arrays`; None if the file is missing or damaged."""
    import numpy as np

    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file in the same folder, then move it over the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, neighbour = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(neighbour).chmod(0o666 & ~_umask())
        Path(neighbour).replace(path)
    except BaseException:
        Path(neighbour).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
