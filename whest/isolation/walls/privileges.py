"""Giving up rights: root's id, capabilities, and what the process may use up."""

import ctypes
import os
import resource
import signal
from contextlib import suppress

from .kernel import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, call, prctl

CAPABILITY_VERSION_3 = 0x20080522

NOBODY = 65534

MOST_DESCRIPTORS, MOST_THREADS = 1024, 4096


class StillRootError(OSError):
    """Root could not become somebody else."""


def leave_root(uid: int) -> None:
    """Become an id that owns nothing; where a container doesn't know it, `nobody`."""
    if os.getuid() != 0 and os.geteuid() != 0:
        return
    for wanted in (uid, NOBODY):
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(wanted, wanted, wanted)
            os.setresuid(wanted, wanted, wanted)
            break
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise StillRootError(1, "root could not become an unprivileged user")
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of id forgets it
    prctl(PR_SET_DUMPABLE, 1)  # else its own /proc/self is closed to it


def drop_capabilities() -> None:
    """Give up the namespace's own root rights, with which the room could be opened again."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


def limit_resources(file_bytes: int, is_alone: bool = False) -> None:
    """No core files, no file above a size, no more descriptors than a program needs.

    The number of threads is counted for a user as a whole, so it is limited where no other process is this user
    (`is_alone`): in a user namespace, or as an id that only workers have.
    """
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: file_bytes, resource.RLIMIT_NOFILE: MOST_DESCRIPTORS}
    if is_alone:
        limits[resource.RLIMIT_NPROC] = MOST_THREADS
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (wanted, wanted))
