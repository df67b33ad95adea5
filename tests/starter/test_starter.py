"""`job=init`: its files work at once, and no file of the user is lost."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.errors import ConfigError
from whest.starter import next_steps, start_estimator

Whest = Callable[..., Any]


def test_what_init_writes_scores_by_its_own_config_and_by_its_path(whest: Whest, tmp_path: Path) -> None:
    made = whest("job=init", "path=mine")
    assert made.exit_code == 0, made.err
    written = {str(path.relative_to(tmp_path)) for path in (tmp_path / "mine").rglob("*") if path.is_file()}
    assert written == {"mine/mine.py", "mine/estimator/mine.yaml", "mine/test_mine.py"}
    assert all(path in made.out for path in written)
    small = ("debug=tiny", "budget=1e6", "truth=plain", "isolation=none")
    by_config = whest("--config-dir", "mine", *small, "estimator=mine", "hydra.run.dir=a")
    assert by_config.exit_code == 0, by_config.err
    by_path = whest(
        *(*small, "estimator=file", "estimator.path=mine/mine.py", "hydra.run.dir=b"),
        "+estimator.share=0.05",
    )
    assert by_path.exit_code == 0, by_path.err
    one, other = by_config.report, by_path.report
    assert one["results"]["score"] == other["results"]["score"] > 0
    assert one["run_config"]["estimator"]["name"] == other["run_config"]["estimator"]["name"] == "mine"
    assert one["run_config"]["estimator"]["knobs"] == {"share": 0.05}
    again = whest("job=init", "path=mine")
    assert again.exit_code == 2
    assert "mine/mine.py" in again.err
    assert "not overwritten" in again.err


@pytest.mark.slow
def test_its_own_test_passes_and_can_fail(tmp_path: Path) -> None:
    start_estimator(tmp_path / "mine", [], tmp_path / "outputs")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "mine"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    source = tmp_path / "mine" / "mine.py"
    source.write_text(source.read_text().replace("h @ w)", "h @ w.T)"))
    ended = subprocess.run([*command, "-k", "pencil"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1, ended.stdout


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("cov_prop", "estimator=cov_prop exists already"),
        ("my-own", "letters, digits and _"),
        ("class", "letters, digits and _"),
        ("outputs/mine", "choose another folder"),
        ("a_file", "is a file"),
    ],
)
def test_a_folder_that_would_not_work_is_refused_before_anything_is_written(
    tmp_path: Path, place: str, words: str
) -> None:
    (tmp_path / "a_file").write_text("")
    with pytest.raises(ConfigError, match=words):
        start_estimator(tmp_path / place, ["cov_prop"], tmp_path / "outputs")
    assert [path.name for path in tmp_path.iterdir()] == ["a_file"]


def test_one_file_that_is_there_keeps_all_others_from_being_written(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "test_mine.py").write_text("# mine")
    with pytest.raises(ConfigError, match=r"test_mine\.py exists and is not overwritten"):
        start_estimator(tmp_path / "mine", [], tmp_path / "outputs")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["test_mine.py"]


def test_init_needs_a_path(whest: Whest) -> None:
    outcome = whest("job=init")
    assert outcome.exit_code == 2
    assert "job=init path=mine" in outcome.err


def test_next_steps_name_the_files(tmp_path: Path) -> None:
    assert next_steps(Path("a/mine"))[0].endswith("estimator.path=a/mine/mine.py")


def test_a_config_that_lost_its_file_says_so(whest: Whest, tmp_path: Path) -> None:
    whest("job=init", "path=mine")
    (tmp_path / "mine" / "mine.py").unlink()
    outcome = whest("--config-dir", "mine", "debug=tiny", "estimator=mine")
    assert outcome.exit_code == 2
    assert "mine.py is in no" in outcome.err
