"""What an untrusted worker can't reach: the network, the answers on disk, other processes, more processes of its own.

Linux namespaces do most of it, where the kernel lets an ordinary user make them; elsewhere the worker still runs, and
the report says which protections were in force. Everything here happens before the estimator is imported, with the
standard library alone.
"""

import _thread
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_DUMPABLE = 1, 38, 4

MNT_DETACH = 2

SYS_CAPSET = {"x86_64": 126, "aarch64": 91}

SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 0x1

CAPABILITY_VERSION_3 = 0x20080522

FORBIDDEN_EVENTS = {
    "os.fork": "fork",
    "os.forkpty": "fork",
    "os.posix_spawn": "start programs",
    "os.exec": "start programs",
    "os.system": "start programs",
    "subprocess.Popen": "start programs",
    "pty.spawn": "start programs",
    "_thread.start_new_thread": "start threads",
    "os.kill": "signal processes",
    "os.killpg": "signal processes",
    "ctypes.dlopen": "load foreign libraries",
    "socket.connect": "use the network",
    "socket.bind": "use the network",
}
"""Python's audit events that an estimator has no business raising, and what each attempt was."""


def protections(**in_force: bool) -> dict[str, bool]:
    """All protections by name, those given in force."""
    names = (
        *("no_network", "hidden_answers", "own_processes", "read_only_files"),
        *("no_threads_or_programs", "stripped_environment"),
    )
    return {name: in_force.get(name, False) for name in names}


def die_with_parent() -> None:
    """End when the process that started us ends, however it ends (Linux)."""
    libc = _libc()
    if libc is not None:
        parent = os.getppid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def enter(hidden: Sequence[str], scratch: str, kept: Sequence[str] = ()) -> dict[str, bool]:
    """Shut this process in as far as the kernel allows. Returns in a child where process ids are its own.

    Folders in `kept` stay where they are, though they lie in a hidden one.
    """
    libc = _unshared()
    if libc is None:
        return protections()
    spared = _set_aside(libc, kept, scratch)
    covered = [_hide(libc, Path(path)) for path in hidden]
    _put_back(libc, spared)
    is_read_only = _make_read_only(libc, os.fsencode(scratch))
    own = libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None) == 0
    _drop_privileges(libc)
    return protections(no_network=True, hidden_answers=all(covered), own_processes=own, read_only_files=is_read_only)


