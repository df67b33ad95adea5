"""Files that are written completely or not at all."""

import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DIGEST_BYTES = hashlib.sha256().digest_size


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays with their digest in front, completely or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    content = buffer.getvalue()
    write_atomically(path, hashlib.sha256(content).digest() + content)


def read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """Arrays from `write_arrays`; None if the file is missing or damaged."""
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
