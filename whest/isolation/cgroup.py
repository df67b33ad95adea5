"""A control group around a worker: the kernel itself ends what takes more memory than the limit.

Version 2, where a folder of our own subtree is ours to write to (systemd gives users one), and version 1, where we may
make a group below our own (root). Where neither is, or a trial shows that the limit doesn't hold, only polling is left.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import psutil

PREFIX = "whest-"

TRIAL_BYTES, TRIAL_S = 32 * 2**20, 10.0
"""A process that waits for a byte and then takes three times this much must not live to tell."""
TRIAL = f"import os; os.read(0, 1); kept = b'x' * {3 * TRIAL_BYTES}; os.write(1, b'alive')"

REMOVAL_S = 2.0
"""How long an ended process may keep its group busy."""

Version = Literal[1, 2]
SETTINGS: dict[Version, tuple[tuple[str, int | None], ...]] = {  # file: its value, None for the limit in bytes
    1: (("memory.limit_in_bytes", None), ("memory.memsw.limit_in_bytes", None)),
    2: (("memory.max", None), ("memory.swap.max", 0), ("memory.oom.group", 1)),
}
"""The first must be there; the others stop swapping as a way around it, and end the whole group at once."""
EVENTS: dict[Version, str] = {1: "memory.oom_control", 2: "memory.events"}


@dataclass(frozen=True)
class Parent:
    """A folder of the kernel's groups in which ours can be made, if we may."""

    folder: Path
    version: Version


def parents(groups: str, mounts: str) -> list[Parent]:
    """Where a group could stand, from the texts of /proc/self/cgroup and /proc/self/mountinfo."""
    own = {names: path for _, names, path in (line.split(":", 2) for line in groups.splitlines())}
    found: list[Parent] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mountpoint = before.split()[3:5]
        kind, options = after.split()[0], after.split()[-1].split(",")
        if kind == "cgroup2" and "" in own:
            found += _unified(_place(mountpoint, root, own[""]))
        elif kind == "cgroup" and "memory" in options:
            names = next((names for names in own if "memory" in names.split(",")), None)
            place = _place(mountpoint, root, own[names]) if names is not None else None
            found += [Parent(place, 1)] if place is not None else []
    return found


def _place(mountpoint: str, root: str, path: str) -> Path | None:
    """Our own group as a folder; None where the mount doesn't show it."""
    with suppress(ValueError):
        return Path(mountpoint) / Path(path).relative_to(root)
    return None


def _unified(own: Path | None) -> Iterator[Parent]:
    """In version 2 a group with processes can't have groups with limits below it, so ours stands beside our own.

    Not where our own has a limit: beside it a worker would be free of that.
    """
    if own is None:
        return
    if _gives_memory(own):
        yield Parent(own, 2)
    elif _gives_memory(own.parent) and _read(own / "memory.max").strip() in ("", "max"):
        yield Parent(own.parent, 2)


def _gives_memory(folder: Path) -> bool:
    return "memory" in _read(folder / "cgroup.subtree_control").split()


class MemoryGroup:
    """One group: made, given a process, asked how it ended, and removed. Only making it can fail, with OSError."""

    def __init__(self, parent: Parent, limit_bytes: int) -> None:
        self.version = parent.version
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent.folder))
        try:
            for place, (name, value) in enumerate(SETTINGS[self.version]):
                if place == 0 or (self.folder / name).exists():
                    (self.folder / name).write_text(str(limit_bytes if value is None else value))
        except OSError:
            self.remove()
            raise

    def take(self, pid: int) -> None:
        """Put a process in; what it starts from now on is in it too."""
        (self.folder / "cgroup.procs").write_text(str(pid))
        if str(pid) not in _read(self.folder / "cgroup.procs").split():
            raise OSError(1, f"process {pid} is not in its group")

    def has_killed(self) -> bool:
        """Whether the kernel ended a process of the group for its memory."""
        lines = (line.split() for line in _read(self.folder / EVENTS[self.version]).splitlines())
        return any(len(line) == 2 and line[0] == "oom_kill" and line[1] != "0" for line in lines)

    def remove(self) -> None:
        """Remove the group, with whatever may still run in it. Never raises; what stays busy is left."""
        deadline = time.monotonic() + REMOVAL_S
        while not _is_removed(self.folder) and time.monotonic() < deadline:
            for pid in map(int, _read(self.folder / "cgroup.procs").split()):
                with suppress(OSError):
                    if pid > 0:  # 0 stands for a process that we can't see, and to `kill` for all of our own
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)


def _is_removed(folder: Path) -> bool:
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text()
    return ""


@cache
def usable_parent() -> Parent | None:
    """Where groups can be made that were seen to hold, tried once per process."""
    for parent in parents(_read(Path("/proc/self/cgroup")), _read(Path("/proc/self/mountinfo"))):
        remove_abandoned(parent.folder)
        with suppress(OSError):
            if _holds(parent):
                return parent
    return None


def _holds(parent: Parent) -> bool:
    """Whether the kernel ends a process that takes more than its group may."""
    group = MemoryGroup(parent, TRIAL_BYTES)
    try:
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", TRIAL],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                group.take(process.pid)
                said, _ = process.communicate(b"1", timeout=TRIAL_S)
            except (OSError, subprocess.TimeoutExpired):
                return False
            finally:
                process.kill()
        return not said and process.returncode == -signal.SIGKILL and group.has_killed()
    finally:
        group.remove()


def remove_abandoned(folder: Path) -> None:
    """Groups that a killed whest left. A group with a process in it can't be removed, so a mistake does no harm."""
    with suppress(OSError):
        for left in folder.glob(f"{PREFIX}*-*"):
            owner = left.name.removeprefix(PREFIX).partition("-")[0]
            if owner.isdigit() and not psutil.pid_exists(int(owner)):
                with suppress(OSError):
                    left.rmdir()


def group_around(pid: int, limit_mb: float | None) -> MemoryGroup | None:
    """A group with the limit and the process in it; None where this machine gives none."""
    if limit_mb is None or not sys.platform.startswith("linux"):
        return None
    parent = usable_parent()
    if parent is None:
        return None
    group = None
    try:
        group = MemoryGroup(parent, int(limit_mb * 1e6))
        group.take(pid)
    except OSError:
        if group is not None:
            group.remove()
        return None
    return group
