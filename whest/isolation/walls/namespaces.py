"""Namespaces: a process that sees its own processes, network, shared memory and mounts, and no others.

An ordinary user makes a user namespace first, which the kernel allows to a process without threads alone. Root needs
none, and takes an unprivileged id when the room is built.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from .kernel import PR_SET_PDEATHSIG, prctl, unshare

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)

ALL = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET


def die_with_parent() -> None:
    """End when the process that started us ends, however it ends."""
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def n_threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def is_only_user() -> bool:
    """Whether this is a user namespace with one id, as bwrap makes it: then no other process counts as ours."""
    with suppress(OSError, IndexError):
        return Path("/proc/self/uid_map").read_text().split()[2] == "1"
    return False


def enter() -> bool:
    """Whether the kernel gave us namespaces of our own; then we are their first process."""
    uid, gid = os.getuid(), os.getgid()
    try:
        if uid == 0:
            unshare(ALL)
        else:
            unshare(CLONE_NEWUSER | ALL)
            _map_ids(uid, gid)
    except OSError:
        return False
    _continue_in_child()
    return True


def _map_ids(uid: int, gid: int) -> None:
    """Stay who we are inside the new user namespace, so that our own files remain ours."""
    with suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _continue_in_child() -> None:
    """The first child lives in the new process namespace; this process waits for it and ends as it ends."""
    child = os.fork()
    if child:
        _end_like(child)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_like(child: int) -> NoReturn:
    os.closerange(0, 1024)  # the pipes are the child's: when it dies, they must close
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