def enter_room(allowed: Sequence[str], writable: Sequence[str]) -> dict[str, bool]:
    """Shut this process into a file system that has these paths and nothing else, so that nothing need be named to be
    hidden. Returns in a child, as `enter` does."""
    libc = _unshared()
    if libc is None:
        return protections()
    root = Path(writable[0]) / "room"
    root.mkdir()
    found = libc.mount(b"tmpfs", os.fsencode(root), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=1m") == 0
    furnished = [_furnish(libc, root, Path(path), MS_BIND | MS_REC) for path in allowed]
    furnished += [_furnish(libc, root, Path(path), MS_BIND) for path in writable]
    if (root / "dev" / "shm").is_dir():  # other people's memory has no place here
        furnished.append(
            libc.mount(b"tmpfs", os.fsencode(root / "dev" / "shm"), b"tmpfs", MS_NOSUID | MS_NODEV, None) == 0
        )
    (root / "proc").mkdir(exist_ok=True)
    own = libc.mount(b"proc", os.fsencode(root / "proc"), b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None) == 0
    is_read_only = _set_read_only(libc, os.fsencode(root), [_inside(root, Path(path)) for path in writable])
    hidden = found and all(furnished) and _move_into(libc, root)
    os.chdir(writable[0])
    sys.path_importer_cache.clear()  # it remembers folders as they were outside
    _drop_privileges(libc)
    return protections(no_network=True, hidden_answers=hidden, own_processes=own, read_only_files=is_read_only)


def forbid_escapes() -> None:
    """From here on threads, forks, programs, signals and sockets are refused; an audit hook can't be removed."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        attempt = FORBIDDEN_EVENTS.get(event)
        if attempt is not None:
            raise PermissionError(f"an estimator may not {attempt} ({event})")

    def no_threads(*args: Any, **kwargs: Any) -> NoReturn:
        raise PermissionError("an estimator may not start threads")

    sys.addaudithook(hook)
    for module, name in ((_thread, "start_new_thread"), (_thread, "start_new"), (threading, "_start_new_thread")):
        setattr(module, name, no_threads)  # Python 3.11 raises no audit event for a new thread


def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "unshare") else None


def _unshared() -> Any:
    """The C library, in a child with namespaces of its own; null where the kernel or the system doesn't allow them."""
    libc = _libc()
    if libc is None:
        return None
    uid, gid = os.getuid(), os.getgid()
    wanted = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
    if libc.unshare(CLONE_NEWUSER | wanted) == 0:
        _map_ids(uid, gid)
    elif libc.unshare(wanted) != 0:
        return None
    _continue_in_child(libc)
    libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
    return libc


def _map_ids(uid: int, gid: int) -> None:
    """Stay who we are inside the new user namespace, so that our own files remain ours."""
    with suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _continue_in_child(libc: Any) -> None:
    """The first child lives in the new process namespace; this process waits for it and ends as it ends."""
    child = os.fork()
    if child:
        _end_like(child)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_like(child: int) -> NoReturn:
    os.closerange(0, 1024)  # the pipes are the child's: when it dies, they must close
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _hide(libc: Any, path: Path) -> bool:
    """Cover a folder with an empty one, a file with nothing."""
    if not path.exists():
        return True
    target = os.fsencode(path)
    if path.is_dir():
        return bool(libc.mount(b"tmpfs", target, b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, b"size=64k") == 0)
    return bool(libc.mount(b"/dev/null", target, None, MS_BIND, None) == 0)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _furnish(libc: Any, root: Path, path: Path, flags: int) -> bool:
    """Show a path of the outside at the same place inside; a link stays a link."""
    place = _inside(root, path)
    if not path.exists() or place.is_symlink():
        return True
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        place.symlink_to(path.readlink())
        return True
    if path.is_dir():
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    return bool(libc.mount(os.fsencode(path), os.fsencode(place), None, flags, None) == 0)


def _move_into(libc: Any, root: Path) -> bool:
    """Make a folder the root of all there is, and let go of what was there before."""
    number = SYS_PIVOT_ROOT.get(os.uname().machine)
    os.chdir(root)
    if number is None or libc.syscall(number, b".", b".") != 0:
        return False
    is_gone = libc.umount2(b".", MNT_DETACH) == 0
    os.chdir("/")
    return bool(is_gone)


def _set_aside(libc: Any, kept: Sequence[str], scratch: str) -> dict[Path, Path]:
    """A second way to each folder that is there, from the scratch folder."""
    places = {Path(path): Path(scratch) / f"kept-{i}" for i, path in enumerate(kept) if Path(path).is_dir()}
    for path, place in places.items():
        place.mkdir()
        libc.mount(os.fsencode(path), os.fsencode(place), None, MS_BIND, None)
    return places


def _put_back(libc: Any, places: dict[Path, Path]) -> None:
    """Mount what a cover took out of sight in its old place, upon the cover."""
    for path, place in places.items():
        if not path.exists():
            path.mkdir(parents=True)
            libc.mount(os.fsencode(place), os.fsencode(path), None, MS_BIND, None)
        libc.umount2(os.fsencode(place), MNT_DETACH)
        place.rmdir()


def _make_read_only(libc: Any, scratch: bytes) -> bool:
    """Nothing can be written but the scratch folder: not our code, another worker's folder or the user's files."""
    if libc.mount(scratch, scratch, None, MS_BIND, None) != 0:
        return False
    return _set_read_only(libc, b"/", [Path(os.fsdecode(scratch))])


def _set_read_only(libc: Any, root: bytes, but: Sequence[Path]) -> bool:
    attributes = _mount_attributes(MOUNT_ATTR_RDONLY, 0)
    done = [libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, root, AT_RECURSIVE, attributes, 32) == 0]
    for path in but:
        attributes = _mount_attributes(0, MOUNT_ATTR_RDONLY)
        done.append(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), 0, attributes, 32) == 0)
    return all(done)


def _mount_attributes(attributes_set: int, attributes_cleared: int) -> Any:
    return (ctypes.c_uint64 * 4)(attributes_set, attributes_cleared, 0, 0)


def _drop_privileges(libc: Any) -> None:
    """Give up the namespace's own root rights, with which the covers could be lifted again."""
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    number = SYS_CAPSET.get(os.uname().machine)
    if number is not None:
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        libc.syscall(number, header, (ctypes.c_uint32 * 6)())
