"""Run a command as an ordinary user, from root: `python as_user.py UID COMMAND…`.

The interpreter may lie in a folder that is closed to others, such as root's home. In a mount namespace of its own,
closed folders are replaced by open ones that have the interpreter, this checkout and nothing else.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from whest.isolation.walls.kernel import mount, unshare  # noqa: E402

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000


def closed_ancestor(path: Path) -> Path | None:
    """The outermost folder on the way that others can't pass."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)


def open_up(paths: list[Path]) -> None:
    unshare(CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    closed: dict[Path, list[tuple[Path, int]]] = {}
    for path in dict.fromkeys(paths):
        ancestor = closed_ancestor(path)
        if ancestor is not None:
            closed.setdefault(ancestor, []).append((path, os.open(path, os.O_PATH)))
    for ancestor, inside in closed.items():
        mount("tmpfs", ancestor, "tmpfs", 0, "mode=755")
        for path, fd in inside:
            path.mkdir(parents=True, exist_ok=True)
            mount(f"/proc/self/fd/{fd}", path, None, MS_BIND | MS_REC)


def main(uid: int, command: list[str]) -> None:
    open_up([Path(sys.base_prefix), Path(sys.prefix), ROOT])
    if uid != 0:
        become(uid)
    os.execv(command[0], command)


def become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
