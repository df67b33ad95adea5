"""How a config names an estimator, and how the estimator is created from it.

An estimator is any class with `predict(mlp, budget) -> (depth, width) means`, and optionally `setup(context)` and
`teardown()`. It needs no base class from whest. Its knobs are the arguments of its constructor. A WhestBench submission
has its own mode, because its base class, interpreter and meter are those of WhestBench ("the peer").
"""

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from whest.config.build import build_target
from whest.config.plugins import find_module
from whest.errors import ConfigError
from whest.estimator.bundled import BUNDLED as BUNDLED
from whest.estimator.bundled import know_bundled
from whest.estimator.contract import Estimator
from whest.estimator.former import refuse_former_api
from whest.estimator.peer import PeerPython, find_peer
from whest.files import LARGEST_SEALED, LARGEST_SOURCE, SEALED, TooLargeError, read_bounded
from whest.host import ESTIMATORS
from whest.metering.walk import METER_VERSION

Mode = Literal["traced", "eager", "flopscope"]
ENTRY = "estimator.py"
"""The estimator's file in a folder, by the peer's convention."""

know_bundled()


@dataclass(frozen=True)
class EstimatorSpec:
    """An estimator and its knobs: enough to create it in this process or in another."""

    name: str
    mode: Mode
    target: str | None
    """`package.module.Class`; None for a file."""
    path: Path | None
    """None for a target. A WhestBench submission may be a folder."""
    knobs: Mapping[str, Any]
    peer: PeerPython | None = None
    """The interpreter of a WhestBench submission."""

    @property
    def is_bundled(self) -> bool:
        """Whether it ships with whest: its file lies in whest's own `estimators`, whatever its name says."""
        if self.target is None or self.target.split(".")[0] != BUNDLED or self.source is None:
            return False
        return self.source.resolve().is_relative_to(ESTIMATORS.resolve())

    @property
    def is_sealed(self) -> bool:
        """Whether it is a program as data, which `whest.sealed` reads."""
        return self.path is not None and self.path.suffix == SEALED

    @property
    def is_trusted(self) -> bool:
        """Whether it may run in this process."""
        return self.is_bundled

    @property
    def source(self) -> Path | None:
        """The file of the class, found without running it."""
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
        """The hash of the file, or of all files of a folder."""
        if self.path is not None and self.path.is_dir():
            return _folder_sha256(self.path)
        most = LARGEST_SEALED if self.is_sealed else LARGEST_SOURCE
        return hashlib.sha256(read_source(self.source, most)).hexdigest() if self.source else None

    @property
    def submission_dir(self) -> str | None:
        return str(self.source.parent) if self.source else None

    @property
    def meter(self) -> dict[str, Any]:
        """The meter that counts its FLOPs, as part of the protocol hash."""
        return {"name": "xla-traced", "version": METER_VERSION} if self.peer is None else self.peer.meter

    def create(self) -> Estimator:
        """Create the estimator. Wrong knobs raise ConfigError; any other error comes from the estimator."""
        estimator: Estimator = build_target(self._load_class(), self.knobs, "estimator")
        return estimator

    def _load_class(self) -> type:
        if self.is_sealed:
            raise ConfigError(f"estimator.path={self.path} is a sealed program: it has no Python to import")
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
    """The only setting of a WhestBench submission: the name of its class. It has no knobs."""

    class_name: str | None = None


def estimator_spec(node: Mapping[str, Any]) -> EstimatorSpec:
    """A `conf/estimator` choice as a spec. Every key except name, mode, _target_ and path is a knob."""
    knobs = dict(node)
    if knobs.get("mode") == "flopscope":
        return _peer_spec(knobs)
    name, mode = knobs.pop("name"), knobs.pop("mode")
    target, path = knobs.pop("_target_", None), knobs.pop("path", None)
    if mode not in get_args(Mode):
        raise ConfigError(f"estimator.mode={mode!r} is not one of: {', '.join(get_args(Mode))}")
    if (target is None) == (path is None):
        raise ConfigError(
            "estimator needs either _target_ or path: choose one of conf/estimator, or use estimator=file "
            "estimator.path=my_estimator.py"
        )
    if target is not None and not (isinstance(target, str) and "." in target):
        raise ConfigError(f"estimator._target_={target} must be the path of a class, package.module.Class")
    if path is not None:
        check_file(Path(path))
    spec = EstimatorSpec(name, mode, target, Path(path).resolve() if path else None, knobs)
    if path is not None and not spec.is_sealed:
        refuse_former_api(Path(path), read_source(Path(path)))
    if spec.is_sealed and (mode != "traced" or knobs):
        odd = f"estimator.mode={mode}" if mode != "traced" else f"estimator.{next(iter(knobs))}"
        raise ConfigError(f"{odd} has no effect on the sealed program {path}, which is fixed: leave it out")
    if target is not None and spec.source is None:
        raise ConfigError(f"estimator._target_={target}: no module {target.rpartition('.')[0]!r} can be imported")
    return spec


def _peer_spec(node: dict[str, Any]) -> EstimatorSpec:
    """`estimator=whestbench`: a file or a folder that the peer's own loader opens."""
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
    entry = place / ENTRY if place.is_dir() else place
    if entry.is_file():
        refuse_former_api(entry, read_source(entry))
    knobs: PeerKnobs = build_target(PeerKnobs, node, "estimator")
    return EstimatorSpec(name, "flopscope", None, place, vars(knobs), find_peer(python))


def read_source(path: Path, most: int = LARGEST_SOURCE) -> bytes:
    """A file of a submission. A huge one, a pipe or a device must not stop or fill this process."""
    try:
        return read_bounded(path, most)
    except TooLargeError as error:
        raise ConfigError(f"estimator.path: {path} can't be used, {error}: keep tables out of the code") from None
    except OSError as error:
        raise ConfigError(f"estimator.path: {path} can't be read ({error.strerror})") from None


def check_file(path: Path) -> None:
    try:
        is_file, is_there = path.is_file(), path.exists() or path.is_symlink()
    except (OSError, RuntimeError, ValueError):  # a chain of links without an end, a name with a zero byte
        is_file, is_there = False, True
    if not is_file:
        what = "it is not an ordinary file" if is_there else "no such file"
        raise ConfigError(f"estimator.path={path}: {what}")


def _folder_sha256(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + read_source(path) + b"\0")
    return digest.hexdigest()


def _import_file(path: Path) -> ModuleType:
    """Run a user's file as a module. Its folder is added to `sys.path`, so it can import files beside it."""
    name = f"whest_submission_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"estimator.path={path} is not a Python file")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # not by the loader: its cache takes a file of the same length for the same one if it was saved in the same second
    exec(compile(read_source(path), str(path), "exec", dont_inherit=True), vars(module))
    return module
