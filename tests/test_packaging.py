"""The wheel contains configs, estimators and suites, and runs from any folder without the checkout."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.places import ROOT
from whest.config.extras import EXTRAS

sys.path.insert(0, str(ROOT / "benchmarks"))
import matrix

slow = pytest.mark.slow


def execute(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run from another folder, without the checkout on the path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FORCE_COLOR")}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)


def build(project: Path, folder: Path) -> Path:
    command = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index")
    built = execute(*command, "--wheel-dir", folder, project, cwd=folder)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


def install(home: Path, *wheels: Path) -> Path:
    """The bin folder of an environment with the wheels and with this one's packages, but without its checkout."""
    venv.create(home, with_pip=False)
    command = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--no-deps", "--no-index")
    done = execute(*command, *wheels, cwd=home)
    assert done.returncode == 0, done.stderr
    (site_packages,) = home.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("installed") / "venv", wheel)


@slow
def test_the_wheel_carries_everything_a_run_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for path in ROOT.glob("conf/**/*.yaml"):
            assert archive.read(f"whest/{path.relative_to(ROOT)}") == path.read_bytes()
    for pattern in ("whest/**/*.py", "whest/py.typed", "whest/dataset/suites/v*/*.npz"):
        assert {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)} <= names
    assert {f"whest_{path.relative_to(ROOT)}" for path in ROOT.glob("estimators/**/*.py")} <= names
    folders = {name.partition("/")[0] for name in names}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"whest", "whest_estimators"}
    assert "whest/conf/__init__.py" in names
    assert not [name for name in names if "__pycache__" in name]


