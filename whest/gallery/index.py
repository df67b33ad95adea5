"""The index of the gallery: a file with every entry, so that only new and changed files are read again.

An entry is known by its path, and its file by size and time. A lock lets the jobs of a sweep add theirs together. An
index that is missing, damaged or of another version is made again.
"""

import errno
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from whest.document import PAGE, REPORT
from whest.files import SWEEP_PAGE, SWEEP_STATE, write_atomically
from whest.gallery.entry import Entry, Kind, read_entry, sweep_entry
from whest.tracking.content import PARENT_FILE
from whest.tracking.local import LocalRuns, read_local_runs

INDEX = Path("cache") / "gallery.json"
VERSION = 3
DEEPEST = 6
SKIPPED = frozenset({"cache", "mlartifacts", "peer", "dist", "figures", "scratch", "champions"})
"""Folders of outputs that hold no runs of their own."""
FILES: Mapping[str, tuple[Kind, str]] = {
    REPORT: ("run", PAGE),
    "comparison.json": ("comparison", "comparison.html"),
    "board.json": ("board", "board.html"),
}
"""What a file makes of its folder, and the page beside it."""
PATIENCE_S = 5.0
"""How long a run waits for another one that writes the index."""

Stamp = tuple[int, int]
"""A file's size and time, in nanoseconds."""


@dataclass(frozen=True)
class Found:
    """A folder with a file of the gallery."""

    path: str
    kind: Kind
    stamp: Stamp
    page: str
    part_of: str


@dataclass
class Index:
    """The entries by path, each with the stamp of its file."""

    outputs: Path
    name: str = field(default_factory=lambda: secrets.token_hex(6))
    """A name of its own: the reader's stars and notes are kept under it."""
    entries: dict[str, Entry] = field(default_factory=dict)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    n_read: int = 0
    """How many files were read now."""

    def all(self) -> list[Entry]:
        """Every entry with its tags and id in MLflow, and the sweeps, the newest first."""
        local = read_local_runs(self.outputs)
        entries = [_with_run(entry, local) for entry in self.entries.values()]
        entries += [_with_run(sweep, local) for sweep in self._sweeps()]
        return newest_first(entries)

    def _sweeps(self) -> Iterator[Entry]:
        jobs: dict[str, list[Entry]] = {}
        for entry in self.entries.values():
            if entry.part_of and entry.part_of not in self.entries:
                jobs.setdefault(entry.part_of, []).append(entry)
        for path, members in jobs.items():
            folder = self.outputs / path
            page = f"{path}/{SWEEP_PAGE}" if (folder / SWEEP_PAGE).exists() else ""
            yield replace(sweep_entry(path, members, page), run_id=_parent_id(folder))


def newest_first(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.started, entry.path), reverse=True)


def _parent_id(folder: Path) -> str:
    try:
        return (folder / PARENT_FILE).read_text()[:64].strip()
    except (OSError, ValueError):
        return ""


def _with_run(entry: Entry, local: LocalRuns) -> Entry:
    run = local.find(entry.sha256, entry.path)
    if run is None:
        return entry
    tags = list(dict.fromkeys([*entry.tags, *run.tags]))
    return replace(entry, run_id=run.run_id, tags=tags, notes=entry.notes or run.notes)


def update_index(outputs: Path) -> Index:
    """Look through the outputs folder, read what is new or changed, forget what is gone, and keep the index."""
    everything = list(find(outputs))
    if not everything and not (outputs / INDEX).exists():
        return Index(outputs)
    try:
        with _locked(outputs):
            before, index = _compared(outputs, everything)
            if (index.entries, index.stamps) != (before.entries, before.stamps):
                write_index(index)
            return index
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return _compared(outputs, everything)[1]  # of a folder that may only be read, nothing is kept


def _compared(outputs: Path, everything: list[Found]) -> tuple[Index, Index]:
    """The index as it was kept, and as the files are now."""
    before = read_index(outputs)
    index = Index(outputs, before.name)
    for found in everything:
        index.stamps[found.path] = found.stamp
        index.entries[found.path] = _entry(found, before, index)
    return before, index


