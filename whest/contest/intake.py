"""The inbox: files of strangers, one after the other. Each becomes one line of the log, taken or refused.

    inbox/PARTICIPANT/NAME.whest     the participant is the folder
    inbox/PARTICIPANT.NAME.whest     or the file's name up to its first dot

Nothing in a file is believed about its sender. The inbox is never changed: a file is known by its place, its date and
its bytes, so a host that was killed does not take it twice.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from whest.contest.inbox import Arrival
from whest.contest.keys import Document, sha256
from whest.contest.rules import Contest, purpose_of
from whest.notation import printable
from whest.sealed.carried import carried_by
from whest.sealed.container import SealedFileError
from whest.sealed.sealed import Sealed, read_sealed

LONGEST_WORDS = 4000
"""Of a description, in bytes of the log: an emoji takes twelve."""


def received_fields(
    arrival: Arrival, content: bytes | str, contest: Contest, rules: Mapping[str, Any], now: datetime
) -> Document:
    """What the log says about an arrival: the facts that a decision needs, and what its author says.

    `content` is why there is none for a file that can't be read. `now` is when the host saw it, by
    the log's clock, which never goes back.
    """
    is_read = isinstance(content, bytes)
    fields: Document = {
        "file": arrival.name,
        "mtime_ns": arrival.mtime_ns,
        "n_bytes": len(content) if is_read else arrival.size,
        "participant": arrival.participant,
        "received_at": _received_at(arrival, contest, now),
        "file_sha256": sha256(content) if isinstance(content, bytes) else None,
        "estimator": printable(arrival.place[-1].rpartition(".")[0])[:64],
        "description": "",
        "damage": None if is_read else content,
    }
    if arrival.has_long_name:
        return {**fields, "damage": "its name is too long: at most 200 characters with its folder are allowed"}
    if isinstance(content, bytes) and arrival.is_sealed:
        fields |= look_into(content, contest, rules)
    return fields


def _received_at(arrival: Arrival, contest: Contest, now: datetime) -> str:
    """A file's date may lie in the future, or where no calendar goes; the host's clock is then the better witness."""
    date = file_date(arrival.mtime_ns) if contest.received == "file" else None
    return (now if date is None else min(date, now)).isoformat(timespec="milliseconds")


def file_date(mtime_ns: int) -> datetime | None:
    """To the millisecond, as the log has it; None where no calendar goes."""
    try:
        return datetime.fromtimestamp(mtime_ns // 1_000_000 / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def look_into(content: bytes, contest: Contest, rules: Mapping[str, Any]) -> Document:
    """What a sealed file says about itself, and what is wrong with it. Nothing of it runs."""
    try:
        sealed = read_sealed(content)
        told = {
            "estimator": printable(sealed.header.name),
            "description": bounded(printable(sealed.header.words.replace("\n", " "))),
        }
        return {**told, "damage": misfit(sealed, contest, rules)}
    except SealedFileError as error:
        return {"damage": printable(str(error))[:400]}
    except Exception as error:  # whatever a stranger's bytes do to a reader, the host goes on
        return {"damage": f"it can't be read ({type(error).__name__})"}


def bounded(words: str) -> str:
    """The beginning of a description, as much as fits."""
    while len(json.dumps(words)) > LONGEST_WORDS + 2:
        words = words[: len(words) * 9 // 10]
    return words


def misfit(sealed: Sealed, contest: Contest, rules: Mapping[str, Any]) -> str | None:
    """Why a sealed program can't take part, in words."""
    wanted, task, budget = purpose_of(rules), rules["task"]["name"], int(float(rules["budget"]))
    for entry in sealed.header.entries:
        fits = entry.purpose == wanted if wanted else (entry.purpose.task, entry.purpose.budget) == (task, budget)
        if not fits:
            continue
        message, arrays = sealed.programs(entry)
        carried = carried_by(message, arrays).n_bytes
        if carried > contest.limit_constants:
            return f"it carries {carried:,} bytes of constants, at most {contest.limit_constants:,} are allowed"
        return None
    there = "; ".join(str(entry.purpose) for entry in sealed.header.entries[:4])
    return f"it was sealed for {there}, and the contest is {wanted or task}"
