"""Boards over a real MLflow store: which runs are ranked, which are excluded and why, and the text for people."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_store import Store

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]

Whest = Callable[..., Any]
BOARD = ("job=leaderboard", "leaderboard=whest")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three participants, two runs changed afterwards in different ways, an incomplete run, and another track."""
    store = Store(tmp_path_factory.mktemp("outputs"))
    store.add("mean_prop", participant="ada", hours=1)
    store.add("zeros", participant="ada", hours=0)
    store.add("zeros", participant="bob", hours=2)
    store.add("zeros", participant="cat", hours=3)
    store.client.log_metric(store.add("zeros", participant="metric"), "score", 1e-9)
    store.edit(store.add("zeros", participant="artifact"), score=1e-9)
    store.add("zeros", participant="half", n_mlps=3)
    store.add("zeros", "lam=0", participant="other track")
    return store


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "board.json").read_text())["rows"]
    return rows


def standings(folder: Path) -> dict[str, tuple[Any, str]]:
    return {row["participant"]: (row["rank"], row["status"]) for row in rows_of(folder)}


def snapshot(store: Store) -> dict[str, bytes]:
    """Every byte of the store and its artifacts, except SQLite's temporary files."""
    files = (path for path in store.outputs.rglob("*") if path.is_file())
    kept = {"mlflow.db", "report.json"}
    return {str(path): path.read_bytes() for path in files if path.name in kept}


