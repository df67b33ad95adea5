"""Trials: what a wall should stop is tried, in the worker itself. A wall that was not seen to hold isn't reported."""

import ctypes
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from .kernel import libc

REFUSED = (errno.EPERM, errno.EACCES, errno.ENOENT, errno.EROFS, errno.ENETUNREACH, errno.ENETDOWN)

TEST_ADDRESS = ("192.0.2.1", 9)
"""An address for documentation (RFC 5737). Connecting a datagram socket sends nothing."""


def is_refused(attempt: Callable[[], Any]) -> bool:
    """Whether an attempt fails, and fails for the right reason."""
    try:
        attempt()
    except OSError as error:
        return error.errno in REFUSED
    return False


def can_read(path: str) -> bool:
    with suppress(OSError):
        os.close(os.open(path, os.O_RDONLY))
        return True
    return False


def cannot_reach(path: str) -> bool:
    """Neither by reading nor by writing beside it."""
    planted = f"{path}.planted"
    return is_refused(lambda: os.close(os.open(path, os.O_RDONLY))) and is_refused(
        lambda: os.close(os.open(planted, os.O_WRONLY | os.O_CREAT, 0o600))
    )


def are_hidden(paths: Iterable[str]) -> bool:
    """Whether nothing can be read of any of these paths: not there, refused, covered or empty."""
    return not any(_shows(path) for path in paths)


def _shows(path: str) -> bool:
    """Whether the file, or the first file of the folder, can be read."""
    with suppress(OSError):
        if not Path(path).is_dir():
            with Path(path).open("rb") as file:
                return len(file.read(1)) > 0
        first = next((child for child in Path(path).rglob("*") if child.is_file()), None)
        return first is not None and can_read(str(first))
    return False


def can_write_scratch(folder: str) -> bool:
    mine = Path(folder) / ".trial"
    with suppress(OSError):
        os.close(os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        mine.unlink()
        return True
    return False


def no_route() -> bool:
    """A network namespace without a network: no way leads anywhere."""

    def connect() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect(TEST_ADDRESS)

    return is_refused(connect)


def no_sockets() -> bool:
    return all(is_refused(partial(socket.socket, kind)) for kind in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX))


def no_processes() -> bool:
    """No fork by the C library, no program, no signal to the process that started us."""
    return _fork_fails() and _program_fails() and is_refused(lambda: os.kill(os.getppid() or -1, 0))


def _fork_fails() -> bool:
    child = libc().fork()
    if child == 0:
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
    return bool(child < 0)


def _program_fails() -> bool:
    """A program that isn't there gives ENOENT without the filter, which comes first."""
    found = libc().execv(b"/nonexistent/program", (ctypes.c_char_p * 2)(b"program", None))
    return bool(found == -1 and ctypes.get_errno() == errno.EPERM)


def file_size_is_limited(folder: str, most: int) -> bool:
    """A file above the limit can't be made: by the folder's size, or by the limit on files."""
    mine = Path(folder) / ".trial"
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(file, 0, most + 2**16)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EFBIG)
    finally:
        os.close(file)
        mine.unlink()
        signal.signal(signal.SIGXFSZ, before)
    return False
