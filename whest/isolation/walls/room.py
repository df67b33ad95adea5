"""The room: a file system that has the listed paths, read-only, a scratch folder of limited size, and nothing else.

Nothing needs to be named to be hidden, except what lies inside a listed folder: that is covered.
"""

import ctypes
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .idmap import Owners, bind_as
from .kernel import call, mount, unmount

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000

PRIVATE_MEMORY = MS_NOSUID | MS_NODEV

MNT_DETACH, AT_FDCWD, AT_RECURSIVE = 2, -100, 0x8000

RDONLY, NOSUID = 0x1, 0x2

CANARY = "/.canary"
"""A file of the room that Landlock doesn't list: to open it is a trial."""

MOST_FILES = 20_000
"""In the scratch folder."""


COVERED_PROC = (
    *("sys", "sysrq-trigger", "kcore", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "scsi", "acpi", "irq"),
    *("bus", "fs", "tty", "kallsyms", "kpagecount", "kpageflags", "kpagecgroup", "cmdline", "modules"),
)
"""What /proc says of the machine, and how it is ruled."""


@dataclass(frozen=True)
class Order:
    """What a worker's room has, as the host says."""

    mountpoint: str
    """An empty folder to build it on."""
    readable: tuple[str, ...]
    listable: tuple[str, ...]
    """Folders whose names may be listed, because modules are found by listing."""
    hidden: tuple[str, ...]
    """What is covered. A readable path that lies inside is put upon the cover."""
    writable: tuple[str, ...]
    """Folders beside the scratch folder, without a limit."""
    devices: tuple[str, ...]
    scratch: str
    scratch_bytes: int
    canary: str
    """A file outside that this process may read until the walls stand."""
    uid: int
    """Who root becomes."""


def build(order: Order, owners: Owners) -> None:
    """Build the room and make it all there is. Raises OSError where the kernel refuses a step."""
    root = Path(order.mountpoint)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", PRIVATE_MEMORY, "size=4m,mode=755")
    hidden = [Path(path) for path in order.hidden]
    readable = [Path(path) for path in order.readable]
    under_covers = [path for path in readable if any(path.is_relative_to(cover) for cover in hidden)]
    for path in (path for path in readable if path not in under_covers):
        _furnish(root, path, owners)
    for path in hidden:
        _cover(_inside(root, path))
    for path in under_covers:
        _furnish(root, path, owners)
    for device in order.devices:
        _furnish(root, Path(device), {})
    inside = [_inside(root, Path(path)) for path in (order.scratch, *order.writable)]
    _make_scratch(inside[0], order)
    for folder in order.writable:
        _furnish(root, Path(folder), owners)
    _inside(root, Path(CANARY)).write_text("canary")
    _mount_processes(root / "proc")
    _set_read_only(root, inside)
    _move_into(root)
    os.chdir(order.scratch)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _furnish(root: Path, path: Path, owners: Owners) -> None:
    """Show a path of the outside at the same place inside; a link stays a link. The worker sees it as its own."""
    place = _inside(root, path)
    if not path.exists() or place.is_symlink():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        place.symlink_to(path.readlink())
        return
    if path.is_dir():
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    if not bind_as(path, place, owners):
        mount(path, place, None, MS_BIND | MS_REC)


def _cover(place: Path) -> None:
    """Put an empty folder over a folder, nothing over a file."""
    with suppress(FileNotFoundError, NotADirectoryError):
        if place.is_dir():
            mount("tmpfs", place, "tmpfs", PRIVATE_MEMORY | MS_NOEXEC, "size=4k,mode=755")
        elif place.exists():
            mount("/dev/null", place, None, MS_BIND)


def _make_scratch(place: Path, order: Order) -> None:
    place.mkdir(parents=True, exist_ok=True)
    owner = f",uid={order.uid},gid={order.uid}" if os.getuid() == 0 else ""
    limits = f"size={order.scratch_bytes},nr_inodes={MOST_FILES},mode=700{owner}"
    mount("tmpfs", place, "tmpfs", PRIVATE_MEMORY, limits)


def _mount_processes(place: Path) -> None:
    """Our own processes; of the machine only what isn't covered. XLA's libraries read /proc/cpuinfo.

    A container may refuse it, then there is no /proc at all.
    """
    place.mkdir(exist_ok=True)
    with suppress(OSError):
        mount("proc", place, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible")
        try:
            for name in COVERED_PROC:
                _cover(place / name)
        except OSError:
            unmount(place, MNT_DETACH)


def _set_read_only(root: Path, but: Sequence[Path]) -> None:
    _set_attributes(root, RDONLY | NOSUID, 0, AT_RECURSIVE)
    for path in but:
        _set_attributes(path, NOSUID, RDONLY, 0)


def _set_attributes(path: Path, given: int, taken: int, flags: int) -> None:
    attributes = (ctypes.c_uint64 * 4)(given, taken, 0, 0)
    call("mount_setattr", AT_FDCWD, os.fsencode(path), flags, attributes, ctypes.c_size_t(32))


def _move_into(root: Path) -> None:
    """Make a folder the root of all there is, and let go of what was there before."""
    os.chdir(root)
    call("pivot_root", b".", b".")
    unmount(".", MNT_DETACH)
    os.chdir("/")


def without_nested(paths: Iterable[Path], hidden: Sequence[Path] = ()) -> list[Path]:
    """Outer folders bring their inner ones along, unless a cover lies between."""

    def is_brought(path: Path, outer: Path) -> bool:
        covers = (cover for cover in hidden if path.is_relative_to(cover))
        return path.is_relative_to(outer) and not any(cover.is_relative_to(outer) for cover in covers)

    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(is_brought(path, outer) for outer in kept):
            kept.append(path)
    return kept
