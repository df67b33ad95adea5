"""The pull-request check in real repositories, and the files that GitHub and pre-commit read."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.places import ROOT

ACTION = ROOT / ".github" / "actions" / "compare-base"
sys.path.insert(0, str(ACTION))
import compare_base  # noqa: E402

ESTIMATOR = """
import jax.numpy as jnp


class Estimator:
    def predict(self, mlp, budget):
        mean = jnp.zeros(mlp.width) + {level}
        return jnp.stack([mean] * mlp.depth)
"""
YAMLS = [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".pre-commit-config.yaml"]


def pair(difference: float, is_resolved: bool) -> dict[str, Any]:
    return {"difference": difference, "is_resolved": is_resolved, "verdict": "words"}


@pytest.mark.parametrize(
    ("difference", "is_resolved", "direction", "is_worse"),
    [
        (1.0, True, "lower", True),
        (-1.0, True, "lower", False),
        (1.0, True, "higher", False),
        (-1.0, True, "higher", True),
        (1.0, False, "lower", False),
        (0.0, False, "higher", False),
    ],
)
def test_only_a_resolved_change_for_the_worse_is_a_regression(
    difference: float, is_resolved: bool, direction: str, is_worse: bool
) -> None:
    verdict, found = compare_base.judge(pair(difference, is_resolved), direction)
    assert found is is_worse
    assert verdict.startswith("**worse**") is is_worse


def test_a_row_stays_a_row_whatever_an_error_says() -> None:
    row = compare_base.Row("mine", "1", "2", "", "a | b\nc")
    assert str(row) == "| `mine` | 1 | 2 |  | a \\| b c |"


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.name)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    text = path.read_text()
    assert yaml.safe_load(text)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets
    for name in re.findall(r"run: (\.\S+)|uses: \./(\S+)", text):
        assert (ROOT / "".join(name)).exists()


def test_a_workflow_may_only_read() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_no_input_of_the_action_is_written_into_its_script() -> None:
    (step,) = yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"]
    assert "${{" not in step["run"]
    assert "inputs.base" in step["env"]["BASE"]


def commit(folder: Path, level: float) -> None:
    (folder / "mine.py").write_text(ESTIMATOR.format(level=level))
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (("add", "-A"), ("commit", "-q", "-m", str(level))):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
def test_a_pull_request_that_makes_an_estimator_worse_is_stopped(tmp_path: Path, environment: dict[str, str]) -> None:
    """A repository of a user's own: one file. Better, then worse, then a commit that isn't there."""
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    commit(tmp_path, 0.5)
    commit(tmp_path, 3.0)

    def check(base: str) -> subprocess.CompletedProcess[str]:
        trusted = ("debug=tiny", "truth=plain", "isolation=none", "isolation.require=[]")
        words = ("--base", base, "--estimator", "mine.py", "--n-mlps", "4", "--words", *trusted)
        command = [sys.executable, ACTION / "compare_base.py", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    worse = check("HEAD~1")
    assert worse.returncode == 1, worse.stderr
    assert "| `mine.py` |" in worse.stdout
    assert "**worse**" in worse.stdout
    commit(tmp_path, 0.5)
    better = check("HEAD~1")
    assert better.returncode == 0, better.stdout
    assert "**better**" in better.stdout
    same = check("HEAD~2")
    assert (same.returncode, "score the same" in same.stdout) == (0, True)
    assert check("nowhere").returncode == 2
    trees = subprocess.run(["git", "worktree", "list"], cwd=tmp_path, capture_output=True, text=True)
    assert len(trees.stdout.splitlines()) == 1
