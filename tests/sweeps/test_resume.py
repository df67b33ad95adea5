"""Sweeps that were stopped: the same command continues, repeats no finished job and uses no outdated result."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.sweeps.resume import keep_point

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]

Whest = Callable[..., Any]
TINY = ("-m", "debug=tiny", "truth=plain")
STOPPABLE = """
from pathlib import Path

import jax.numpy as jnp


class Estimator:
    def __init__(self, level=0.5):
        self.level = level

    def setup(self, context):
        started = Path("started")
        started.write_text(started.read_text() + f"{self.level} ")
        if Path("stop").exists() and len(started.read_text().split()) > int(Path("stop").read_text()):
            raise KeyboardInterrupt

    def predict(self, mlp, budget):
        return jnp.full((mlp.depth, mlp.width), self.level)
"""


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_stopped_sweep_goes_on_and_believes_nothing_stale(whest: Whest, outputs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STOPPABLE)
    levels = ",".join(str(level / 10) for level in range(2))
    command = (*TINY, "estimator=file", "estimator.path=mine.py", "isolation=none", f"+estimator.level={levels}")

    def ran(*words: str, stop_after: int | None = None) -> tuple[Any, list[str]]:
        (tmp_path / "started").write_text("")
        (tmp_path / "stop").unlink(missing_ok=True)
        if stop_after is not None:
            (tmp_path / "stop").write_text(str(stop_after))
        outcome = whest(*command, *words)
        return outcome, (tmp_path / "started").read_text().split()

    stopped, started = ran(stop_after=1)
    assert stopped.exit_code == 130, stopped.err
    assert len(started) == 2
    assert [row["status"] for row in table(stopped.sweep)] == ["finished", "interrupted"]
    report = (stopped.sweep / "0" / "report.json").read_bytes()

    again, started = ran()
    assert again.exit_code == 0, again.err
    assert started == ["0.1"], "what was finished is not run again"
    rows = table(again.sweep)
    assert [row["label"] for row in rows] == [f"mine +estimator.level={level / 10}" for level in range(2)]
    assert {row["status"] for row in rows} == {"finished"}
    assert (again.sweep / "0" / "report.json").read_bytes() == report
    assert "job 1 of 2 was finished before" in again.out

    def newest() -> Path:
        return max(outputs.glob("sweeps/*/*"))

    ran(stop_after=1)
    assert len(list(outputs.glob("sweeps/*/*"))) == 2, "a sweep that was finished begins anew"
    (tmp_path / "mine.py").write_text(STOPPABLE.replace("jnp.full", "2 * jnp.full"))
    changed, started = ran()
    assert changed.exit_code == 0, changed.err
    assert len(started) == 2, "another estimator under the same name"
    assert len(list(outputs.glob("sweeps/*/*"))) == 2, "it went on in the same folder all the same"

    ran(stop_after=1)
    kept = newest() / "0" / "report.json"
    kept.write_text(kept.read_text().replace('"score"', '"score" '))
    _, started = ran()
    assert started == ["0.0", "0.1"], "a report that was touched is not believed"

    ran(stop_after=0)
    ran("resume=false", stop_after=0)
    assert len(list(outputs.glob("sweeps/*/*"))) == 5, "told to begin anew"


@pytest.mark.slow
def test_processes_whose_sweep_was_killed_begin_no_other_job(
    tmp_path: Path, outputs: Path, environment: dict[str, str], whest_process: Whest
) -> None:
    """joblib gives a process many jobs at once. The sweep goes on from where it was killed, and they must not meet."""
    budgets = ",".join(f"{n}e4" for n in range(1, 61))
    command = (*TINY, "tracking=none", "estimator=zeros", f"budget={budgets}", "hydra/launcher=cores")
    words = [sys.executable, "-m", "whest", *command, f"outputs_dir={outputs}"]
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 300
        while len(list(outputs.glob("sweeps/*/*/*/point.json"))) < 12:
            assert process.poll() is None, "it ended on its own"
            assert time.monotonic() < deadline, "no point was finished"
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait(300)
    before = len(list(outputs.glob("sweeps/*/*/*/config.yaml")))
    outcome = whest_process(*command)
    assert outcome.exit_code == 0, outcome.err
    assert [row["status"] for row in table(outcome.sweep)] == ["finished"] * 60
    found = outcome.out.count("was finished before")
    assert 12 <= found <= before + 4, "each of the two ended the job it was in, and no more"


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_twelve_points_stopped_after_five_run_seven_more(
    tmp_path: Path, outputs: Path, environment: dict[str, str], whest_process: Whest, blow: signal.Signals
) -> None:
    from mlflow import MlflowClient

    command = (*TINY, "tracking=mlflow", "estimator=zeros,mean_prop,cov_prop", "budget=1e4,1e5,1e6,1e7")
    process = subprocess.Popen(
        [sys.executable, "-m", "whest", *command, f"outputs_dir={outputs}"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 300
        while len(list(outputs.glob("sweeps/*/*/*/point.json"))) < 5:
            assert process.poll() is None, "it ended on its own"
            assert time.monotonic() < deadline, "no point was finished"
            time.sleep(0.01)
        os.kill(process.pid, blow)
        process.wait(300)
    finally:
        process.kill()
    finished = {path.parent: path.stat().st_mtime_ns for path in outputs.glob("sweeps/*/*/*/point.json")}
    assert 5 <= len(finished) < 12

    outcome = whest_process(*command)
    assert outcome.exit_code == 0, outcome.err
    assert outcome.out.count("was finished before") == len(finished)
    assert [f"job {n} of 12" in outcome.out for n in range(1, 13)] == [True] * 12, outcome.out
    assert all((folder / "point.json").stat().st_mtime_ns == stamp for folder, stamp in finished.items())
    rows = table(outcome.sweep)
    assert [row["status"] for row in rows] == ["finished"] * 12
    assert all(row["score"] for row in rows)

    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("whest")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = (run for run in runs if run.data.tags.get("whest.kind") == "sweep")
    whole = [run for run in runs if run is not parent and run.info.status == "FINISHED"]
    assert sorted(int(run.data.tags["sweep_job"]) for run in whole) == list(range(12)), "a child for each point, once"
    assert parent.info.status == "FINISHED"
    points = [point for name in ("zeros", "mean_prop", "cov_prop") for point in _curve(client, parent, name)]
    assert len(set(points)) == 12, "the curve has them all"


def _curve(client: Any, parent: Any, name: str) -> list[tuple[str, int]]:
    return [(name, point.step) for point in client.get_metric_history(parent.info.run_id, f"score/{name}")]


CHANGING = """
import jax.numpy as jnp

