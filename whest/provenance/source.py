"""The estimator's source, copied into the run's folder: the run can be read and repeated after the file changed.

A copy holds the estimator's file and the modules beside it that it imports, or a WhestBench submission's whole folder.
Nothing is run to find them.
"""

import ast
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from whest.errors import WhestError
from whest.files import inside, read_bounded, write_atomically

if TYPE_CHECKING:  # it imports JAX, and a comparison reads sources without it
    from whest.estimator.spec import EstimatorSpec

LARGEST_COPY = 2**20
"""Bytes of all copied files together."""
MOST_FILES = 200


def source_files(spec: "EstimatorSpec") -> dict[str, Path]:
    """The files of an estimator, by their place in its folder. Empty for an object of a script."""
    entry = spec.source
    if entry is None:
        return {}
    if spec.path is not None and spec.path.is_dir():
        found = (path for path in sorted(spec.path.rglob("*")) if path.suffix != ".pyc" and _is_inside(path, spec.path))
        return {path.relative_to(spec.path).as_posix(): path for path in found}
    if spec.is_bundled:  # it imports from whest's own packages, which the code version names
        return {entry.name: entry}
    return {path.relative_to(entry.parent).as_posix(): path for path in with_neighbours(entry)}


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether it is an ordinary file of the folder: no pipe, and no link to somewhere else."""
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def with_neighbours(entry: Path) -> list[Path]:
    """A file and the modules of its folder that it imports, directly or through each other."""
    found, waiting = [entry], [entry]
    while waiting and len(found) < MOST_FILES:
        for path in _imported_beside(waiting.pop(), entry.parent):
            if path not in found:
                found.append(path)
                waiting.append(path)
    return found[:MOST_FILES]


def _imported_beside(path: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(read_bounded(path, LARGEST_COPY))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):  # it can't be read: so it can't be followed
        return
    for name in _module_names(tree):
        parts = name.split(".")
        for place in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
            if _is_inside(place, folder):
                yield place


def _module_names(tree: ast.AST) -> Iterator[str]:
    """Every module that the code may import, with the packages above it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
        else:
            continue
        for name in names:
            parts = [part for part in name.split(".") if part.isidentifier()]
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def copy_source(files: dict[str, Path], folder: Path) -> tuple[dict[str, str], list[str]]:
    """Copy the files into `folder`. Returns the sha256 of each copy, and the names that were too large to copy."""
    hashes: dict[str, str] = {}
    left_out: list[str] = []
    room = LARGEST_COPY
    for name, path in files.items():
        content = None
        with suppress(OSError, ValueError):
            content = read_bounded(path, room)
        if content is None or len(hashes) == MOST_FILES:
            left_out.append(name)
            continue
        room -= len(content)
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, content)
        hashes[name] = hashlib.sha256(content).hexdigest()
    return hashes, left_out


def read_source_files(folder: Path) -> dict[str, bytes]:
    """The files of a kept source."""
    if not folder.is_dir():
        return {}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc"][:MOST_FILES]
    try:
        return {
            path.relative_to(folder).as_posix(): read_bounded(
                inside(folder, path.relative_to(folder).as_posix()), LARGEST_COPY
            )
            for path in paths
        }
    except (OSError, ValueError) as error:
        raise WhestError(f"{folder} can't be read ({error}): put the run's own files there") from None