def test_a_board_ranks_what_is_intact_and_shows_the_rest(whest: Whest, shared: Store, tmp_path: Path) -> None:
    before = snapshot(shared)
    outcome = whest(*BOARD, f"outputs_dir={shared.outputs}", f"output={tmp_path / 'board'}")
    assert outcome.exit_code == 0, outcome.err
    assert snapshot(shared) == before, "a board only reads"

    folder = tmp_path / "board"
    assert standings(folder) == {
        "ada": (1, "ranked"),
        "bob": (2, "ranked"),
        "cat": (2, "ranked"),
        "half": (None, "unfinished"),
        "metric": (None, "tampered"),
        "artifact": (None, "tampered"),
    }
    rows = {row["participant"]: row for row in rows_of(folder)}
    assert rows["ada"]["n_runs"] == 2
    assert rows["ada"]["estimator"] == "mean_prop"
    assert rows["ada"]["score"] == shared.client.get_run(rows["ada"]["run_ids"][0]).data.metrics["score"]
    assert rows["ada"]["score_se"] > 0
    assert "metric score is 1e-09 in MLflow" in rows["metric"]["note"]
    assert "sha256" in rows["artifact"]["note"]
    assert rows["half"]["note"] == "finished after 2 of 3 MLPs"

    board = json.loads((folder / "board.json").read_text())
    assert board["track_chosen"] == "the one with the most runs of 2 tracks"
    assert [track["n_runs"] for track in board["other_tracks"]] == [1]
    for words in (
        "whest leaderboard",
        "the one with the most runs",
        "tampered",
        "other tracks",
        board["track"]["protocol"],
    ):
        assert words in outcome.out

    with (folder / "board.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["participant"] for row in table] == [row["participant"] for row in rows_of(folder)]
    scores = [float(row["score"]) if row["score"] else None for row in table]
    assert scores == [row["score"] for row in rows_of(folder)]
    assert rows["metric"]["score"] is rows["artifact"]["score"] is None, "nothing of a tampered run is believed"
    page = (folder / "board.html").read_text()
    for words in ("whest leaderboard", "ada", "tampered", "Not ranked", "Other tracks", "whisker"):
        assert words in page


def test_a_board_of_the_other_track_by_the_beginning_of_its_hash(whest: Whest, shared: Store) -> None:
    outcome = whest(*BOARD, f"outputs_dir={shared.outputs}")
    assert outcome.exit_code == 0, outcome.err
    folder = shared.outputs / "leaderboards" / "whest"
    (other,) = json.loads((folder / "board.json").read_text())["other_tracks"]
    outcome = whest(*BOARD, f"leaderboard.protocol={other['protocol'][:10]}", f"outputs_dir={shared.outputs}")
    assert outcome.exit_code == 0, outcome.err
    assert standings(folder) == {"other track": (1, "ranked")}
    assert not list(shared.outputs.glob("runs/*/*/.hydra")), "a board leaves no run folder"


def test_what_came_after_the_deadline_is_late(whest: Whest, shared: Store, tmp_path: Path) -> None:
    deadline = "leaderboard.deadline=2026-06-01T14:00:00Z"
    outcome = whest(*BOARD, deadline, f"outputs_dir={shared.outputs}", f"output={tmp_path / 'board'}")
    assert outcome.exit_code == 0, outcome.err
    found = standings(tmp_path / "board")
    assert (found["bob"], found["cat"]) == ((2, "ranked"), (None, "late"))
    page = (tmp_path / "board" / "board.html").read_text()
    assert "leaderboard.deadline=2026-06-01T14:00:00Z" in page, "the command that makes it again"


def test_a_verdict_is_kept_with_its_reason_and_can_be_taken_back(whest: Whest, tmp_path: Path) -> None:
    store = Store(tmp_path / "outputs")
    first = store.add("mean_prop", participant="ada", hours=0)
    store.add("zeros", participant="bob", hours=1)
    folder = store.outputs / "leaderboards" / "whest"

    reason = "judge.reason='copied [bold]bob, all of it'"
    outcome = whest("job=judge", f"judge.run={first[:8]}", "judge.verdict=disqualified", reason)
    assert outcome.exit_code == 0, outcome.err
    assert f"{first}: disqualified at" in outcome.out
    assert whest(*BOARD).exit_code == 0
    assert standings(folder) == {"bob": (1, "ranked"), "ada": (None, "disqualified")}
    (row,) = [row for row in rows_of(folder) if row["participant"] == "ada"]
    assert row["note"] == "copied [bold]bob, all of it"
    assert row["score"] is not None
    assert "copied [bold]bob" in (folder / "board.html").read_text()

    outcome = whest("job=judge", f"judge.run={first}", "judge.verdict=reinstated", "judge.reason='bob copied'")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.out.count(first) == 2, "the first verdict stays on the record"
    assert whest(*BOARD).exit_code == 0
    assert standings(folder) == {"ada": (1, "ranked"), "bob": (2, "ranked")}


# --- bad input ---


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["job=leaderboard", "leaderboard=prism"], "leaderboard=prism has no runs, there are runs of whest"),
        (
            ["job=leaderboard", "leaderboard.protocol=12e300"],
            "leaderboard.protocol=12e300 is no track of this board: choose one",
        ),
        (["job=leaderboard", "leaderboard.deadline=noon"], "leaderboard.deadline"),
        (["job=leaderboard", "leaderboard=ari", "leaderboard.n_seeds=1"], "leaderboard.n_seeds must be greater"),
        (["job=leaderboard", "tracking=none"], "job=leaderboard reads MLflow's runs"),
        (["job=leaderboard", "tracking.experiment=mine"], "tracking.experiment=mine is not in sqlite:///"),
        (["job=leaderboard", "leaderboard=chess"], "ari\n\tfherma\n\tprism\n\twhest"),
        (["job=judge"], "judge.run is missing"),
        (["job=judge", "judge.run=0"], "judge.verdict is missing"),
        (["job=judge", "judge.run=00e45", "judge.verdict=invalid"], "judge.run=00e45 is none of the 8 runs"),
        (["job=judge", "judge.run=''", "judge.verdict=invalid"], "judge.run= matches 8 runs"),
        (["job=judge", "judge.run=0", "judge.verdict=guilty"], "judge.verdict must be 'disqualified', 'invalid'"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    whest: Whest, shared: Store, tmp_path: Path, words: list[str], message: str
) -> None:
    before = snapshot(shared)
    outcome = whest(*words, f"outputs_dir={shared.outputs}", f"output={tmp_path / 'board'}")
    assert outcome.exit_code in (1, 2)
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert snapshot(shared) == before
    assert not (tmp_path / "board").exists()


def test_a_verdict_needs_a_reason_and_a_review_a_solution(whest: Whest, shared: Store) -> None:
    run = f"judge.run={shared.runs()[0].run_id}"
    before = snapshot(shared)
    for verdict, missing in (("disqualified", "reason"), ("invalid", "reason"), ("reviewed", "judge.solution")):
        outcome = whest("job=judge", run, f"judge.verdict={verdict}", f"outputs_dir={shared.outputs}")
        assert outcome.exit_code == 2
        assert f"{missing} is missing" in outcome.err
    assert snapshot(shared) == before


def test_without_a_store_there_is_no_board_and_none_is_made(whest: Whest, outputs: Path) -> None:
    outcome = whest(*BOARD)
    assert outcome.exit_code == 2
    assert "has no runs yet" in outcome.err
    assert not outputs.exists() or outcome.files == []


def test_a_damaged_store_is_told(whest: Whest, outputs: Path) -> None:
    outputs.mkdir()
    (outputs / "mlflow.db").write_bytes(b"this is no database" * 100)
    outcome = whest(*BOARD)
    assert outcome.exit_code == 1
    assert "can't be read" in outcome.err
    assert "Traceback" not in outcome.err
