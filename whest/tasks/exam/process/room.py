"""The room of a learner: the folders that it may see, which are those of Python, JAX and the learner, and no others.

A room is a list of visible folders, not of hidden ones, so the list itself says nothing about the exam.
"""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec
from whest.host import PACKAGE

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/dev", "/sys", "/nix")
LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "optax", "jaxtyping", "pydantic", "ml_dtypes")


def furniture(spec: EstimatorSpec) -> list[Path]:
    """All folders that training needs: of the system, Python, the libraries, whest and the learner."""
    folders = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix), PACKAGE, PACKAGE.parent / "estimators"]
    found = [importlib.util.find_spec(name) for name in LIBRARIES]
    folders += [Path(library.origin).parent.parent for library in found if library and library.origin]
    if spec.source is not None and not spec.is_bundled:
        folders.append(spec.source.parent)
    return _without_nested([folder for folder in folders if folder.exists()])


def importable(spec: EstimatorSpec, allowed: Sequence[Path]) -> list[str]:
    """The entries of this process's `sys.path` that are in the room, or contain whest or the learner."""
    wanted = [PACKAGE, *([spec.source] if spec.target and spec.source else [])]  # a file's folder is in the room anyway
    return [
        path
        for path in sys.path
        if path
        and (
            any(Path(path).is_relative_to(folder) for folder in allowed)
            or any(place.is_relative_to(path) for place in wanted)
        )
    ]


def refuse_exam_in_room(exam: Path | None, allowed: Sequence[Path]) -> None:
    """Refuse an exam in a folder of the room: it could not be hidden from the learner."""
    if exam is None:
        return
    for place in {exam, exam.resolve()}:
        for folder in allowed:
            if place.is_relative_to(folder.resolve()) or place.is_relative_to(folder):
                raise ConfigError(
                    f"data.exam={exam} is in {folder}, which the training process must see: move it to another folder"
                )


def _without_nested(folders: Sequence[Path]) -> list[Path]:
    """The outermost folders, without those inside them."""
    kept: list[Path] = []
    for folder in sorted(set(folders), key=lambda path: len(path.parts)):
        if not any(folder.is_relative_to(outer) for outer in kept):
            kept.append(folder)
    return kept
