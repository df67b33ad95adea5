"""The inbox: files of strangers, one after the other. Each becomes one line of the log, taken or refused.

    inbox/PARTICIPANT/NAME.whest     the participant is the folder
    inbox/PARTICIPANT.NAME.whest     or the file's name up to its first dot

Nothing in a file is believed about its sender. The inbox is never changed: a file is known by its place, its date and
its bytes, so a host that was killed does not take it twice.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whest.contest.keys import Document, sha256
from whest.contest.rules import Contest, purpose_of, read_moment
from whest.errors import ConfigError
from whest.files import SEALED
from whest.notation import printable
from whest.sealed.container import SealedFileError
from whest.sealed.sealed import Sealed, read_sealed

PARTICIPANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@+-]{0,63}")
SOURCE = ".py"
LONGEST_NAME = 200


@dataclass(frozen=True)
class Arrival:
    """A file of the inbox, not opened yet."""

    path: Path
    name: str
    """Relative to the inbox."""
    participant: str
    mtime_ns: int
    size: int

    @property
    def mark(self) -> tuple[str, int, int]:
        """What tells it from every other arrival."""
        return self.name, self.mtime_ns, self.size


def arrivals(inbox: Path) -> list[Arrival]:
    """The files of an inbox, oldest first. Hidden ones are uploads that are not finished."""
    if not inbox.is_dir():
        raise ConfigError(f"inbox={inbox} is no folder: make it, entries are inbox/PARTICIPANT/NAME{SEALED}")
    found = [_arrival(inbox, path) for path in _files(inbox)]
    return sorted(found, key=lambda each: (each.mtime_ns, each.name))


def _files(inbox: Path) -> Iterator[Path]:
    for path in inbox.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from (each for each in path.iterdir() if each.name[0] != "." and each.suffix in (SEALED, SOURCE))
        elif path.suffix in (SEALED, SOURCE):
            yield path


def _arrival(inbox: Path, path: Path) -> Arrival:
    status = path.lstat()
    relative = path.relative_to(inbox)
    participant = relative.parts[0] if len(relative.parts) > 1 else path.name.partition(".")[0]
    name = printable(relative.as_posix())[:LONGEST_NAME]
    return Arrival(path, name, printable(participant)[:LONGEST_NAME], status.st_mtime_ns, status.st_size)


def read_arrival(arrival: Arrival, most: int) -> bytes | None:
    """The bytes of an ordinary file; None for one that is too large, a link, a pipe or a device."""
    try:
        handle = os.open(arrival.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None


def received_fields(arrival: Arrival, content: bytes | None, contest: Contest, rules: Mapping[str, Any]) -> Document:
    """What the log says about an arrival: the facts that a decision needs, and what its author says."""
    fields: Document = {
        "file": arrival.name,
        "mtime_ns": arrival.mtime_ns,
        "n_bytes": arrival.size if content is None else len(content),
        "participant": arrival.participant,
        "received_at": _received_at(arrival, contest),
        "file_sha256": None if content is None else sha256(content),
        "estimator": Path(arrival.name).stem,
        "description": "",
        "damage": None,
    }
    if content is not None and arrival.path.suffix == SEALED:
        fields |= look_into(content, contest, rules)
    return fields


def _received_at(arrival: Arrival, contest: Contest) -> str:
    """A file's date may lie in the future; the host's clock is then the better witness."""
    now = datetime.now(UTC)
    sent = datetime.fromtimestamp(arrival.mtime_ns // 1_000_000 / 1000, UTC)
    chosen = min(sent, now) if contest.received == "file" else now
    return chosen.isoformat(timespec="milliseconds")


def look_into(content: bytes, contest: Contest, rules: Mapping[str, Any]) -> Document:
    """What a sealed file says about itself, and what is wrong with it. Nothing of it runs."""
    try:
        sealed = read_sealed(content)
        told = {
            "estimator": printable(sealed.header.name),
            "description": printable(sealed.header.words.replace("\n", " ")),
        }
        return {**told, "damage": misfit(sealed, contest, rules)}
    except SealedFileError as error:
        return {"damage": printable(str(error))[:400]}
    except Exception as error:  # whatever a stranger's bytes do to a reader, the host goes on
        return {"damage": f"it can't be read ({type(error).__name__})"}


def misfit(sealed: Sealed, contest: Contest, rules: Mapping[str, Any]) -> str | None:
    """Why a sealed program can't take part, in words."""
    wanted, task, budget = purpose_of(rules), rules["task"]["name"], int(float(rules["budget"]))
    for entry in sealed.header.entries:
        fits = entry.purpose == wanted if wanted else (entry.purpose.task, entry.purpose.budget) == (task, budget)
        if not fits:
            continue
        _, arrays = sealed.programs(entry)
        carried = sum(array.nbytes for array in arrays if array.size > 1)
        if carried > contest.limit_constants:
            return f"it carries {carried:,} bytes of constants, at most {contest.limit_constants:,} are allowed"
        return None
    there = "; ".join(str(entry.purpose) for entry in sealed.header.entries[:4])
    return f"it was sealed for {there}, and the contest is {wanted or task}"


def refusal(facts: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]], contest: Contest) -> str | None:
    """Why an arrival is refused; None for an entry that is scored. It follows from the log alone."""
    if not PARTICIPANT.fullmatch(facts["participant"]):
        return "its participant's name has other characters than letters, digits and _ @ + -"
    if contest.deadline is not None and read_moment(facts["received_at"]) > contest.deadline:
        return f"late: received {facts['received_at']}, after the deadline"
    if facts["n_bytes"] > contest.limit_bytes:
        return f"it has {facts['n_bytes']:,} bytes, at most {contest.limit_bytes:,} are allowed"
    if facts["file_sha256"] is None:
        return "it is no ordinary file"
    if contest.sealed_only and not facts["file"].endswith(SEALED):
        return "it is no sealed program, and this contest takes no others"
    if facts["damage"] is not None:
        return str(facts["damage"])
    taken = [line for line in earlier if line["refused"] is None]
    same = next((line for line in taken if line["file_sha256"] == facts["file_sha256"]), None)
    if same is not None:
        return f"it has the same bytes as entry {same['entry']} of {same['participant']}"
    own = sum(line["participant"] == facts["participant"] for line in taken)
    if own >= contest.entries_per_participant:
        return f"{facts['participant']} has {own} entries, at most {contest.entries_per_participant} are allowed"
    return None
