"""The inbox's files: found, then opened, while strangers may change it at any moment.

A name is never followed: folders and files are opened by their open parent, without links, and a file must be the one
that was seen. What can't be read is an arrival too, with its problem; it stops nobody else.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from whest.errors import ConfigError
from whest.files import SEALED

PARTICIPANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@+-]{0,63}")
SOURCE = ".py"
LONGEST_NAME = 200
NO_FILE = "it is no ordinary file"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Arrival:
    """A file of the inbox, not opened yet."""

    inbox: Path
    place: tuple[str, ...]
    """The names that lead to it: a participant's folder, if there is one, and the file's."""
    status: os.stat_result | None
    """What was seen; None for a file that can't be looked at."""
    problem: str | None = None
    has_folder: bool = False
    """A file beside a folder of its participant's name."""

    @property
    def name(self) -> str:
        """Relative to the inbox, as the log shows it. A name that is too long keeps its begin and gets a hash."""
        shown = visible("/".join(self.place))
        if len(shown) <= LONGEST_NAME:
            return shown
        return f"{shown[:100]}…{sha256(os.fsencode('/'.join(self.place))).hexdigest()[:16]}"

    @property
    def has_long_name(self) -> bool:
        return len(visible("/".join(self.place))) > LONGEST_NAME

    @property
    def participant(self) -> str:
        return owner_of("/".join(map(visible, self.place)))[:LONGEST_NAME]

    @property
    def is_folder(self) -> bool:
        return self.status is not None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_sealed(self) -> bool:
        """By the real name's end, which alone decides how a file is read."""
        return self.place[-1].endswith(SEALED)

    @property
    def mtime_ns(self) -> int:
        return self.status.st_mtime_ns if self.status else 0

    @property
    def size(self) -> int:
        return self.status.st_size if self.status else 0

    @property
    def mark(self) -> tuple[str, int, int]:
        """What tells it from every other arrival."""
        return self.name, self.mtime_ns, self.size


def owner_of(file: str) -> str:
    """Whose file it is, by its place in the inbox: the folder's name, or its own up to the first dot."""
    folder, slash, _ = file.partition("/")
    return folder if slash else folder.partition(".")[0]


def visible(name: str) -> str:
    """A name in which nothing is hidden: what can't be printed is written as \\u…, so two names stay two."""
    return "".join(
        letter if letter.isprintable() and letter != "\\" else letter.encode("unicode_escape").decode()
        for letter in name
    )


def arrivals(inbox: Path, received: Literal["host", "file"] = "file") -> list[Arrival]:
    """The files of an inbox, oldest first. Hidden ones are uploads that are not finished.

    By the host's clock the order is that of ctime, which nobody can set back. Others can move it forward, by a link to
    the file, so it says nothing about who was first.
    """
    try:
        with _opened(inbox.resolve()) as handle:
            found = list(_found(inbox, handle))
    except OSError as error:
        problem = f"can't be read ({error.strerror})" if inbox.is_dir() else "is no folder"
        raise ConfigError(f"inbox={inbox} {problem}: make it, entries are inbox/PARTICIPANT/NAME{SEALED}") from None

    def age(arrival: Arrival) -> tuple[int, str]:
        status = arrival.status
        return (status.st_ctime_ns if received == "host" and status else arrival.mtime_ns), arrival.name

    return sorted(found, key=age)


@contextmanager
def _opened(name: Path | str, parent: int | None = None) -> Iterator[int]:
    handle = os.open(name, FOLDER, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


def _names(handle: int) -> list[str]:
    return [name for name in os.listdir(handle) if name[0] != "."]


def _found(inbox: Path, handle: int) -> Iterator[Arrival]:
    looked_at = [_looked_at(inbox, handle, (name,)) for name in _names(handle)]
    found = [arrival for arrival in looked_at if arrival is not None]
    folders = {arrival.place[0]: arrival for arrival in found if arrival.is_folder}
    for folder in folders.values():
        yield from _of_folder(folder, handle)
    for arrival in found:
        if not arrival.is_folder and arrival.place[0].endswith((SEALED, SOURCE)):
            yield replace(arrival, has_folder=arrival.participant in folders)


def _of_folder(folder: Arrival, parent: int) -> Iterator[Arrival]:
    """The files of a participant. A folder that can't be opened is told, once per date."""
    (owner,) = folder.place
    try:
        with _opened(owner, parent) as handle:
            names = [name for name in _names(handle) if name.endswith((SEALED, SOURCE))]
            seen = [_looked_at(folder.inbox, handle, (owner, name)) for name in names]
    except FileNotFoundError:
        return
    except OSError as error:
        problem = f"its folder can't be opened ({error.strerror}): let the host read it"
        yield Arrival(folder.inbox, (owner, ""), folder.status, problem)
        return
    yield from (arrival for arrival in seen if arrival is not None)


def _looked_at(inbox: Path, parent: int, place: tuple[str, ...]) -> Arrival | None:
    """None for a file that vanished since its folder was listed."""
    try:
        return Arrival(inbox, place, os.stat(place[-1], dir_fd=parent, follow_symlinks=False))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Arrival(inbox, place, None, f"it can't be looked at ({error.strerror}): let the host read its folder")


def read_arrival(arrival: Arrival, most: int) -> bytes | str:
    """The bytes of an ordinary file, or why there are none."""
    if arrival.problem is not None or arrival.status is None:
        return arrival.problem or NO_FILE
    if not stat.S_ISREG(arrival.status.st_mode):
        return "it is a folder, and not a file" if arrival.is_folder else NO_FILE
    if arrival.size > most:
        return "it is too large"
    try:
        with _opened(arrival.inbox.resolve()) as inbox:
            if len(arrival.place) == 1:
                return _content(arrival, inbox, most)
            with _opened(arrival.place[0], inbox) as folder:
                return _content(arrival, folder, most)
    except OSError as error:
        return f"it can't be opened ({error.strerror})"


def _content(arrival: Arrival, parent: int, most: int) -> bytes | str:
    handle = os.open(arrival.place[-1], FILE, dir_fd=parent)
    with os.fdopen(handle, "rb") as file:
        found, seen = os.fstat(handle), arrival.status
        if seen is None or not stat.S_ISREG(found.st_mode) or not os.path.samestat(found, seen):
            return "another file took its place while it was taken in"
        content = file.read(most + 1)
        after = os.fstat(handle)
    if (len(content), after.st_mtime_ns) != (seen.st_size, seen.st_mtime_ns):
        return "it was changed while it was taken in: send it again, under a hidden name until it is whole"
    return content
