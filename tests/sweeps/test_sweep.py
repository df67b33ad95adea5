"""Sweeps: many jobs, one parent run, one table. A failed job is in the table too."""

import csv
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from whest.sweeps.pace import SeenPace, end_pace, pace_of
from whest.sweeps.table import _KNOWN, SweepRow, read_sweep
from whest.sweeps.view import best_lines, print_sweep, printed

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]

Whest = Callable[..., Any]
TINY = ("-m", "debug=tiny", "truth=plain")
SWEEP = (*TINY, "tracking=mlflow")
JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
PNG = b"\x89PNG\r\n\x1a\n"
GOOD = "return jnp.full((mlp.depth, mlp.width), 0.5)"
SOURCE = "import jax.numpy as jnp\n\n\nclass Estimator:\n    def predict(self, mlp, budget):\n        {}\n"


def table(outcome: Any) -> list[dict[str, str]]:
    with (outcome.sweep / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def family(outputs: Path) -> tuple[Any, list[Any]]:
    """The sweep's parent run and its children."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("whest")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    children = [run for run in runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    return parent, children


def parent_files(parent: Any) -> Path:
    return Path(parent.info.artifact_uri.removeprefix("file://"))


def test_a_grid_is_one_parent_with_a_table_a_curve_and_a_child_a_job(whest: Whest, outputs: Path) -> None:
    from mlflow import MlflowClient

    outcome = whest(*SWEEP, "budget=1e4,1e6", "estimator=mean_prop,cov_prop", "figures=true")
    assert outcome.exit_code == 0, outcome.err
    rows = table(outcome)
    jobs = {(row["estimator"], float(row["flop_budget"])): row for row in rows}
    assert set(jobs) == {(name, budget) for name in ("mean_prop", "cov_prop") for budget in (1e4, 1e6)}
    for row in rows:
        results = json.loads((outcome.sweep / row["job"] / "report.json").read_text())["results"]
        assert float(row["score"]) == results["score"]
        assert float(row["score_se"]) == results["adjusted_final_layer_score_se"]
        assert int(row["n_failed"]) == results["n_failed_mlps"]
    assert {row["status"] for row in rows} == {"finished"}
    assert jobs["cov_prop", 1e4]["score"] == jobs["mean_prop", 1e4]["score"], "what it falls back to"
    assert "sweep of 4 jobs" in outcome.out
    lines = [line for line in outcome.out.splitlines() if line.startswith("job ")]
    assert len(lines) == 4
    assert lines[1].startswith("job 2 of 4: budget=10000.0 estimator=cov_prop, score ")
    assert "s left" in lines[1]

    parent, children = family(outputs)
    assert sorted((run.data.tags["estimator"], run.data.metrics["flop_budget"]) for run in children) == sorted(jobs)
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}
    folder = parent_files(parent)
    for name in ("sweep.csv", "score_against_budget.png"):
        assert (folder / name).read_bytes() == (outcome.sweep / name).read_bytes()
    assert (folder / "score_against_budget.png").read_bytes().startswith(PNG)
    logged = json.loads((folder / "sweep.json").read_text())
    assert len(logged["data"]) == 4
    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    curve = client.get_metric_history(parent.info.run_id, "score/cov_prop")
    assert {point.step: point.value for point in curve} == {
        int(budget): float(row["score"]) for (name, budget), row in jobs.items() if name == "cov_prop"
    }


def test_an_untracked_sweep_has_its_table_and_curve_on_disk(whest: Whest, outputs: Path) -> None:
    outcome = whest(*TINY, "tracking=none", "estimator=zeros,mean_prop", "figures=true")
    assert outcome.exit_code == 0, outcome.err
    assert [row["estimator"] for row in table(outcome)] == ["zeros", "mean_prop"]
    assert (outcome.sweep / "score_against_budget.png").read_bytes().startswith(PNG)
    assert not (outputs / "mlflow.db").exists()


def write_estimators(tmp_path: Path) -> str:
    (tmp_path / "good.py").write_text(SOURCE.format(GOOD))
    (tmp_path / "bad.py").write_text(SOURCE.format("raise ValueError('trouble')"))
    return "estimator.path=good.py,bad.py,good.py"


def assert_one_of_three_failed(outcome: Any, outputs: Path) -> None:
    assert outcome.exit_code == 1, outcome.err
    assert "Traceback" not in outcome.err
    first, failed, last = table(outcome)
    assert (failed["status"], failed["n_failed"]) == ("failed", "2")
    assert "bad.py" in failed["overrides"]
    for row in (first, last):
        assert (row["status"], row["n_failed"]) == ("finished", "0")
        assert float(row["score"]) > 0
    assert "sweep of 3 jobs" in outcome.out
    parent, children = family(outputs)
    assert sorted(run.info.status for run in children) == ["FAILED", "FINISHED", "FINISHED"]
    assert parent.info.status == "FAILED"
    assert (parent_files(parent) / "sweep.csv").exists()


def test_a_failing_estimator_is_in_the_table_and_hides_no_other(whest: Whest, outputs: Path, tmp_path: Path) -> None:
    outcome = whest(*SWEEP, "estimator=file", "isolation=none", write_estimators(tmp_path))
    assert_one_of_three_failed(outcome, outputs)


def test_a_wrong_config_in_one_job_is_in_the_table_and_hides_no_other(whest: Whest) -> None:
    outcome = whest(*TINY, "tracking=none", "estimator=zeros", "budget=1e6,-1,1e7")
    assert outcome.exit_code == 1, outcome.err
    assert outcome.err == "whest: 1 of 3 jobs failed: the table says why\n"
    first, failed, last = table(outcome)
    assert failed["problem"] == "budget must be greater than or equal to 1, got -1"
    assert "failed (budget must be greater" in " ".join(outcome.out.split())
    assert (first["status"], failed["status"], last["status"]) == ("finished", "failed", "finished")
    assert "budget=-1" in failed["overrides"]
    assert failed["score"] == ""
    assert "sweep of 3 jobs" in outcome.out


@pytest.mark.parametrize("launcher", [(), JOBLIB])
def test_a_sweep_that_cannot_be_composed_leaves_nothing(whest: Whest, outputs: Path, launcher: tuple[str, ...]) -> None:
    outcome = whest(*SWEEP, *launcher, "estimator=zeros", "estimator.foo=1,2")
    assert outcome.exit_code == 2
    assert "estimator.foo is not a key" in outcome.err
    assert not outputs.exists()


def test_a_sweep_without_its_server_still_has_its_table(whest: Whest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    outcome = whest(*SWEEP, "tracking.uri=http://127.0.0.1:9", "estimator=zeros,random")
    assert outcome.exit_code == 0, outcome.err
    assert [row["status"] for row in table(outcome)] == ["finished", "finished"]
    assert "http://127.0.0.1:9" in outcome.err


@pytest.mark.slow
def test_parallel_jobs_share_a_fresh_store(whest_process: Whest, outputs: Path) -> None:
    outcome = whest_process(*SWEEP, *JOBLIB, "estimator=zeros,mean_prop")
    assert outcome.exit_code == 0, outcome.err
    assert "did not store" not in outcome.err
    assert [row["status"] for row in table(outcome)] == ["finished"] * 2
    parent, children = family(outputs)
    assert [run.info.status for run in (parent, *children)] == ["FINISHED"] * 3
    assert (parent_files(parent) / "sweep.json").exists()


def test_a_jobs_failure_travels_between_processes() -> None:
    """A parallel launcher pickles the error; if it can't be unpickled, the whole pool fails."""
    from whest.errors import JobFailedError

    failure = JobFailedError("the estimator failed")
    copy = pickle.loads(pickle.dumps(failure))
    assert (copy.exit_code, str(copy)) == (failure.exit_code, str(failure)) == (1, "the estimator failed")


@pytest.mark.slow
def test_a_failing_parallel_job_is_in_the_table_and_hides_no_other(
    whest_process: Whest, outputs: Path, tmp_path: Path
) -> None:
    outcome = whest_process(*SWEEP, *JOBLIB, "estimator=file", "isolation=none", write_estimators(tmp_path))
    assert_one_of_three_failed(outcome, outputs)


def test_a_finished_jobs_row_is_kept_for_the_table_and_believed_only_with_its_report(
    whest: Whest, outputs: Path
) -> None:
    outcome = whest(*TINY, "estimator=zeros,mean_prop", "budget=1e4,1e6", *JOBLIB)
    assert outcome.exit_code == 0, outcome.err
    kept = read_sweep(outcome.sweep)
    assert [row.status for row in kept] == ["finished"] * 4
    points = [outcome.sweep / str(job) / "point.json" for job in range(4)]
    for point in points:
        content = json.loads(point.read_text())
        assert content["row"]["scores"] == kept[content["row"]["job"]].scores
        point.write_text(json.dumps({**content, "row": None}))
    assert read_again(outcome.sweep) == kept, "what the reports say"

    first = json.loads(points[0].read_text())
    told = vars(kept[0]) | {"score": 7.0, "label": "zeros", "best": None, "on_front": False}
    points[0].write_text(json.dumps({**first, "row": told}))
    assert read_again(outcome.sweep)[0].score == 7.0, "it is read from the kept row"
    points[0].write_text(json.dumps({**first, "row": {**told, "another": 1}}))
    assert read_again(outcome.sweep) == kept, "a row of another version is not"
    points[0].write_text(json.dumps({**first, "row": told, "report_sha256": "0"}))
    assert read_again(outcome.sweep) == kept, "nor one of another report"


def read_again(folder: Path) -> list[SweepRow]:
    _KNOWN.clear()
    return read_sweep(folder)


def test_a_terminal_shows_a_part_of_a_large_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        SweepRow(n, f"budget={n}", "finished", "zeros", "zeros", n + 1.0, 0.5, best="best", protocol_hash=str(n))
        for n in range(1000)
    ]
    rows[700] = SweepRow(700, "budget=700", "failed", problem="it broke")
    rows[3] = replace(rows[3], best=None)
    shown = printed(rows)
    assert len(shown) == 100
    assert shown[0].job == 700
    assert 3 not in {row.job for row in shown}, "the best of a protocol come first"
    lines = best_lines(rows)
    assert len(lines) == 13
    assert "986 more protocols" in lines[-1]
    print_sweep(rows, lines, Console(width=120))
    text = capsys.readouterr().out
    assert "sweep of 1000 jobs" in text
    assert "it broke" in text
    assert "900 more jobs are in sweep.csv" in text
    assert printed(rows[:100]) == rows[:100]

    many = [replace(row, protocol_hash="one", best="tied") for row in rows if row.job != 700]
    (line,) = best_lines([replace(many[0], best="best"), *many[1:]])
    assert line.count("zeros") == 9
    assert line.endswith("and 990 more")


def test_a_launchers_process_tells_how_many_jobs_have_begun_and_the_time_left(tmp_path: Path) -> None:
    (tmp_path / "sweep_state.json").write_text(json.dumps({"n_jobs": 8, "keys": ["budget"], "state": "open"}))
    (tmp_path / "0").mkdir()
    pace = pace_of(tmp_path / "0")
    assert isinstance(pace, SeenPace)
    assert pace.place("0") == "job 0 (1 of 8 begun)"
    assert pace.time_left_s(pace.counted) is None, "no other job has begun since"
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
    assert pace_of(tmp_path / "2") is pace
    assert pace.time_left_s(pace.started + 4.0) == 10.0, "two jobs began in four seconds, and five are left"
    assert pace.place("2") == "job 2 (3 of 8 begun)"
    end_pace()
    assert pace_of(tmp_path / "elsewhere" / "5").place("5") == "job 5"
