"""One bake by many jobs: each draws the truth of its slice, and the first process writes the dataset at the end.

What a job has drawn is in the truth cache of its machine. If that folder is not the first process's own, the job hands
the cache's files over as bytes. So nothing but the command must be shared, and the dataset is written by one process,
as if it had drawn everything itself: the same bytes.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from whest.dataset.bake import Bake
from whest.errors import JobFailedError, WhestError
from whest.files import DIGEST_BYTES, write_atomically
from whest.truth.cache import TruthCache

VARIABLE = "WHEST_BAKE_MARK"
"""In a job's environment: the name of a file in the first process's cache, by which the job sees that they share it."""
ENTRY = re.compile(r"[0-9a-f]{40}\.(npz|moments)")


@dataclass(frozen=True)
class Drawn:
    """What a slice's job hands back."""

    slice: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Entries of the truth cache by name; none if the first process sees them itself."""
    problem: str | None = None


@contextmanager
def marked(cache: TruthCache) -> Iterator[dict[str, str]]:
    """The variables by which jobs tell whether they share this cache."""
    mark = cache.folder / f".bake-{secrets.token_hex(8)}"
    write_atomically(mark, b"")
    try:
        yield {VARIABLE: mark.name}
    finally:
        mark.unlink(missing_ok=True)


def hand_over(bake: Bake, name: str) -> Drawn:
    """The drawn slice, with its files if the first process can't see them."""
    mark = os.environ.get(VARIABLE)
    if mark is None or (bake.cache.folder / mark).exists():
        return Drawn(name)
    return Drawn(name, {path.name: path.read_bytes() for path in bake.files()})


def failed(name: str, error: Exception) -> Drawn:
    reason = str(error) if isinstance(error, WhestError) else f"{type(error).__name__}: {error}"
    return Drawn(name, problem=reason)


def take_over(bake: Bake, returned: Sequence[object]) -> None:
    """Put the files that were handed over into the cache. An error names the slices that failed or lack a file."""
    problems = []
    for one in returned:
        if not isinstance(one, Drawn):
            problems.append(f"{type(one).__name__}: {one}")
            continue
        problems += [f"slice {one.slice}: {one.problem}"] if one.problem else []
        for name, content in one.files.items():
            _keep(bake.cache.folder / name, content)
    if problems:
        raise JobFailedError(f"{'; '.join(problems)}. {KEPT}")
    missing = [path.name for path in bake.files() if not path.exists()]
    if missing:
        raise JobFailedError(f"the jobs left no truth of {len(missing)} MLPs ({missing[0]}). {KEPT}")


KEPT = "The MLPs that are finished are kept: the same command goes on"


def _keep(path: Path, content: bytes) -> None:
    is_whole = hashlib.sha256(content[DIGEST_BYTES:]).digest() == content[:DIGEST_BYTES]
    if not ENTRY.fullmatch(path.name) or not is_whole:
        raise JobFailedError(f"{path.name} came back damaged. {KEPT}")
    if not path.exists():
        write_atomically(path, content)