LEVEL = 0.25


class Estimator:
    def predict(self, mlp, budget):
        return jnp.full((mlp.depth, mlp.width), LEVEL)
"""
ADAPTIVE = """
import jax.numpy as jnp


class Estimator:
    def predict(self, mlp, budget):
        means = jnp.zeros((mlp.depth, mlp.width))
        return means + jnp.mean(mlp.weights) if budget > 10**7 else means
"""
MEASURED = ("score", "score_se", "final_layer_mse", "per_layer_mse", "mean_effective_compute", "n_failed_mlps")


def results_of(folder: Path) -> tuple[dict[str, Any], bytes]:
    """What a run found, without its times: figures, per MLP too, FLOPs by operation, and the predictions."""
    report = json.loads((folder / "report.json").read_text())
    rows = [
        {**{key: row[key] for key in ("mlp_name", "flops_used", "flops_xla", "per_layer_mse", "truth_floor_mse")}}
        | {"parts": row["breakdowns"]["estimator"]["by_namespace"]}
        for row in report["results"]["per_mlp"]
    ]
    found = {key: report["results"].get(key) for key in MEASURED}
    config = {key: value for key, value in report["run_config"].items() if key != "isolation"}
    return {**found, "rows": rows, "config": config}, (folder / "predictions.npz").read_bytes()


def test_a_file_that_changes_between_two_jobs_is_seen(
    whest: Whest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as many bytes as before and within the same second: Python's own cache would not see it."""
    (tmp_path / "mine.py").write_text(CHANGING)

    def edited(*given: Any) -> None:
        keep_point(*given)
        stamp = (tmp_path / "mine.py").stat().st_mtime_ns
        (tmp_path / "mine.py").write_text(CHANGING.replace("0.25", "0.75"))
        os.utime(tmp_path / "mine.py", ns=(stamp, stamp))

    monkeypatch.setattr("whest.cli.score.keep_point", edited)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    swept = whest(*TINY, "estimator=file", "estimator.path=mine.py", "isolation=none", "budget=1e7,1e8,1e9")
    assert swept.exit_code == 0, swept.err
    (first, _), (second, _), (third, _) = (results_of(swept.sweep / str(job)) for job in range(3))
    sources = [one["config"]["estimator"]["source_sha256"] for one in (first, second, third)]
    assert sources[0] != sources[1] == sources[2]
    assert first["final_layer_mse"] != second["final_layer_mse"] == third["final_layer_mse"]


def newest_run(outputs: Path) -> Path:
    return max(outputs.glob("runs/*/*"))


def test_jobs_are_what_single_runs_are(whest: Whest, outputs: Path, tmp_path: Path) -> None:
    """Another budget that changes the program, another seed of the dataset, another shape: all in one process."""
    (tmp_path / "mine.py").write_text(ADAPTIVE)
    own = ("debug=tiny", "truth=plain", "estimator=file", "estimator.path=mine.py", "isolation=none")
    swept = whest("-m", *own, "budget=1e7,1e8", "dataset=fresh", "dataset.seed=1,2", "seed=5")
    assert swept.exit_code == 0, swept.err
    jobs = [(budget, seed) for budget in ("1e7", "1e8") for seed in (1, 2)]
    for number, (budget, seed) in enumerate(jobs):
        single = whest(*own, f"budget={budget}", "dataset=fresh", f"dataset.seed={seed}", "seed=5")
        assert single.exit_code == 0, single.err
        assert results_of(swept.sweep / str(number)) == results_of(newest_run(outputs)), (budget, seed)
    flops = [results_of(swept.sweep / str(number))[0]["rows"][0]["flops_used"] for number in range(4)]
    assert flops[0] == flops[1] < flops[2] == flops[3], "the program depends on the budget"
