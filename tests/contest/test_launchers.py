"""Entries are scored by the launchers of sweeps: joblib, submitit here and through SLURM's commands, Ray. One board."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.contests import RULES, copied, fix_secret, put, sealed, sealed_constant
from tests.support.launchers import launchers
from tests.support.places import ROOT
from whest.contest.verify import verify

__all__ = ["launchers"]
pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
PATIENCE_S = 900
USER = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
"""A worker of root's becomes somebody else, and in a user namespace with root alone there is nobody else."""
NAMESPACES = ("unshare", *USER, "-num", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A contest that is open and an inbox of four: two honest entries, one over its budget, one that can't be run."""
    place = tmp_path_factory.mktemp("launchers")
    put(place / "inbox", "ada/one.whest", sealed("mean_prop"), 1)
    put(place / "inbox", "bob/one.whest", sealed("cov_prop"), 2)
    put(place / "inbox", "eve/one.whest", sealed_constant(float("nan")), 3)
    put(place / "inbox", "zoe/one.whest", sealed_constant(0.5), 4)
    rules = [*RULES, "contest.received=file"]  # the board then has no time of the host's clock
    command = ["job=host", *rules, f"output={fix_secret(place / 'start')}", f"outputs_dir={place / 'o'}"]
    subprocess.run([sys.executable, "-m", "whest", *command], check=True, capture_output=True, cwd=place)
    return place


def hosted(start: Path, name: str, *words: str, before: tuple[str, ...] = (), **more: str) -> Path:
    """The contest, hosted in a copy of its folder by these words."""
    contest = copied(start / "start", start / name / "spring")
    typed = ["job=host", f"output={contest}", f"inbox={start / 'inbox'}", f"outputs_dir={start / name / 'o'}", *words]
    command = [*before, *typed] if before else [sys.executable, "-m", "whest", *typed]
    ended = subprocess.run(
        command, cwd=start, env={**os.environ, **more}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return contest


@pytest.fixture(scope="module")
def serial(start: Path) -> Path:
    contest = hosted(start, "serial")
    rows = json.loads((contest / "board.json").read_text())["rows"]
    assert [(row["participant"], row["status"]) for row in rows] == [
        ("bob", "ranked"),
        ("ada", "ranked"),
        ("zoe", "ranked"),
        ("eve", "unfinished"),
    ]
    return contest


def check(contest: Path, serial: Path) -> None:
    """The same board as one after the other, and each entry was a job of the launcher's."""
    for name in ("board.json", "board.csv"):
        assert (contest / name).read_bytes() == (serial / name).read_bytes(), name
    assert len(list((contest.with_name("spring.private") / "sweep").glob("[0-9]"))) == 4
    assert verify(contest)[1] == []


def test_joblib_gives_the_same_board(start: Path, serial: Path) -> None:
    check(hosted(start, "joblib", "hydra/launcher=cores", "hydra.launcher.n_jobs=2"), serial)


def test_submitit_gives_the_same_board(start: Path, serial: Path) -> None:
    check(hosted(start, "submitit", "hydra/launcher=processes"), serial)


def test_slurms_commands_give_the_same_board(start: Path, serial: Path) -> None:
    """submitit's way to SLURM, with an sbatch that runs the tasks of the array here."""
    fakes = start / "fakes"
    fakes.mkdir()
    for name in ("sbatch", "srun", "sacct"):
        (fakes / name).write_text(f"#!{sys.executable}\n{(ROOT / 'tests' / 'support' / 'fake_slurm.py').read_text()}")
        (fakes / name).chmod(0o755)
    contest = hosted(start, "slurm", "hydra/launcher=slurm", PATH=f"{fakes}:{os.environ['PATH']}")
    assert (fakes / "tasks").read_text().count("RUNNING") == 4, "else they did not go through sbatch"
    check(contest, serial)


def test_two_ray_nodes_give_the_same_board(start: Path, serial: Path) -> None:
    script = ROOT / "tests" / "support" / "ray_nodes.sh"
    check(hosted(start, "ray", before=(*NAMESPACES, "sh", str(script), str(BIN))), serial)
