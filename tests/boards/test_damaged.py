"""A damaged record is its own problem: the board stands, shows it as tampered and reads no further in it."""

import copy
import csv
import hashlib
import io
import json
import os
import random
import resource
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, Run, RunData, RunInfo, RunTag

from tests.support.recorded_store import Store
from whest.boards.board import Board, make_board
from whest.boards.entries import read_entry
from whest.boards.policies import WhestPolicy
from whest.boards.show import save_board, to_csv, to_json
from whest.document import report_metrics
from whest.notation import inert
from whest.tracking.recorded import RecordedRun, check_run

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]
POLICY = WhestPolicy(protocol=None, deadline=datetime(2030, 1, 1, tzinfo=UTC), supersedes=[])
VALUES: list[Any] = [
    *(None, True, -1, 0, 10**400, 1e308, -1e308, "", "x", "\0", "=1+1", "\x1b[31m", "9" * 5000),
    *([], {}, [[]], {"a": {}}, ["x"] * 3, {"score": 1}, "2026-01-01", "2026-01-01T00:00:00", "../../etc/passwd"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="module")
def genuine(store: Store) -> tuple[Run, bytes]:
    """A run as MLflow has it, with its report."""
    run_id = store.add("mean_prop", participant="ada")
    return store.client.get_run(run_id), store.artifact(run_id).read_bytes()


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path] * bool(path) + [place for key, item in items for place in places(item, (*path, key))]


def mutated(document: dict[str, Any], chance: random.Random) -> Any:
    """One to three values dropped, replaced, renamed or doubled."""
    changed = copy.deepcopy(document)
    for _ in range(chance.randint(1, 3)):
        all_places = places(changed)
        if not all_places:
            break
        place = chance.choice(all_places)
        parent = changed
        for key in place[:-1]:
            parent = parent[key]
        kind = chance.randrange(4)
        if kind == 0:
            del parent[place[-1]]
        elif kind == 1 and isinstance(parent, dict):
            parent[f"{place[-1]}x"] = parent.pop(place[-1])
        elif kind == 2 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[place[-1]]))
        else:
            parent[place[-1]] = chance.choice(VALUES)
    return changed


def as_logged(run: Run, content: bytes) -> Run:
    """The run with everything in MLflow made to fit the report, as far as there is anything to fit: a forger's best."""
    sha256, tags, metrics = hashlib.sha256(content).hexdigest(), dict(run.data.tags), dict(run.data.metrics)
    stamps = {"start_time": run.info.start_time, "end_time": run.info.end_time}
    try:
        report = json.loads(content)
        config, meta = report["run_config"], report["run_meta"]
        tags |= {"participant": config["participant"], "protocol_hash": meta["protocol_hash"]}
        tags |= {"scoring": config["scoring"]["name"], "estimator": config["estimator"]["name"]}
        metrics |= report_metrics(report)
    except Exception:
        pass
    info = RunInfo(
        run.info.run_id, run.info.experiment_id, run.info.user_id, run.info.status, lifecycle_stage="active", **stamps
    )
    tags |= {"report_sha256": sha256}
    params = [Param(name, value) for name, value in (dict(run.data.params) | {"report_sha256": sha256}).items()]
    data = RunData(
        [Metric(name, value, 0, 0) for name, value in metrics.items()],
        params,
        [RunTag(name, str(value)) for name, value in tags.items()],
    )
    return Run(info, data)


def board_of(*runs: RecordedRun) -> Board:
    return make_board(POLICY, [read_entry(run) for run in runs])


