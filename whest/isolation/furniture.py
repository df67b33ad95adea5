"""The furniture of a worker's room: the parts of this machine that Python, JAX and the estimator need, nothing else."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from whest.estimator.spec import EstimatorSpec
from whest.host import ESTIMATORS, PACKAGE
from whest.isolation.walls.room import without_nested

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"),
    *("/etc/nsswitch.conf", "/etc/timezone", "/etc/OpenCL", "/etc/ssl/openssl.cnf"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
"""Programs, libraries and how they are found. Of /etc only what says so, of /sys only the processors."""

DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")

ACCELERATORS = ("nvidia*", "kfd", "dri", "accel*", "vfio")
"""In /dev, for workers that may run on one."""

LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "optax", "jaxtyping", "pydantic", "ml_dtypes")


def furniture(spec: EstimatorSpec, hidden: Sequence[Path] = ()) -> list[Path]:
    """Every folder that a worker needs: the system's, Python's, the libraries', ours and the estimator's."""
    folders = [*map(Path, SYSTEM), Path(sys.prefix), Path(sys.base_prefix), PACKAGE, ESTIMATORS]
    found = [importlib.util.find_spec(name) for name in LIBRARIES]
    folders += [Path(library.origin).parent.parent for library in found if library and library.origin]
    return _existing([*folders, *_installed(hidden), *own_paths(spec)], hidden)


def peer_furniture(prefix: str, python: str, source: Path, hidden: Sequence[Path]) -> list[Path]:
    """The same for a WhestBench submission, which has an interpreter of its own."""
    bases = [Path(python).resolve().parents[1], *_base_of(Path(prefix))]
    folders = [Path(prefix), *bases, Path(__file__).parent, *_narrowed(source.parent)]
    return _existing([*map(Path, SYSTEM), *folders], hidden)


def _base_of(environment: Path) -> list[Path]:
    """The installation that a virtual environment was made from, which has the standard library."""
    try:
        lines = (environment / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return []
    homes = [value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "home"]
    return [Path(home).resolve().parent for home in homes]


def devices(platforms: str) -> list[str]:
    """Sources of nothing and of chance; graphics cards where the worker may use one."""
    cards = [path for kind in ACCELERATORS for path in Path("/dev").glob(kind)] if platforms != "cpu" else []
    return [path for path in (*DEVICES, *map(str, cards)) if Path(path).exists()]


def own_folder(spec: EstimatorSpec) -> Path | None:
    """The folder of the estimator's file, or of the whole package that it is a part of."""
    if spec.source is None or spec.is_bundled or spec.is_sealed:
        return None
    if spec.target is None:
        return spec.source.parent
    n_modules = len(spec.target.split(".")) - 1
    is_package = spec.source.name == "__init__.py"
    return spec.source.parents[max(n_modules - 2 + is_package, 0)]


def own_paths(spec: EstimatorSpec) -> list[Path]:
    folder = own_folder(spec)
    return [] if folder is None else _narrowed(folder)


def private_entries(folder: Path | None) -> list[Path]:
    """What a project's folder has under names such as .env, .git or .ssh: not the estimator's business."""
    if folder is None or not folder.is_dir():
        return []
    return [entry for entry in folder.iterdir() if entry.name.startswith(".")]


def _narrowed(folder: Path) -> list[Path]:
    """The folder; only its Python files where it is a home, or holds everybody's temporary files."""
    if any(place.is_relative_to(folder) for place in both_ways([_home(), Path(tempfile.gettempdir())])):
        return sorted(folder.glob("*.py"))
    return [folder]


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111, a user without a home is no error here


def importable(spec: EstimatorSpec, allowed: Sequence[Path]) -> list[str]:
    """Of the places where its worker looks for modules, those that lead into the room."""
    wanted = [PACKAGE, *([spec.source] if spec.target and spec.source else [])]  # a file brings its own folder
    places = [str(Path(path).absolute()) for path in spec.module_paths]
    return [
        path
        for path in dict.fromkeys(places)
        if any(Path(path).is_relative_to(folder) for folder in allowed)
        or any(place.is_relative_to(path) for place in wanted)
    ]


def _installed(hidden: Sequence[Path]) -> list[Path]:
    """Places that the operator's environment adds for modules, such as packages installed for editing."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    never = [
        Path.cwd(),
        Path.home(),
        Path(tempfile.gettempdir()),
        PACKAGE,
        *hidden,
        *([Path(script)] if script else []),
    ]
    places = [Path(path).resolve() for path in sys.path if path and Path(path).is_dir()]
    return [place for place in places if not any(path.is_relative_to(place) for path in both_ways(never))]


def _existing(folders: Iterable[Path], hidden: Sequence[Path]) -> list[Path]:
    """Each folder that is there, with the place that a link leads to."""
    found = [folder for folder in folders if folder.exists()]
    return without_nested([*found, *(folder.resolve() for folder in found)], both_ways(hidden))


def both_ways(paths: Iterable[Path]) -> list[Path]:
    """Each path as it is named, and as its links lead."""
    return list(dict.fromkeys(place for path in paths for place in (path.absolute(), path.resolve())))
