"""The floor plan: imports point down, libraries are imported only in some packages, and light modules stay light.

`docs/design.md` has the same list in words. Function-level imports count like any other.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

PACKAGE = ROOT / "whest"
FLOORS = """
schema results document errors files host notation progress limits cost mlp
config metering truth cases dataset estimator provenance scoring learner isolation
page report display sealed tracking gallery tasks experiment
starter whestbench checks boards contest compare sweeps api cli __main__
""".split()
"""From bottom to top: a module imports only from its own floor or from floors below."""
ANYWHERE = {"", "__init__"}
"""`whest` itself: a version and names that are looked up when they are used."""
DOORS = {
    "mlflow": ("tracking",),
    "sqlalchemy": ("tracking",),
    "hydra": ("cli.command", "config", "sweeps.callback"),
    "jinja2": ("page.render",),
    "matplotlib": ("display.view", "display.plots", "page.drawing", "tasks.*.figures", "sweeps.view", "compare.view"),
    "rich": ("cli", "display", "tasks.*.view", "sweeps.view", "compare.view", "boards.show"),
    "pyarrow": ("dataset.formats",),
    "optuna": ("cli.tune",),
    "cryptography": ("contest.keys",),
}
"""Where a library may be imported."""
FREE_OF_JAX = (
    "schema results document scoring cases cost report display page tracking gallery boards sweeps compare".split()
)
"""Nothing here imports JAX, whatever it imports in turn."""
BEFORE_THE_WALLS = (
    "isolation/launcher.py",
    "isolation/wire.py",
    *sorted(f"isolation/walls/{path.name}" for path in (PACKAGE / "isolation" / "walls").glob("*.py")),
)
"""The peer's interpreter runs these files, so they import only the standard library and NumPy."""
PEER_LIBRARIES = ("numpy", "ml_dtypes", "whestbench", "flopscope")
FOR_THE_PEER = (*BEFORE_THE_WALLS, "isolation/channel.py", "isolation/peer_worker.py")
"""The peer's interpreter runs these files: the standard library, NumPy, and each other."""


def absolute(path: Path) -> Iterator[tuple[int, str]]:
    """What a file imports from other packages; imports among neighbours are checked by `relative`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module or ""


def relative(path: Path) -> Iterator[str]:
    """The neighbours that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            names = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (f"{path.parent.relative_to(PACKAGE)}/{name}.py" for name in names)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, wherever in it, with the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.lineno, node.module
            if node.module == "whest":
                yield from ((node.lineno, f"whest.{alias.name}") for alias in node.names if alias.name[0] != "_")


def floor(module: str) -> str:
    return module.split(".")[0]


def upward_imports(path: Path) -> list[str]:
    own = floor(module_of(path))
    if own in ANYWHERE:
        return []
    wrong = []
    for line, name in imported(path):
        other = floor(name.removeprefix("whest").lstrip("."))
        if name.split(".")[0] == "whest" and other not in ANYWHERE and FLOORS.index(other) > FLOORS.index(own):
            wrong.append(f"{path.relative_to(PACKAGE)}:{line} imports {name}, which is above it")
    return wrong


def is_at(module: str, door: str) -> bool:
    wanted, own = door.split("."), module.split(".")
    return len(own) >= len(wanted) and all(w in ("*", o) for w, o in zip(wanted, own, strict=False))


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_module_has_a_floor() -> None:
    top = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if path.name[:2] != "__"} - {
        "py"
    }  # py.typed
    assert top - {"conf"} == set(FLOORS) - {"__main__"}


def test_imports_point_down() -> None:
    assert [line for path in FILES for line in upward_imports(path)] == []


def test_an_upward_import_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "truth").mkdir()
    turned = tmp_path / "truth" / "cache.py"
    turned.write_text("def find():\n    from whest.report import Report\n")
    assert upward_imports(turned) == ["truth/cache.py:2 imports whest.report, which is above it"]


def test_libraries_come_in_by_their_doors() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {name}"
        for path in FILES
        for line, name in imported(path)
        if name.split(".")[0] in DOORS and not any(is_at(module_of(path), door) for door in DOORS[name.split(".")[0]])
    ]
    assert wrong == []


def test_tasks_do_not_know_each_other() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {name}"
        for path in FILES
        if module_of(path).count(".") >= 2 and floor(module_of(path)) == "tasks"
        for line, name in imported(path)
        if name.startswith("whest.tasks.") and name.split(".")[2] not in ("task", module_of(path).split(".")[1])
    ]
    assert wrong == []


def test_the_house_is_small_enough_to_walk_through() -> None:
    modules = [path for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]
    packages = [path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]
    assert (len(modules) <= 15, len(packages) <= 24) == (True, True)


@pytest.mark.parametrize(("files", "libraries"), [(BEFORE_THE_WALLS, ()), (FOR_THE_PEER, PEER_LIBRARIES)])
def test_what_a_launcher_runs_needs_little(files: tuple[str, ...], libraries: tuple[str, ...]) -> None:
    allowed = {*sys.stdlib_module_names, *libraries}
    wrong = [
        f"{name}:{line} imports {module}"
        for name in files
        for line, module in absolute(PACKAGE / name)
        if module.split(".")[0] not in allowed
    ]
    assert wrong == []
    assert {neighbour for name in files for neighbour in relative(PACKAGE / name)} <= set(files)


def loaded_by(*modules: str) -> set[str]:
    """What a fresh interpreter has loaded once these modules are imported."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
    return {name.split(".")[0] for name in ended.stdout.split()}


def test_what_needs_no_jax_brings_none() -> None:
    quiet = [path for path in FILES if floor(module_of(path)) in FREE_OF_JAX]
    assert "jax" not in loaded_by(*(f"whest.{module_of(path)}" for path in quiet))


def test_importing_whest_is_light() -> None:
    assert not {"jax", "mlflow", "hydra", "numpy"} & loaded_by("whest")


def test_the_launcher_has_one_thread_and_nothing_of_ours_when_it_raises_the_walls() -> None:
    """The kernel gives no user namespace to a process with threads, and libraries such as NumPy start some."""
    launcher = PACKAGE / "isolation" / "launcher.py"
    code = (
        "import runpy, sys, os\n"
        f"made = runpy.run_path({str(launcher)!r})\n"
        "made['borrow']('wire'), made['borrow']('walls.raising')\n"
        "print(len(os.listdir('/proc/self/task')), *sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    threads, *modules = ended.stdout.split()
    assert threads == "1"
    own = {name.split(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert own == {"__main__", "whest_isolation"}
