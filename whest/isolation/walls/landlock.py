"""Landlock: an allow list of files that a process gives itself, without root and without namespaces.

Each kernel knows some rights (its "ABI"). All that it knows are taken away, then given back for the paths on the list.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .kernel import LANDLOCK, PR_SET_NO_NEW_PRIVS, prctl, syscall

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 15

FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: IOCTL_DEV}
"""Rights on files, by the ABI that brought them: 13 at first, then moving between folders, truncating, ioctls."""

TCP_RIGHTS, SCOPES = 0b11, 0b11
"""Binding and connecting (ABI 4); abstract sockets and signals to processes outside (ABI 6)."""

RULE_PATH = 1

ON_FILES = WRITE_FILE | READ_FILE | EXECUTE | (1 << 14) | IOCTL_DEV
"""The rights that a rule on a single file may have."""


def abi() -> int:
    """The version of Landlock that this kernel has, 0 without."""
    with suppress(OSError):
        return syscall(LANDLOCK["create_ruleset"], None, ctypes.c_size_t(0), ctypes.c_uint(1))
    return 0


def known_rights(version: int) -> int:
    return sum(rights for since, rights in FILE_RIGHTS.items() if version >= since)


def restrict_files(
    readable: Iterable[str], listable: Iterable[str], writable: Iterable[str], devices: Iterable[str]
) -> None:
    """Refuse every file but these, for this process and for good; TCP, signals and abstract sockets where it can."""
    version = abi()
    if version < 1:
        raise OSError(38, "this kernel has no Landlock")
    known = known_rights(version)
    attributes = struct.pack("=QQQ", known, TCP_RIGHTS if version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = syscall(LANDLOCK["create_ruleset"], attributes, ctypes.c_size_t(size), ctypes.c_uint(0))
    everything = known & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
    given = {READ_FILE | READ_DIR: readable, READ_DIR: listable, everything: writable}
    given[READ_FILE | WRITE_FILE | IOCTL_DEV | READ_DIR] = devices
    for rights, paths in given.items():
        for path in paths:
            _allow(rules, path, rights & known)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    syscall(LANDLOCK["restrict_self"], ctypes.c_int(rules), ctypes.c_uint(0))
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    """What isn't there needs no rule."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = rights if Path(path).is_dir() else rights & ON_FILES
        if allowed:
            rule = struct.pack("=Qi", allowed, place)
            syscall(LANDLOCK["add_rule"], ctypes.c_int(rules), ctypes.c_uint(RULE_PATH), rule, ctypes.c_uint(0))
    finally:
        os.close(place)


def spared(folder: Path, hidden: Iterable[Path]) -> tuple[list[str], list[str]]:
    """An allow list can't name an exception, so a folder above hidden paths is given child by child.

    Returns the paths to read, and the folders whose names may be listed: modules are found by listing.
    """
    inside = [path for path in hidden if path.is_relative_to(folder)]
    if not inside:
        return [str(folder)], []
    if folder in inside:
        return [], []
    readable: list[str] = []
    listable = [str(folder)]
    with suppress(OSError):
        for child in folder.iterdir():
            if child.is_dir() and not child.is_symlink():
                more, names = spared(child, inside)
                readable, listable = readable + more, listable + names
            elif child not in inside:
                readable.append(str(child))
    return readable, listable
