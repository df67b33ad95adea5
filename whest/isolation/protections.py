"""Protections: what a worker is kept from, named by what they prevent, and whether what a run requires is in force.

A worker's protections are `{name: mechanisms}`. The mechanisms are those that were tried and held, "" if there is none.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from whest.errors import UnprotectedError

Name = Literal["files", "network", "processes", "memory", "disk"]
NAMES: tuple[Name, ...] = ("files", "network", "processes", "memory", "disk")
WALLS: tuple[Name, ...] = ("files", "network", "processes")
"""What makes a run `protected`: the answers and the machine are out of reach."""
Protections = Mapping[str, str]
Status = Literal["trusted", "protected", "unprotected"]
"""How an estimator ran: as code that the operator vouches for, behind walls, or without them."""

MEANING = {
    "files": "reading the user's files and writing anything but its scratch folder",
    "network": "using a network or a socket",
    "processes": "starting processes and programs, and touching those of others",
    "memory": "taking more memory than memory_limit_mb",
    "disk": "filling the disk",
}

LONGEST = 100
"""Characters of a mechanism's name that are believed."""


def read_protections(said: Any) -> dict[str, str]:
    """What a worker's launcher reports, by the names that are known."""
    found = said if isinstance(said, Mapping) else {}
    return {name: str(found.get(name) or "")[:LONGEST] for name in NAMES}


def check_required(
    require: Sequence[str],
    protections: Mapping[str, str],
    memory_limit_mb: float | None = None,
    platform: str = sys.platform,
) -> None:
    """A required protection that isn't in force ends the run. Only Linux has walls for workers."""
    missing = [name for name in require if not protections.get(name)]
    if "memory" in missing and memory_limit_mb is None:
        raise UnprotectedError(
            f"isolation.require={','.join(require)} has memory, and memory_limit_mb is not set: add "
            "memory_limit_mb=4000; isolation.require=[] runs without, if you trust the code"
        )
    if missing and not platform.startswith("linux"):
        system = {"darwin": "macOS"}.get(platform, platform)
        raise UnprotectedError(
            f"isolation.require={','.join(require)}: workers are unprotected on {system} ({', '.join(missing)}). "
            "Run whest on Linux, in a container or a virtual machine; "
            "isolation.require=[] runs without, if you trust the code"
        )
    if missing:
        raise UnprotectedError(
            f"isolation.require={','.join(require)}: this machine does not keep the worker from "
            f"{'; '.join(f'{MEANING.get(name, name)} ({name})' for name in missing)}. "
            "`job=doctor` says how to get it; isolation.require=[] runs without, if you trust the code"
        )


def status_of(is_trusted: bool, found: Protections) -> Status:
    """The status that reports and boards show."""
    if is_trusted:
        return "trusted"
    return "protected" if all(found.get(name) for name in WALLS) else "unprotected"


def in_both(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """What protects both of two workers: the mechanisms that each of them has."""
    shared: dict[str, str] = {}
    for name in NAMES:
        theirs = other.get(name, "").split("+")
        shared[name] = "+".join(part for part in one.get(name, "").split("+") if part and part in theirs)
    return shared
