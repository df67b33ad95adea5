"""Protections by what they prevent. A worker reports each with the mechanism that was tried and works."""

from collections.abc import Mapping
from typing import Literal

Name = Literal["files", "network", "processes", "memory", "disk"]
"""Reading or writing what isn't the worker's; reaching any network; starting, seeing or signalling other processes;
taking more memory, or more disk, than the limit."""
NAMES: tuple[Name, ...] = ("files", "network", "processes", "memory", "disk")
WALLS: tuple[Name, ...] = ("files", "network", "processes")
"""What makes a run `protected`: the answers and the machine are out of reach."""
Protections = Mapping[str, str]
"""Each protection's mechanism; empty where it is not in force."""
Status = Literal["trusted", "protected", "unprotected"]
"""How an estimator ran: as code that ships with whest, behind walls, or without them."""


def missing(require: tuple[str, ...], found: Protections) -> list[str]:
    """Required protections that are not in force."""
    return [name for name in require if not found.get(name)]


def status_of(is_trusted: bool, found: Protections) -> Status:
    if is_trusted:
        return "trusted"
    return "unprotected" if missing(WALLS, found) else "protected"