def add_folder(outputs: Path, folder: Path) -> Index | None:
    """Add what was just written to a folder below outputs. None if there is nothing to add."""
    if not folder.is_relative_to(outputs):
        return None
    path = folder.relative_to(outputs).as_posix()
    parent = folder.parent
    is_part = parent != outputs and (parent / SWEEP_STATE).exists()
    found = next(_found(outputs, path, _names(folder), path.rpartition("/")[0] if is_part else ""), None)
    with _locked(outputs):
        index = read_index(outputs)
        if found is None:
            return index if (folder / SWEEP_STATE).exists() else None
        index.entries[path] = _entry(found, index, index)
        index.stamps[path] = found.stamp
        write_index(index)
    return index


def _entry(found: Found, before: Index, index: Index) -> Entry:
    known = before.entries.get(found.path) if before.stamps.get(found.path) == found.stamp else None
    if known is None or known.kind != found.kind:
        known = read_entry(index.outputs / found.path, found.path, found.kind)
        index.n_read += 1
    started = known.started or _folder_date(found)
    return replace(known, page=found.page, part_of=found.part_of, started=started)


def _folder_date(found: Found) -> str:
    """When the file was written, for what tells no date itself."""
    return datetime.fromtimestamp(found.stamp[1] / 1e9, UTC).isoformat(timespec="seconds")


def find(outputs: Path) -> Iterator[Found]:
    """Every folder below outputs with a file of the gallery. Links are not followed."""
    yield from _walk(outputs, outputs, "", "", 0)


def _walk(outputs: Path, folder: Path, path: str, part_of: str, depth: int) -> Iterator[Found]:
    names = _names(folder)
    found = list(_found(outputs, path, names, part_of))
    yield from found
    if depth == DEEPEST or any(one.kind == "run" for one in found):
        return
    is_whole = SWEEP_STATE in names or any(one.kind == "comparison" for one in found)
    for name, entry in sorted(names.items()):
        if entry.is_dir(follow_symlinks=False) and name not in SKIPPED and not name.startswith("."):
            below = f"{path}/{name}" if path else name
            yield from _walk(outputs, folder / name, below, path if is_whole else "", depth + 1)


def _names(folder: Path) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry for entry in entries}
    except OSError:
        return {}


def _found(outputs: Path, path: str, names: Mapping[str, os.DirEntry[str]], part_of: str) -> Iterator[Found]:
    for name, (kind, page) in FILES.items():
        entry = names.get(name)
        if entry is None or not path or entry.is_symlink():
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        link = f"{path}/{page}" if page in names and not names[page].is_symlink() else ""
        yield Found(path, kind, (status.st_size, status.st_mtime_ns), link, part_of)


def read_index(outputs: Path) -> Index:
    """The index as it was kept; an empty one if there is none that can be used."""
    try:
        kept: Any = json.loads((outputs / INDEX).read_bytes())
        if kept["version"] != VERSION:
            return Index(outputs)
        entries = {entry["path"]: Entry(**entry) for entry in kept["entries"]}
        stamps = {path: (int(size), int(time)) for path, (size, time) in kept["stamps"].items()}
        return Index(outputs, str(kept["name"]), entries, stamps)
    except (OSError, ValueError, KeyError, TypeError):
        return Index(outputs)


def write_index(index: Index) -> None:
    kept = {
        "version": VERSION,
        "name": index.name,
        "stamps": index.stamps,
        "entries": [_known(entry) for entry in index.entries.values()],
    }
    write_atomically(index.outputs / INDEX, json.dumps(kept, separators=(",", ":"), allow_nan=False).encode())


def _known(entry: Entry) -> dict[str, Any]:
    """What the entry has: empty values are left out."""
    return {name: value for name, value in vars(entry).items() if value or value == 0}


@contextmanager
def _locked(outputs: Path) -> Iterator[None]:
    place = outputs / INDEX
    place.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(place.with_suffix(".lock"), timeout=PATIENCE_S):
        yield
