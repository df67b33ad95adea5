"""The wheel contains configs, estimators and suites, and runs from any folder without the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.slow


def execute(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run from another folder, without the checkout on the path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FORCE_COLOR")}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="the build backend is needed offline")
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index")
    built = execute(*command, "--wheel-dir", folder, ROOT, cwd=folder)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("whest-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel in it and this one's packages beside it, but not its checkout."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, with_pip=False)
    command = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--no-deps", "--no-index")
    done = execute(*command, wheel, cwd=home)
    assert done.returncode == 0, done.stderr
    (site_packages,) = home.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_the_wheel_carries_everything_a_run_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for path in ROOT.glob("conf/**/*.yaml"):
            assert archive.read(f"whest/{path.relative_to(ROOT)}") == path.read_bytes()
    for pattern in ("whest/**/*.py", "estimators/**/*.py", "whest/dataset/suites/*.npz"):
        assert {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)} <= names
    assert not [name for name in names if name.startswith(("tests/", "outputs/", "benchmarks/", "conf/"))]
    assert not [name for name in names if "__pycache__" in name]


def test_the_installed_module_runs_from_another_folder(installed: Path, tmp_path: Path) -> None:
    found = execute(installed / "python", "-c", "import whest, estimators; print(whest.__file__)", cwd=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(installed.parent), found.stderr
    ended = execute(installed / "python", "-m", "whest", "debug=tiny", "tracking=none", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "cov_prop on fresh" in ended.stdout
    (report,) = tmp_path.glob("outputs/runs/*/*/report.json")
    assert '"code_version": null' in report.read_text()


@pytest.mark.parametrize("arguments", [["debug=tiny", "estimator=mean_prop"], ["job=list"], ["--cfg", "job"]])
def test_the_installed_script_runs_from_another_folder(installed: Path, tmp_path: Path, arguments: list[str]) -> None:
    ended = execute(installed / "whest-run", *arguments, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "mean_prop" in ended.stdout or "budget: 68000000000.0" in ended.stdout


def test_the_installed_suite_scores(installed: Path, tmp_path: Path) -> None:
    ended = execute(installed / "whest-run", "debug=one", "estimator=mean_prop", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "mean_prop on suite-warmup: 1 MLPs of 256x8" in ended.stdout
