"""The first file of every worker: it raises the walls, and only then imports anything.

Run as a script with `-I -S`, so that neither `site` nor the environment brings code in. Standard library alone, and one
thread alone: libraries such as NumPy start threads, and the kernel gives no user namespace to a process that has some.

    python -I -S -u launcher.py ROLE READ_FD WRITE_FD

Where only `bwrap` is given namespaces, the launcher starts itself through it, with the start message as a further
descriptor.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "whest_isolation"
"""This folder as a package, also where whest itself is not installed."""


def borrow(module: str) -> ModuleType:
    """A file of this folder that needs the standard library alone, or NumPy."""
    if NAME not in sys.modules:
        here = Path(__file__).parent
        spec = importlib.util.spec_from_file_location(
            NAME, here / "__init__.py", submodule_search_locations=[str(here)]
        )
        assert spec is not None
        sys.modules[NAME] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{NAME}.{module}")


def main(role: str, read_fd: int, write_fd: int, handed_fd: int | None = None) -> None:
    """`handed_fd` has the start message if this is the second start, in bwrap's room."""
    wire = borrow("wire")
    pipe = wire.Pipe(read_fd, write_fd)
    if handed_fd is None:
        start = pipe.read_header(wire.FROM_HOST)["message"]
    else:
        start = wire.Pipe(handed_fd, write_fd).read_header(wire.FROM_HOST)["message"]
        os.close(handed_fd)

    def again() -> list[str]:
        handed = os.memfd_create("start", 0)
        with open(handed, "wb", closefd=False) as file:
            file.write(wire.frame({"message": start}))
        os.lseek(handed, 0, os.SEEK_SET)
        return [sys.executable, "-I", "-S", "-u", __file__, role, str(read_fd), str(write_fd), str(handed)]

    try:
        protections = shut_in(start, again, is_inside=handed_fd is not None)
    except OSError as error:
        pipe.write(wire.frame({"message": {"refused": f"{type(error).__name__}: {error}"}, "arrays": []}))
        return
    furnish(start["paths"])
    os.environ.update(start["environment"])
    continue_with(start["then"]).main(role, read_fd, write_fd, start, protections)


def shut_in(start: dict[str, Any], again: Callable[[], Sequence[str]], is_inside: bool) -> dict[str, str]:
    """Raise the walls that were ordered; trusted code gets limits alone. `again` is how to start once more."""
    if not sys.platform.startswith("linux"):
        return {}
    namespaces, privileges = borrow("walls.namespaces"), borrow("walls.privileges")
    namespaces.die_with_parent()
    if start["walls"] is None:
        privileges.limit_resources(start["file_bytes"])
        return {}
    if namespaces.n_threads() != 1:
        raise OSError(22, "the launcher has more than one thread, so the kernel would refuse namespaces")
    order = borrow("walls.room").Order(**start["walls"])
    found: dict[str, str] = borrow("walls.raising").raise_walls(order, again, is_inside)
    return found


def furnish(paths: Sequence[str] | None) -> None:
    """Where modules are looked for: the host's places first; then those that `site` adds, behind the walls."""
    import site

    sys.path[:] = [*(paths or ()), *(path for path in sys.path if path not in (paths or ()))]
    sys.path_importer_cache.clear()  # it remembers folders as they were outside
    site.main()


def continue_with(place: str) -> Any:
    """The module that answers messages: a name, or a file for an interpreter that doesn't have whest."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    return borrow(Path(place).stem)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
