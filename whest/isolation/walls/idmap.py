"""Bind mounts on which a folder's owner appears as somebody else (Linux 5.12, for root alone).

Root's worker runs as an unprivileged id that owns nothing. It still has to read the estimator's folder, which may be
closed to everybody but its owner. On such a mount that folder is its own, and what it writes there is the owner's.
"""

import ctypes
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .kernel import call, unshare

AT_FDCWD, AT_EMPTY_PATH, OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1000, 1, 4

MOUNT_ATTR_IDMAP = 0x00100000

CLONE_NEWUSER = 0x10000000


Owners = dict[tuple[int, int], int]
"""A descriptor of a user namespace for each owner and group."""


def owners_of(paths: Iterable[str], uid: int) -> Owners:
    """For the owners of these paths. Made before there is a process namespace: /proc shows the ids of the old one."""
    found: Owners = {}
    for path in paths:
        with suppress(OSError):
            about = Path(path).stat()
            if (about.st_uid, about.st_gid) not in found:
                found[about.st_uid, about.st_gid] = _user_namespace(about.st_uid, about.st_gid, uid)
    return found


def bind_as(path: Path, place: Path, owners: Owners) -> bool:
    """Whether `path` is now at `place`, where its owner is the worker; not every kernel and file system knows how."""
    about = path.stat()
    owner = owners.get((about.st_uid, about.st_gid))
    if owner is None:
        return False
    try:
        tree = call("open_tree", AT_FDCWD, os.fsencode(path), ctypes.c_uint(OPEN_TREE_CLONE | os.O_CLOEXEC))
        try:
            attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_IDMAP, 0, 0, owner)
            call("mount_setattr", tree, b"", AT_EMPTY_PATH, attributes, ctypes.c_size_t(32))
            call("move_mount", tree, b"", AT_FDCWD, os.fsencode(place), ctypes.c_uint(MOVE_MOUNT_F_EMPTY_PATH))
        finally:
            os.close(tree)
    except OSError:
        return False
    return True


def _user_namespace(owner: int, group: int, uid: int) -> int:
    """A descriptor of a user namespace in which `owner` stands for `uid`: held by a child for as long as it is made."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(OSError):
            unshare(CLONE_NEWUSER)
            os.write(told, b"1")
            signal.pause()
        os._exit(1)
    os.close(told)
    try:
        if os.read(ready, 1) != b"1":
            raise OSError(1, "no user namespace")
        Path(f"/proc/{child}/uid_map").write_text(f"{owner} {uid} 1")
        Path(f"/proc/{child}/gid_map").write_text(f"{group} {uid} 1")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
