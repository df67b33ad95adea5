"""The two folders of a contest, and writes that survive a crash at any moment."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from whest.errors import ConfigError
from whest.files import write_atomically

MANIFEST, LOG, HEAD, SIGNED = "contest.json", "log.jsonl", "head.json", "board.signed.json"
BOARD = ("board.json", "board.csv", "board.html")
"""The files of the board, which SIGNED signs."""
RECEIPTS, ENTRIES, REPORTS = "receipts", "entries", "reports"
"""Folders: a signed receipt per entry; entries and the reports of their runs, once the contest is closed."""
UNFINISHED = re.compile(r"\.(contest|head|board|\d{6})[\w.-]*\.(json|csv|html|whest|py)\.\w{8}")
"""Files that were being written."""
KEY, SECRET, LOCK, RUNS = "key", "secret", "lock", "runs"
"""In the private folder."""


@dataclass(frozen=True)
class Place:
    """Where a contest lives: a folder to publish, and one to keep."""

    public: Path
    private: Path

    @property
    def is_open(self) -> bool:
        return (self.public / LOG).exists()


def place_of(public: Path, private: Path | None) -> Place:
    """The private folder is beside the published one unless it was named. It can't be inside."""
    public = public.absolute()
    chosen = private.absolute() if private is not None else public.with_name(f"{public.name}.private")
    if chosen.resolve().is_relative_to(public.resolve()):
        raise ConfigError(f"host.private={chosen} lies in output={public}, which is published: keep it elsewhere")
    return Place(public, chosen)


def stray_names(public: Path) -> list[str]:
    """What lies in a published folder and is no part of a contest. No signature covers it."""
    known = {MANIFEST, LOG, HEAD, SIGNED, *BOARD, RECEIPTS, ENTRIES, REPORTS}
    return sorted(path.name for path in public.iterdir() if path.name not in known)


def entry_name(number: int) -> str:
    """How an entry is called in file names, on the board and in commands."""
    return f"{number:06d}"


def keep(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file so that after a crash either the old one or the new one is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode & 0o077:
        write_atomically(path, content)
    else:
        _write_secret(path, content, mode)
    settle(path.parent)


def _write_secret(path: Path, content: bytes, mode: int) -> None:
    """As above, for a file that others may not read at any moment."""
    neighbour = path.with_name(f".{path.name}.new")
    neighbour.unlink(missing_ok=True)
    handle = os.open(neighbour, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)
    neighbour.replace(path)


def tidy(place: Place) -> None:
    """Remove what a killed process left: files that were being written. The folder's lock is held."""
    inner = [place.public / name for name in (RECEIPTS, ENTRIES, REPORTS)]
    for folder in (place.public, *inner, place.private / ENTRIES):
        for path in folder.glob(".*"):
            if UNFINISHED.fullmatch(path.name) and path.is_file():
                path.unlink()


def settle(folder: Path) -> None:
    """Have the names in a folder on disk: a rename alone may be lost with the power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
