"""`tracking.live=true`, `profile=true` and MLflow's own tags, in real runs with a real store."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.cli_harness import PATIENCE_S
from whest.tracking.live import OWNER, _is_gone, end_stale, owner
from whest.tracking.runs import MlflowTracking

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]
Whest = Callable[..., Any]
LIVE = ("debug=tiny", "truth=plain", "page=false", "estimator=mean_prop", "tracking=mlflow", "tracking.live=true")


def asked(outputs: Path, question: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(outputs / "mlflow.db")) as store:
        return store.execute(question).fetchall()


def test_a_live_run_has_a_metric_per_case_and_the_next_one_ends_what_was_killed(whest: Whest, outputs: Path) -> None:
    outcome = whest(*LIVE, "profile=true")
    assert outcome.exit_code == 0, outcome.err
    assert list(outcome.mlflow_runs().values()) == ["FINISHED"]
    rows = outcome.report["results"]["per_mlp"]
    logged = asked(outputs, "select step, value from metrics where key = 'live/case_score' order by step")
    assert logged == [(i, pytest.approx(row["adjusted_final_layer_score"])) for i, row in enumerate(rows, 1)]
    (trace,) = outcome.folder.glob("profile/plugins/profile/*/*.xplane.pb")
    assert trace.stat().st_size > 10_000
    tags = outcome.mlflow_tags()
    assert tags["mlflow.source.type"] == "LOCAL"
    assert tags["mlflow.user"]
    board = whest("job=leaderboard", "tracking=mlflow")
    assert "mean_prop" in board.out  # the record passes the checks of a board, its times too

    client, experiment_id = MlflowTracking(None, "whest", outputs).connect()
    gone = json.dumps({"host": json.loads(owner())["host"], "pid": os.getpid(), "started": 0.0})
    elsewhere = json.dumps({"host": "another", "pid": os.getpid(), "started": 0.0})
    made = [client.create_run(experiment_id, tags={OWNER: tag}) for tag in (gone, elsewhere, owner(), "{}")]
    assert end_stale(client, experiment_id) == [made[0].info.run_id]
    found = [client.get_run(run.info.run_id).info.status for run in made]
    assert found == ["KILLED", "RUNNING", "RUNNING", "RUNNING"]
    assert _is_gone(made[0])


def test_a_run_that_fails_closes_its_record(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import nothing_of_this_name\n")
    words = [word for word in LIVE if not word.startswith("estimator=")]
    outcome = whest(*words, "estimator=mine.py", "dataset.seed=3", "isolation=none", "isolation.require=[]")
    assert outcome.exit_code == 1
    assert list(outcome.mlflow_runs().values()) == ["FAILED"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("debug=tiny", "isolation=process"),
            "profile=true traces this process, and estimator=cov_prop runs in a worker",
        ),
        (("experiment=prism", "data=generated"), "profile=true is for task=whitebox, and this is task=prequential"),
    ],
)
def test_what_cannot_be_profiled_is_refused(whest: Whest, words: tuple[str, ...], message: str) -> None:
    outcome = whest(*words, "profile=true", "tracking=none")
    assert outcome.exit_code == 2
    assert message in outcome.err
    assert outcome.files == []


@pytest.mark.slow
def test_a_killed_run_is_marked_at_the_next_start(
    whest: Whest, outputs: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    words = ["debug=tiny", "tracking=mlflow", "tracking.live=true", "dataset.n_mlps=2000", f"outputs_dir={outputs}"]
    command = [sys.executable, "-m", "whest", *words]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not _has_metric(outputs):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert asked(outputs, "select status from runs") == [("RUNNING",)]
        process.send_signal(signal.SIGKILL)
    assert not psutil.pid_exists(process.pid)
    assert whest(*LIVE).exit_code == 0
    assert sorted(asked(outputs, "select status from runs")) == [("FINISHED",), ("KILLED",)]


def _has_metric(outputs: Path) -> bool:
    try:
        return bool(asked(outputs, "select 1 from metrics where key = 'live/case_score'"))
    except sqlite3.OperationalError:  # no store yet
        return False


@pytest.mark.slow
@pytest.mark.parametrize("task", ["prism", "ari"])
def test_every_task_can_be_followed(whest: Whest, outputs: Path, task: str) -> None:
    small = {
        "prism": ("data=generated", "data.max_bytes=4096", "data.val_bytes=1024", "estimator=ngram"),
        "ari": ("budget=1e9", "estimator=byte_mlp"),
    }
    words = (f"experiment={task}", *small[task], "page=false", "tracking.live=true")
    outcome = whest(*words)
    assert outcome.exit_code == 0, outcome.err
    assert asked(outputs, "select max(value) from metrics where key = 'live/cases'")[0][0] >= 1
    assert list(outcome.mlflow_runs().values()) == ["FINISHED"]
