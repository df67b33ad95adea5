"""bubblewrap: the room for an ordinary user to whom the kernel gives no namespaces, but to the program `bwrap` it does.

So it is where bwrap belongs to root and is setuid, or has an AppArmor profile of its own. The launcher starts itself
again through it, in the same room as `room.py` builds. Landlock and seccomp go on inside, as everywhere.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .room import CANARY, COVERED_PROC, Order

LOST_VARIABLES = ("LD_LIBRARY_PATH", "TMPDIR")
"""What a setuid program doesn't hand on by itself."""


def find() -> str | None:
    """The operator's bwrap."""
    places = (Path(folder) / "bwrap" for folder in os.environ.get("PATH", "").split(":") if folder)
    return next((str(place) for place in places if os.access(place, os.X_OK)), None)


def continue_inside(order: Order, command: Callable[[], Sequence[str]]) -> None:
    """Become that command in a room that bwrap builds. Returns only where bwrap is absent or refuses."""
    program = find()
    if program is None or os.getuid() == 0:
        return
    words = [program, *arguments(order), "--"]
    if _runs([*words, sys.executable, "-I", "-S", "-c", ""]):
        os.execv(program, [*words, *command()])


def _runs(words: list[str]) -> bool:
    """Whether the command ends well; what it prints is dropped."""
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    try:
        child = os.posix_spawn(words[0], words, os.environ, file_actions=silent)
    except OSError:
        return False
    return os.waitpid(child, 0)[1] == 0


def arguments(order: Order) -> list[str]:
    """The order in bwrap's words. What comes later lies over what came before."""
    hidden = [Path(path) for path in order.hidden]
    readable = [Path(path) for path in order.readable]
    under_covers = [path for path in readable if any(path.is_relative_to(cover) for cover in hidden)]
    shown = [path for path in readable if path not in under_covers]
    within = [path for path in hidden if path == path.resolve() and any(path.is_relative_to(it) for it in shown)]
    covers = [*within, *(Path("/proc") / name for name in COVERED_PROC)]
    words = ["--unshare-all", "--die-with-parent", "--as-pid-1"]
    for path in shown:
        words += _furnish(path)
    words += ["--proc", "/proc"]
    for path in covers:
        words += _cover(path)
    for path in under_covers:
        words += _furnish(path)
    for device in order.devices:
        words += ["--dev-bind", device, device]
    for folder in (order.scratch, *order.writable):
        words += ["--bind", folder, folder]
    words += ["--ro-bind", order.canary, CANARY]
    for path in (*covers, Path("/proc"), Path("/")):
        words += ["--remount-ro", str(path)] if path.is_dir() else []
    for name in LOST_VARIABLES:
        words += ["--setenv", name, os.environ[name]] if name in os.environ else []
    return [*words, "--chdir", order.scratch]


def _furnish(path: Path) -> list[str]:
    if not path.exists():
        return []
    return ["--symlink", str(path.readlink()), str(path)] if path.is_symlink() else ["--ro-bind", str(path), str(path)]


def _cover(path: Path) -> list[str]:
    """An empty folder over a folder, nothing over a file."""
    if path.is_dir():
        return ["--tmpfs", str(path)]
    return ["--ro-bind", "/dev/null", str(path)] if path.exists() else []
