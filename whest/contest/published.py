"""A contest's folder as somebody published it: its manifest and log, and the problems that are found in it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from whest.contest.board import of_kind
from whest.contest.keys import Document, canonical, sha256
from whest.contest.log import DamagedError, read_lines, read_log, read_signed, shown_line
from whest.contest.rules import FORMAT
from whest.contest.storage import LOG, MANIFEST, entry_name
from whest.files import read_bounded


@dataclass(frozen=True)
class Problem:
    """What is wrong, and where: a file of the folder, with a line or an entry if there is one to name."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Published:
    """A contest's folder whose manifest and log could be read."""

    folder: Path
    manifest: Document
    lines: Sequence[Document]

    @property
    def secret(self) -> bytes | None:
        """The secret seed, if it was revealed."""
        closed = of_kind(self.lines, "closed")
        return bytes.fromhex(closed[-1]["secret"]) if closed else None


Found = Iterator[Problem]


def open_published(folder: Path) -> tuple[Published | None, list[Problem]]:
    """Read manifest and log. Without them nothing else can be checked."""
    problems = []
    manifest: Document = {}
    try:
        manifest = read_signed(folder / MANIFEST)
        if manifest.get("format") != FORMAT:
            problems.append(Problem(MANIFEST, f"it has format {manifest.get('format')}, this whest reads {FORMAT}"))
    except DamagedError as error:
        problems.append(Problem(MANIFEST, str(error).removeprefix(f"{MANIFEST}: ")))
    lines: list[Document] = []
    try:
        content = read_log(folder)
        lines, torn = read_lines(content)
        if torn:
            problems.append(Problem(shown_line(len(lines)), "it is torn"))
    except DamagedError as error:
        where, _, what = str(error).partition(": ")
        problems.append(Problem(where, what))
    if lines and manifest and sha256(canonical(manifest) + b"\n") != lines[0].get("manifest"):
        problems.append(Problem(MANIFEST, "it is not the one that the log's first line names"))
    problems += numbering(lines)
    if not lines and not problems:
        problems.append(Problem(LOG, "it is empty"))
    return (None if problems else Published(folder, manifest, lines)), problems


def numbering(lines: Sequence[Document]) -> list[Problem]:
    """Entries are numbered in order, and nothing else is a name of a file here."""
    received = [line for line in lines if line.get("kind") == "received"]
    wrong = [line for place, line in enumerate(received) if line.get("entry") != entry_name(place + 1)]
    known = [line.get("entry") for line in received]  # no set: a stranger's value may have no hash
    wrong += [line for line in lines if line.get("kind") in ("scored", "verdict") and line.get("entry") not in known]
    return [Problem(shown_line(line["n"]), "its entry has a number that is not in order") for line in wrong]


def content_of(path: Path, most: int) -> bytes | None:
    try:
        return read_bounded(path, most)
    except (OSError, ValueError):
        return None


def strangers(folder: Path, name: str, known: set[str]) -> Found:
    """Files that the log knows nothing of."""
    place = folder / name
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.name not in known and not re.match(r"\.", path.name):
            yield Problem(f"{name}/{path.name}", "the log knows nothing of it")