@slow
def test_the_installed_module_runs_from_another_folder(installed: Path, tmp_path: Path) -> None:
    found = execute(installed / "python", "-c", "import whest; print(whest.__file__)", cwd=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(installed.parent), found.stderr
    ended = execute(installed / "python", "-m", "whest", "debug=tiny", "tracking=none", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "cov_prop on fresh" in ended.stdout
    (report,) = tmp_path.glob("outputs/runs/*/*/report.json")
    assert '"code_version": null' in report.read_text()


@slow
@pytest.mark.parametrize("arguments", [["debug=tiny", "estimator=mean_prop"], ["job=list"], ["--cfg", "job"]])
def test_the_installed_script_runs_from_another_folder(installed: Path, tmp_path: Path, arguments: list[str]) -> None:
    ended = execute(installed / "whest-run", *arguments, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "mean_prop" in ended.stdout or "budget: 68000000000.0" in ended.stdout


@slow
def test_the_installed_suite_scores(installed: Path, tmp_path: Path) -> None:
    ended = execute(installed / "whest-run", "debug=one", "estimator=mean_prop", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"mean_prop on suite-warmup(-v\d+)?: 1 MLP of 256x8", ended.stdout)


@slow
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_bundled_class_keeps_its_name_where_others_own_it(installed: Path, tmp_path: Path, isolation: str) -> None:
    """`estimators.mean_prop.MeanProp` is in logged runs. A package `estimators` of somebody else stays theirs."""
    theirs = tmp_path / "estimators"
    theirs.mkdir()
    (theirs / "__init__.py").write_text("")
    (theirs / "mine.py").write_text("NAME = 'theirs'\n")
    alone = "import estimators.mine, sys; print(estimators.mine.NAME, estimators.__path__, 'whest' in sys.modules)"
    found = execute(installed / "python", "-c", alone, cwd=tmp_path)
    assert found.stdout.strip() == f"theirs ['{theirs}'] False", found.stderr
    words = ("debug=tiny", "estimator=mean_prop", f"isolation={isolation}", "tracking=none")
    ended = execute(installed / "whest-run", *words, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    (report,) = tmp_path.glob("outputs/runs/*/*/report.json")
    described = json.loads(report.read_text())["run_config"]["estimator"]
    assert described["target"] == "estimators.mean_prop.MeanProp"
    assert described["source_sha256"] == hashlib.sha256((ROOT / "estimators/mean_prop.py").read_bytes()).hexdigest()


BOTH = """
import warnings; warnings.simplefilter("error")
import whest.estimator.spec, estimators, estimators.mine, estimators.zeros
print(estimators.mine.NAME, estimators.zeros.__file__)
"""


@slow
def test_in_a_process_of_whest_both_packages_are_found(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "estimators").mkdir()
    (tmp_path / "estimators" / "mine.py").write_text("NAME = 'theirs'\n")
    found = execute(installed / "python", "-c", BOTH, cwd=tmp_path)
    name, file = found.stdout.split()
    assert name == "theirs", found.stderr
    assert Path(file).parent.name == "whest_estimators"


AS_A_MODULE = """
import warnings; warnings.simplefilter("error")
from hydra import compose, initialize_config_module
from whest.config.versions import BASE
with initialize_config_module("whest.conf", **BASE):
    print(compose("config", ["estimator=mean_prop"]).estimator._target_)
"""


@slow
def test_the_configs_are_a_package_for_hydra(installed: Path, tmp_path: Path) -> None:
    found = execute(installed / "python", "-c", AS_A_MODULE, cwd=tmp_path)
    assert found.stdout.strip() == "estimators.mean_prop.MeanProp", found.stderr
    words = ("hydra.searchpath=[pkg://whest.conf]", "--cfg", "job")
    shown = execute(installed / "python", "-W", "error", "-m", "whest", *words, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert not shown.stderr


SOURCE = """
from mlflow.data.dataset_source_registry import get_dataset_source_from_json
source = get_dataset_source_from_json('{"name": "suite-warmup", "n_mlps": 2}', "whest")
print(type(source).__name__, source.load().n_mlps)
"""


@slow
def test_mlflow_knows_our_sources(installed: Path, tmp_path: Path) -> None:
    found = execute(installed / "python", "-c", SOURCE, cwd=tmp_path)
    assert found.stdout.strip() == "WhestSource 2", found.stderr


@slow
def test_the_example_of_a_plug_in_installs_and_runs(wheel: Path, tmp_path: Path) -> None:
    """Every command of its README, in an empty folder."""
    example = ROOT / "docs" / "examples" / "plugin"
    (tmp_path / "wheels").mkdir()
    bin_folder = install(tmp_path / "venv", wheel, build(example, tmp_path / "wheels"))
    lines = [line.strip().partition("   #")[0] for line in (example / "README.md").read_text().splitlines()]
    commands = [line.strip() for line in lines if line.startswith("python -m whest")]
    said = []
    for command in commands:
        _, *words = shlex.split(command)
        ended = execute(bin_folder / "python", *words, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        said.append(ended.stdout)
    listed, run, scored, board = said
    assert "(whest-example 0.1.0)" in listed
    assert "antithetic on fresh" in run
    assert "antithetic on fresh" in scored
    assert "worst MLP" in board
    (described,) = {json.loads(path.read_text())["run_config"]["isolation"]["worker"] for path in reports(tmp_path)}
    assert described, "a plug-in's estimator runs in a worker"


def reports(folder: Path) -> list[Path]:
    return sorted(folder.glob("outputs/runs/*/*/report.json"))


MINE = re.search(r"```python\n(import jax.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
MAKE = re.compile(rf"\bmake ({'|'.join(TARGETS)})\b")
COMMANDS = [
    line.strip().removeprefix("$ ").partition("   #")[0].strip()
    for line in (ROOT / "README.md").read_text().splitlines()
    if line.startswith(("    python -m whest", "    $ python -m whest"))
]


@slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_runs_in_an_empty_folder(installed: Path, tmp_path: Path, command: str) -> None:
    assert MINE is not None
    (tmp_path / "my_estimator.py").write_text(MINE[1])
    _, *words = shlex.split(command)
    small = [] if "job=doctor" in words or "job=list" in words else ["debug=tiny", "tracking=none"]
    if "job=gallery" in words:  # the page of earlier runs
        execute(installed / "python", "-m", "whest", *small, cwd=tmp_path)
        small = ["tracking=none"]
    ended = execute(installed / "python", *words, *small, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert not MAKE.search(ended.stdout + ended.stderr), "there is no Makefile here"


@slow
def test_what_is_missing_is_named_with_a_command_that_works_here(installed: Path, tmp_path: Path) -> None:
    """Not one hint leads to a Makefile or to a file of the checkout."""
    doctor = execute(installed / "whest-run", "doctor", cwd=tmp_path)
    unknown = execute(installed / "whest-run", "reproduce", "run=abc", cwd=tmp_path)
    peer = execute(installed / "whest-run", "estimator=whestbench", "estimator.path=t.py", "debug=tiny", cwd=tmp_path)
    said = doctor.stdout + unknown.stderr + peer.stderr
    assert not MAKE.search(said)
    assert "constraints.txt" not in said
    assert "names" in doctor.stdout


@slow
def test_init_is_of_use_without_pytest(installed: Path, tmp_path: Path) -> None:
    begun = execute(installed / "python", "-c", WITHOUT_PYTEST, cwd=tmp_path)
    assert begun.returncode == 0, begun.stderr
    commands = [line.removeprefix("next").strip() for line in begun.stdout.splitlines() if "python -m" in line]
    assert [command for command in commands if "pytest" in command] == ["pip install pytest && python -m pytest mine"]
    for command in commands:
        if "pytest" not in command:
            _, *words = shlex.split(command)
            ended = execute(installed / "python", *words, "debug=tiny", "tracking=none", cwd=tmp_path)
            assert ended.returncode == 0, ended.stderr


WITHOUT_PYTEST = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pytest" else find(name, *more)
sys.argv[1:] = ["init", "path=mine"]
from whest.__main__ import main
main()
"""


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_extra_dev_is_the_group_dev() -> None:
    """A pip before 25.1 reads no groups, so `make setup` takes the extra."""
    groups = pyproject()["dependency-groups"]
    group = [line for part in groups["dev"] for line in groups[part["include-group"]]]
    assert sorted(group) == sorted(pyproject()["project"]["optional-dependencies"]["dev"])


def test_every_extra_that_is_named_exists() -> None:
    """`pip install 'whest[joblib]'` and its like, in messages and in job=doctor."""
    assert set(EXTRAS) <= set(pyproject()["project"]["optional-dependencies"])


def test_pins_allow_what_is_installed() -> None:
    """The development pins are inside the ranges of pyproject.toml."""
    pins = dict(line.lower().replace("_", "-").split("==") for line in (ROOT / "constraints.txt").read_text().split())
    for line in pyproject()["project"]["dependencies"]:
        asked = Requirement(line)
        assert asked.specifier.contains(pins[asked.name.lower().replace("_", "-")]), line


def test_the_matrix_pins_the_version_that_it_tests() -> None:
    """`make test-matrix`: the oldest JAX by its number, the newest by no pin; every other pin is the development's."""
    oldest, newest = (set(matrix.constraints(matrix.Pair("3.12", jax))) for jax in ("oldest", "newest"))
    assert oldest - newest == {f"jax=={matrix.oldest_jax()}", f"jaxlib=={matrix.oldest_jax()}"}
    assert not [line for line in newest if line.partition("==")[0] in matrix.JAX_FAMILY]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in matrix.claimed()