def stands(genuine: tuple[Run, bytes], seed: int, folder: Path) -> str:
    """Whether the damaged run is shown as such or still right, beside one that is whole."""
    run, content = genuine
    chance = random.Random(seed)
    if chance.random() < 0.2:
        cut = chance.randrange(len(content))
        damaged = content[:cut] + bytes(chance.randrange(256) for _ in range(chance.randrange(4))) + content[cut + 2 :]
    else:
        damaged = json.dumps(mutated(json.loads(content), chance)).encode()
    other = check_run(as_logged(run, damaged), damaged)
    other = RecordedRun(f"other{seed}", other.name, "mallory", other.report, other.tags, other.problem)
    board, entry = board_of(check_run(run, content), other), read_entry(other)
    elsewhere = [(track.rule, track.protocol) for track in board.other_tracks]
    n_lines = 2 if (entry.rule, entry.protocol) in elsewhere else 3
    assert to_csv(board).count("\n") == n_lines, "a line for each run of the track"
    json.dumps(to_json(board), allow_nan=False)
    if seed % 10 == 0:  # the picture takes most of the time
        save_board(board, folder)
    ranked = {row.participant: row for row in board.ranked}
    assert ranked["ada"].score == json.loads(content)["results"]["score"]
    if "mallory" in ranked:
        assert json.loads(damaged)["results"]["score"] == ranked["mallory"].score
        return "right"
    assert entry.problem or entry.unfinished, "an entry that isn't ranked says why"
    assert entry.problem is None or (entry.score, entry.seed) == (None, None), "read no further"
    return "refused"


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 500), marks=pytest.mark.slow)])
def test_mutated_reports(genuine: tuple[Run, bytes], tmp_path: Path, seeds: range) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = [stands(genuine, seed, tmp_path) for seed in seeds]
    assert found.count("refused") > len(seeds) / 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "kB that the parent grew by"


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"run_meta":' * 5000,
        b"[" + b"[]," * 3_000_000 + b"1]",
        b" " * (2**25 + 1),
        b'{"run_meta": {"protocol_hash": NaN}}',
        b'{"run_meta": {"protocol_hash": 1e999}}',
        b'{"run_meta": {"protocol_hash": "\\ud800"}}',
        b"9" * 5000,
    ],
    ids=["deep", "deep objects", "many values", "long", "NaN", "infinity", "half a letter", "a long number"],
)
def test_what_is_too_much_for_a_report_is_a_problem(genuine: tuple[Run, bytes], content: bytes) -> None:
    run = check_run(as_logged(genuine[0], content), content)
    assert run.problem is not None
    assert run.report == {}


def test_one_damaged_report_does_not_take_the_board_down(store: Store, tmp_path: Path) -> None:
    """In a real store, as found: every part of the report present, and of the wrong type."""
    store.add("zeros", participant="whole")
    damaged = store.add("mean_prop", participant="bob")
    wrong = {
        "run_meta": {"protocol_hash": 1},
        "run_config": {"participant": [], "estimator": 3},
        "results": {"score": {}},
    }
    store.artifact(damaged).write_text(json.dumps(wrong))
    board = board_of(*store.runs())
    rows = {row.participant: row for row in board.rows}
    assert rows["whole"].rank is not None
    assert (rows["bob"].status, rows["bob"].score, rows["bob"].rank) == ("tampered", None, None)
    save_board(board, tmp_path)


RECORDS = {
    "no place": "update runs set artifact_uri = null where run_uuid = ?",
    "a place that is itself": "update runs set artifact_uri = 'runs:/' || run_uuid || '/x' where run_uuid = ?",
    "no param": "delete from params where run_uuid = ?",
    "another protection": "update tags set value = 'protected' where key = 'protection' and run_uuid = ?",
    "another rule": "update tags set value = 'zzz' where key = 'scoring' and run_uuid = ?",
    "another track": "update tags set value = 'zzz' where key = 'protocol_hash' and run_uuid = ?",
    "no tags": "delete from tags where run_uuid = ?",
    "a report of a terabyte": "",
}


def test_a_changed_record_is_tampered_and_stays_on_its_board(tmp_path: Path) -> None:
    """One change of MLflow's own tables each, by somebody who can write to the database."""
    store = Store(tmp_path)
    store.add("zeros", participant="whole")
    hurt = {name: store.add("mean_prop", participant=name) for name in RECORDS}
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        for name, change in RECORDS.items():
            if change:
                database.execute(change, (hurt[name],))
    os.truncate(store.artifact(hurt["a report of a terabyte"]), 2**40)
    runs = store.runs()
    problems = {run.run_id: run.problem for run in runs}
    assert [name for name, run_id in hurt.items() if problems[run_id] is None] == []
    board = board_of(*runs)
    assert [row.participant for row in board.ranked] == ["whole"]
    shown = {run_id for row in board.rows if row.status == "tampered" for run_id in row.run_ids}
    assert {name for name, run_id in hurt.items() if run_id not in shown} == set()


