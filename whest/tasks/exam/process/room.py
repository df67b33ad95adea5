"""The room a learner is trained in: the parts of this machine that Python, JAX and the learner need, and nothing else.

The room lists what is there, not what is hidden, so that even the way it is built says nothing of the exam.
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
    """Every folder that training needs: the system's, Python's, the libraries', ours and the learner's."""
    folders = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix), PACKAGE, PACKAGE.parent / "estimators"]
    found = [importlib.util.find_spec(name) for name in LIBRARIES]
    folders += [Path(library.origin).parent.parent for library in found if library and library.origin]
    if spec.source is not None and not spec.is_bundled:
        folders.append(spec.source.parent)
    return _without_nested([folder for folder in folders if folder.exists()])


def importable(spec: EstimatorSpec, allowed: Sequence[Path]) -> list[str]:
    """Of the places where this process looks for modules, those that lead into the room."""
    wanted = [PACKAGE, *([spec.source] if spec.target and spec.source else [])]  # a file brings its own folder
    return [
        path
        for path in spec.module_paths
        if path
        and (
            any(Path(path).is_relative_to(folder) for folder in allowed)
            or any(place.is_relative_to(path) for place in wanted)
        )
    ]


def refuse_exam_in_room(exam: Path | None, allowed: Sequence[Path]) -> None:
    """An exam that lies where the learner must look could not be kept from it."""
    if exam is None:
        return
    for place in {exam, exam.resolve()}:
        for folder in allowed:
            if place.is_relative_to(folder.resolve()) or place.is_relative_to(folder):
                raise ConfigError(
                    f"data.exam={exam} lies in {folder}, which the training process needs to see: move it elsewhere"
                )


def _without_nested(folders: Sequence[Path]) -> list[Path]:
    """Outer folders bring their inner ones along."""
    kept: list[Path] = []
    for folder in sorted(set(folders), key=lambda path: len(path.parts)):
        if not any(folder.is_relative_to(outer) for outer in kept):
            kept.append(folder)
    return kept
