"""System calls that Python has no name for."""

import ctypes
import os
import sys
from functools import cache
from typing import Any

NUMBERS = {
    "x86_64": {"capset": 126, "pivot_root": 155, "mount_setattr": 442, "open_tree": 428, "move_mount": 429},
    "aarch64": {"capset": 91, "pivot_root": 41, "mount_setattr": 442, "open_tree": 428, "move_mount": 429},
}
"""Of the calls made here; `seccomp.py` has the calls that are refused."""

LANDLOCK = {"create_ruleset": 444, "add_rule": 445, "restrict_self": 446}
"""The same number on every architecture, as for all calls since Linux 5.1."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38


def is_linux() -> bool:
    return sys.platform.startswith("linux")


@cache
def libc() -> Any:
    """The C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def machine() -> str:
    return os.uname().machine


def call(name: str, *arguments: Any) -> int:
    """A system call by name; raises OSError as Python's own do."""
    number = NUMBERS.get(machine(), {}).get(name)
    if number is None:
        raise OSError(38, f"{name} has no known number on {machine()}")
    return syscall(number, *arguments)


def syscall(number: int, *arguments: Any) -> int:
    return _checked(libc().syscall(ctypes.c_long(number), *arguments))


def mount(source: Any, target: Any, kind: str | None, flags: int, options: str | None = None) -> None:
    """`mount(2)`; raises OSError."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _checked(libc().mount(*encoded, ctypes.c_ulong(flags), None if options is None else os.fsencode(options)))


def unmount(target: Any, flags: int) -> None:
    _checked(libc().umount2(os.fsencode(target), flags))


def unshare(flags: int) -> None:
    _checked(libc().unshare(flags))


def prctl(option: int, *values: int) -> None:
    four = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _checked(libc().prctl(option, *four))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