def test_a_run_that_mlflow_cant_list_leaves_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path)
    store.add("zeros", participant="whole")
    hurt = store.add("mean_prop", participant="hurt")
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute("update runs set start_time = null where run_uuid = ?", (hurt,))
    assert [(run.participant, run.problem) for run in store.runs()] == [("whole", None)]
    assert "a damaged one is left out" in caplog.text


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_cells_of_a_csv_are_inert(store: Store, name: str) -> None:
    run = check_run(*_renamed(store, name))
    row = next(row for row in csv.DictReader(io.StringIO(to_csv(board_of(run)), newline="")) if row["score"])
    assert row["participant"] == f"'{name}".replace("\t", " ").replace("\r", " ")
    assert float(row["score"]) > 0


def test_numbers_stay_numbers() -> None:
    assert [inert(cell) for cell in (-1.5, 0, None, "a=b", "1-2")] == [-1.5, 0, None, "a=b", "1-2"]
    assert [inert(cell) for cell in ("a\nb", "\n=1", "λ")] == ["a b", "' =1", "λ"]


def _renamed(store: Store, name: str) -> tuple[Run, bytes]:
    run_id = store.add("mean_prop", participant=name)
    return store.client.get_run(run_id), store.artifact(run_id).read_bytes()


CHANGES = {
    "no artifacts": "update runs set artifact_uri = null where run_uuid = :id",
    "artifacts of a run": "update runs set artifact_uri = 'runs:/x/y' where run_uuid = :id",
    "no params": "delete from params where run_uuid = :id",
    "another protection": "update tags set value = 'trusted!' where key = 'protection' and run_uuid = :id",
    "no protection": "delete from tags where key = 'protection' and run_uuid = :id",
    "another rule": "update tags set value = 'zzz' where key = 'scoring' and run_uuid = :id",
    "another protocol": "update tags set value = 'zzz' where key = 'protocol_hash' and run_uuid = :id",
    "no tags": "delete from tags where run_uuid = :id",
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with an honest run and one that somebody changes in the database."""
    store = Store(tmp_path_factory.mktemp("two"))
    store.add("mean_prop", participant="ada")
    return store.outputs, store.add("cov_prop", participant="eve")


@pytest.mark.parametrize("change", [*CHANGES, "a sparse report"])
def test_a_change_in_the_database_is_that_runs_problem(two: tuple[Path, str], tmp_path: Path, change: str) -> None:
    outputs, run_id = two
    copied = tmp_path / "outputs"
    shutil.copytree(outputs, copied)
    with closing(sqlite3.connect(copied / "mlflow.db")) as database:
        database.execute("update runs set artifact_uri = replace(artifact_uri, ?, ?)", (str(outputs), str(copied)))
        if change in CHANGES:
            database.execute(CHANGES[change], {"id": run_id})
        database.commit()
    store = Store(copied)
    if change not in CHANGES:
        os.truncate(store.artifact(run_id), 2**40)
    board = make_board(POLICY, [read_entry(run) for run in store.runs()])
    assert {row.participant: row.status for row in board.rows} == {"ada": "ranked", "eve": "tampered"}


def test_a_row_that_mlflow_refuses_hides_no_other(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add("mean_prop", participant="ada")
    damaged = store.add("cov_prop", participant="eve")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        database.execute("update runs set start_time = null where run_uuid = ?", (damaged,))
        database.commit()
    board = make_board(POLICY, [read_entry(run) for run in store.runs()])
    assert [row.participant for row in board.rows] == ["ada"]
    assert "a damaged one is left out (start_time cannot be None)" in caplog.text
