"""Estimators: the contract, and how a config becomes one.

An estimator is any class with `predict(mlp, budget) -> (depth, width) means`, and optionally `setup(context)` and
`teardown()`. It needs nothing of ours; knobs are its constructor's arguments. A WhestBench submission is one too, in
a mode of its own: its class is the peer's, and so are its interpreter and its meter.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from whest.config.build import build_target
from whest.errors import ConfigError
from whest.estimator.contract import Estimator
from whest.estimator.peer import PeerPython, find_peer
from whest.host import PACKAGE
from whest.metering.meter import METER_VERSION

Mode = Literal["traced", "eager", "flopscope"]

BUNDLED = "estimators"
"""The package whose estimators are trusted."""

ENTRY = "estimator.py"
"""The file of a folder's estimator, by the peer's convention."""


@dataclass(frozen=True)
class EstimatorSpec:
    """Which estimator, with which knobs: enough to make it here or in another process."""

    name: str
    mode: Mode
    target: str | None
    """`package.module.Class`; null for a file."""
    path: Path | None
    """Null for a target. A WhestBench submission may be a folder."""
    knobs: Mapping[str, Any]
    peer: PeerPython | None = None
    """The interpreter of a WhestBench submission."""

    @property
    def is_bundled(self) -> bool:
        """Whether it ships with whest: its file lies in whest's own `estimators`, whatever its name says."""
        if self.target is None or self.target.split(".")[0] != BUNDLED or self.source is None:
            return False
        return self.source.resolve().is_relative_to((PACKAGE.parent / BUNDLED).resolve())

    @property
    def is_trusted(self) -> bool:
        """Whether it may run in this process."""
        return self.is_bundled

    @property
    def source(self) -> Path | None:
        """The file the class is written in, found without running it."""
        if self.path is not None:
            return self.path / ENTRY if self.path.is_dir() else self.path
        assert self.target is not None
        found = find_module(self.target.rpartition(".")[0])
        return Path(found.origin) if found and found.origin and found.has_location else None

    @property
    def module_paths(self) -> list[str]:
        """Where a worker that imports it looks for modules: as this process does, and last in the working folder.

        The working folder is not on this process's own path: a file there must not pass for a library.
        """
        here = str(Path.cwd())
        places = [path or here for path in sys.path]
        return [*places, here] if self.target is not None and not self.is_bundled and here not in places else places

    @property
    def source_sha256(self) -> str | None:
        """Of the file, or of all a folder holds."""
        if self.path is not None and self.path.is_dir():
            return _folder_sha256(self.path)
        return hashlib.sha256(self.source.read_bytes()).hexdigest() if self.source else None

    @property
    def submission_dir(self) -> str | None:
        return str(self.source.parent) if self.source else None

    @property
    def meter(self) -> dict[str, Any]:
        """What counts its FLOPs: part of the protocol hash."""
        return {"name": "xla-traced", "version": METER_VERSION} if self.peer is None else self.peer.meter

    def create(self) -> Estimator:
        """The estimator itself; wrong knobs are a config error, anything else its own."""
        estimator: Estimator = build_target(self._load_class(), self.knobs, "estimator")
        return estimator

    def _load_class(self) -> type:
        if self.path is not None:
            module, name = _import_file(self.path), "Estimator"
        else:
            assert self.target is not None
            module_name, _, name = self.target.rpartition(".")
            if self.source is not None and self.source.is_relative_to(Path.cwd()) and str(Path.cwd()) not in sys.path:
                sys.path.append(str(Path.cwd()))  # isolation=none: the operator trusts it
            module = importlib.import_module(module_name)
        found = getattr(module, name, None)
        if not isinstance(found, type):
            where = f"estimator.path={self.path}" if self.path else f"estimator._target_={self.target}"
            raise ConfigError(f"{where} defines no class {name}")
        return found


@dataclass(frozen=True)
class PeerKnobs:
    """What a WhestBench submission may be told, which knows no knobs: which of its classes to take."""

    class_name: str | None = None


def estimator_spec(node: Mapping[str, Any]) -> EstimatorSpec:
    """A `conf/estimator` choice as a spec: what isn't ours (name, mode, target, path) is a knob."""
    knobs = dict(node)
    if knobs.get("mode") == "flopscope":
        return _peer_spec(knobs)
    name, mode = knobs.pop("name"), knobs.pop("mode")
    target, path = knobs.pop("_target_", None), knobs.pop("path", None)
    if mode not in get_args(Mode):
        raise ConfigError(f"estimator.mode={mode!r} is not one of: {', '.join(get_args(Mode))}")
    if (target is None) == (path is None):
        raise ConfigError(
            "estimator needs a class: name one in conf/estimator, or use estimator=file estimator.path=my_estimator.py"
        )
    if target is not None and not (isinstance(target, str) and "." in target):
        raise ConfigError(f"estimator._target_={target} must be the path of a class, package.module.Class")
    if path is not None and not Path(path).is_file():
        raise ConfigError(f"estimator.path={path}: no such file")
    spec = EstimatorSpec(name, mode, target, Path(path).resolve() if path else None, knobs)
    if target is not None and spec.source is None:
        raise ConfigError(f"estimator._target_={target}: no module {target.rpartition('.')[0]!r} can be imported")
    return spec


def _peer_spec(node: dict[str, Any]) -> EstimatorSpec:
    """`estimator=whestbench`: a file or a folder for the peer's own loader."""
    name, path, python = node.pop("name"), node.pop("path", None), node.pop("python", None)
    node.pop("mode")
    if path is None or "_target_" in node:
        raise ConfigError(
            "estimator.mode=flopscope runs a WhestBench file: estimator=whestbench estimator.path=theirs.py"
        )
    place = Path(path).resolve()
    if place.is_dir() and not (place / ENTRY).is_file():
        raise ConfigError(f"estimator.path={path} is a folder without an {ENTRY}: name the file, or add one")
    if not place.exists():
        raise ConfigError(f"estimator.path={path}: no such file or folder")
    knobs: PeerKnobs = build_target(PeerKnobs, node, "estimator")
    return EstimatorSpec(name, "flopscope", None, place, vars(knobs), find_peer(python))


def _folder_sha256(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def find_module(name: str) -> ModuleSpec | None:
    """A module in the places of this process or in the working folder. Its packages are not run to find it."""
    first, *parts = name.split(".")
    try:
        found = importlib.util.find_spec(first) or PathFinder.find_spec(first, [str(Path.cwd())])
        for number in range(len(parts)):
            if found is None or found.submodule_search_locations is None:
                return None
            places = list(found.submodule_search_locations)
            found = PathFinder.find_spec(".".join([first, *parts[: number + 1]]), places)
    except (ImportError, ValueError):
        return None
    return found


def _import_file(path: Path) -> ModuleType:
    """Run a user's file as a module; its folder is importable, so that it may have neighbours."""
    name = f"whest_submission_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"estimator.path={path} is not a Python file")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
