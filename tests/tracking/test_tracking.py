"""Tracking: the data of a run in MLflow; and a failing or incomplete store, which never costs the result."""

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.notation import plus_minus
from whest.tracking.content import source_facts
from whest.tracking.naming import OWN_TAGS
from whest.tracking.server import silence

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]

Whest = Callable[..., Any]
TRACKED = ("debug=tiny", "truth=plain", "tracking=mlflow")
SOURCE = "import jax.numpy as jnp\n\n\nclass Estimator:\n    def predict(self, mlp, budget):\n        {}\n"
NO_SERVER = "tracking.uri=http://127.0.0.1:9"


def recorded(outputs: Path, experiment: str = "whest") -> list[Any]:
    """The store's runs, as any MLflow client sees them."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    found = client.get_experiment_by_name(experiment)
    assert found is not None, f"no experiment {experiment}"
    return list(client.search_runs([found.experiment_id]))


def artifacts(outputs: Path, run: Any) -> Path:
    """The folder of the run's artifacts, which must be inside the outputs folder."""
    folder = Path(run.info.artifact_uri.removeprefix("file://"))
    assert folder.is_relative_to(outputs)
    return folder


# --- what is remembered ---


def test_a_runs_figures_are_all_in_mlflow(whest: Whest, outputs: Path) -> None:
    own = ("name=my try", "notes=a, b", "tags.group=night")
    outcome = whest(*TRACKED, "budget=1e6", "estimator=mean_prop", "participant=ada", *own)
    assert outcome.exit_code == 0, outcome.err
    report = outcome.report
    (run,) = recorded(outputs)
    assert run.info.run_name == report["run_config"]["name"] == "my try"
    assert report["run_config"]["notes"] == "a, b"
    assert run.data.tags["group"] == report["run_config"]["tags"]["group"] == "night"
    results = report["results"]
    assert run.data.tags["score"] == plus_minus(results["score"], results["score_se"])
    assert run.data.tags["mlflow.note.content"].startswith(f"a, b. {run.data.tags['score']} (lower is better), C/B ")
    page = (outcome.folder / "report.html").read_text()
    assert "<h1>my try: mean_prop on fresh</h1>" in page
    assert "tag group" in page
    known = OWN_TAGS | {"group"}
    assert [name for name in run.data.tags if name not in known and not name.startswith("mlflow.")] == []
    assert run.info.status == "FINISHED"
    assert run.info.end_time >= run.info.start_time > 0

    metrics = run.data.metrics
    numbers = {name: value for name, value in results.items() if type(value) in (int, float)}
    assert {"score", "adjusted_final_layer_score_se", "ratio_to_sampling", "n_failed_mlps"} <= set(numbers)
    unsteady = {"compile_time_s", "peak_memory_bytes"}
    for name in set(numbers) - unsteady:
        assert metrics[name] == numbers[name], name
    for name, value in results["failure_breakdown"].items():
        assert metrics[f"failures/{name}"] == value
    wanted = {"flop_budget": 1e6, "lambda_flops_per_second": 1e11, "width": 16, "depth": 3, "n_mlps": 2}
    assert {name: metrics[name] for name in wanted} == wanted

    params = run.data.params
    for name in ("flop_budget", "width", "depth", "n_mlps", "round", "participant"):
        assert params[name] == str(report["run_config"][name])
    assert not [name for name in params if name in ("name", "notes") or name.startswith("tags.")]
    assert [name for name in params if "sha256" in name] == ["report_sha256"], "it can't be changed, unlike a tag"
    assert "estimator.target" not in params
    assert not [name for name in params if name.startswith("isolation.protections")]

    tags = run.data.tags
    assert (tags["estimator"], tags["round"], tags["participant"]) == ("mean_prop", "warmup", "ada")
    assert tags["protocol_hash"] == report["run_meta"]["protocol_hash"]
    assert tags["code_version"] == (report["run_meta"]["code_version"] or report["run_meta"]["whest_version"])
    host = report["run_meta"]["host"]
    assert (tags["host"], tags["jax_version"], tags["device"]) == (
        host["hostname"],
        host["jax_version"],
        host["device"],
    )
    assert (tags["schema_version"], tags["whest_version"]) == ("2.0", report["run_meta"]["whest_version"])
    assert tags["estimator_target"] == "estimators.mean_prop.MeanProp"

    estimator = results["breakdowns"]["estimator"]
    for name in ("backend_time_s", "overhead_time_s", "residual_wall_time_s"):
        assert metrics[name] == estimator[name]
    assert metrics["sampling_time_s"] == results["breakdowns"]["sampling"]["wall_time_s"] > 0
    assert metrics["peak_memory_bytes"] == results["peak_memory_bytes"]
    spent = {name: value for name, value in metrics.items() if name.startswith("flops/")}
    assert sum(spent.values()) == estimator["flops_used"]


def test_a_runs_layers_files_and_dataset_are_in_mlflow(whest: Whest, outputs: Path) -> None:
    from mlflow import MlflowClient

    outcome = whest(*TRACKED, "estimator=mean_prop", "figures=true")
    assert outcome.exit_code == 0, outcome.err
    report, (run,) = outcome.report, recorded(outputs)

    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    steps = {point.step: point.value for point in client.get_metric_history(run.info.run_id, "layer_mse")}
    assert steps == dict(enumerate(report["results"]["per_layer_mse"], start=1))

    folder = artifacts(outputs, run)
    for name in ("report.json", "config.yaml"):
        assert (folder / name).read_bytes() == (outcome.folder / name).read_bytes()
    figures = {path.name: path.read_bytes() for path in (outcome.folder / "figures").iterdir()}
    assert figures == {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    table = json.loads((folder / "per_mlp.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["mlp"] for row in rows] == [row["mlp_name"] for row in report["results"]["per_mlp"]]
    more = {"budget_exhausted", "time_exhausted", "combined_budget_exhausted", "effective_compute", "traceback"}
    assert more | {"residual_wall_time_exhausted", "residual_wall_time_s"} <= set(rows[0])
    assert rows[0]["per_layer_mse"] == pytest.approx(report["results"]["per_mlp"][0]["per_layer_mse"], rel=1e-5)
    assert [row["final_layer_mse"] for row in rows] == pytest.approx(
        [row["final_layer_mse"] for row in report["results"]["per_mlp"]]
    )

    (entry,) = run.inputs.dataset_inputs
    dataset = report["run_config"]["dataset"]
    assert entry.dataset.name == "fresh"
    assert dataset["sha256"].startswith(entry.dataset.digest)
    assert len(entry.dataset.digest) >= 8
    assert json.loads(entry.dataset.source)["seed"] == 0
    check_source(entry.dataset)
    assert json.loads(entry.dataset.profile)["n_mlps"] == 2


def check_source(logged: Any) -> None:
    """MLflow's `get_source` reads the run's dataset, and loads the same MLPs."""
    from mlflow.data.dataset_source_registry import DatasetSourceRegistry
    from mlflow.exceptions import MlflowException

    from whest.tracking.sources import SeedsSource, WhestSource

    registry = DatasetSourceRegistry()
    registry.register(WhestSource)
    registry.register(SeedsSource)
    source = registry.get_source_from_json(logged.source, logged.source_type)
    assert source.load().sha256.startswith(logged.digest)
    assert source.to_dict() == json.loads(logged.source)
    older = registry.get_source_from_json('{"path": null, "seed": 0}', "seeds")
    with pytest.raises(MlflowException, match="can't be loaded from its source"):
        older.load()


def test_the_source_of_a_suite_is_the_suite() -> None:
    from whest.tracking.sources import WhestSource

    facts = source_facts({"width": 256, "depth": 8, "dataset": {"name": "suite-warmup", "n_mlps": 3}})
    loaded = WhestSource.from_json(facts).load()
    assert (loaded.name, loaded.n_mlps) == ("suite-warmup", 3)


@pytest.mark.parametrize(
    ("body", "override", "exit_code", "status"),
    [
        ("return mlp.weights[0][: mlp.depth] * 2", "budget=1", 0, "FINISHED"),
        ("raise ValueError('trouble')", "lam=0", 1, "FAILED"),
    ],
)
def test_a_runs_status_says_how_it_ended(
    whest: Whest, outputs: Path, tmp_path: Path, body: str, override: str, exit_code: int, status: str
) -> None:
    (tmp_path / "mine.py").write_text(SOURCE.format(body))
    outcome = whest(*TRACKED, "estimator=file", "estimator.path=mine.py", "isolation=none", override)
    assert outcome.exit_code == exit_code, outcome.err
    (run,) = recorded(outputs)
    assert run.info.status == status
    folder = artifacts(outputs, run)
    assert (folder / "report.json").read_bytes() == (outcome.folder / "report.json").read_bytes()
    assert "did not store" not in outcome.err


def test_ctrl_c_before_the_first_mlp_is_a_killed_run_with_a_report(whest: Whest, outputs: Path, tmp_path: Path) -> None:
    source = SOURCE.format("pass") + "\n    def setup(self, context):\n        raise KeyboardInterrupt\n"
    (tmp_path / "mine.py").write_text(source)
    outcome = whest(*TRACKED, "estimator=file", "estimator.path=mine.py", "isolation=none")
    assert outcome.exit_code == 130, outcome.err
    assert outcome.report["results"]["per_mlp"] == []
    assert outcome.report["results"]["score"] is None
    assert "did not store" not in outcome.err
    (run,) = recorded(outputs)
    assert run.info.status == "KILLED"


def test_runs_gather_in_a_store_and_an_experiment_of_ones_own(whest: Whest, outputs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else" / "where"
    for estimator in ("zeros", "random"):
        store = (f"tracking.uri=sqlite:///{elsewhere / 'mlflow.db'}", "tracking.experiment=mine")
        outcome = whest(*TRACKED, f"estimator={estimator}", *store)
        assert outcome.exit_code == 0, outcome.err
    runs = recorded(elsewhere, "mine")
    assert sorted(run.data.tags["estimator"] for run in runs) == ["random", "zeros"]
    assert all((artifacts(elsewhere, run) / "report.json").exists() for run in runs)
    assert not (outputs / "mlflow.db").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["else", "outputs"]


def test_tracking_none_leaves_no_store(whest: Whest, outputs: Path) -> None:
    outcome = whest("debug=tiny", "truth=plain", "tracking=none", "estimator=zeros")
    assert outcome.exit_code == 0, outcome.err
    assert sorted(path.name for path in outputs.iterdir()) == ["cache", "runs"]


# --- what may go wrong ---


def test_a_server_that_is_not_there_costs_the_record_not_the_result(whest: Whest, outputs: Path) -> None:
    """It is told before the run. The run can be stored later, once, and looks like any other."""
    outcome = whest(*TRACKED, NO_SERVER, "estimator=zeros")
    assert outcome.exit_code == 0, outcome.err
    before, after = (line for line in outcome.err.splitlines() if "WARNING" in line)
    assert "http://127.0.0.1:9 does not answer" in before
    assert "http://127.0.0.1:9 did not store this run" in after
    assert f"python -m whest job=log path={outcome.folder} tracking.uri=http://127.0.0.1:9" in after
    assert outcome.report["results"]["score"] > 0

    stored = whest("job=log", f"path={outcome.folder}")
    assert stored.exit_code == 0, stored.err
    (run,) = recorded(outputs)
    assert (run.info.run_id in stored.out, run.info.status) == (True, "FINISHED")
    assert run.data.metrics["score"] == outcome.report["results"]["score"]
    assert run.data.tags["run_folder"] == str(outcome.folder)
    assert (artifacts(outputs, run) / "per_mlp.json").exists()
    assert "known already" in whest("job=log", f"path={outcome.folder / 'report.json'}").out
    assert len(recorded(outputs)) == 1
    board = whest("job=leaderboard")
    assert board.exit_code == 0, board.err
    assert "zeros" in board.out


def test_a_server_that_says_nothing_is_left_after_two_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        reason = silence(f"http://127.0.0.1:{mute.getsockname()[1]}")
    assert reason is not None
    assert "2 s" in reason or "timed out" in reason


def test_what_job_log_can_not_store_is_told(whest: Whest, tmp_path: Path) -> None:
    for words, said in ((["path=nowhere"], "nowhere"), ([], "path is missing"), (["tracking=none"], "path is missing")):
        outcome = whest("job=log", *words)
        assert outcome.exit_code in (1, 2)
        assert said in outcome.err
    assert "tracking=none stores nothing" in whest("job=log", "path=nowhere", "tracking=none").err
    run = whest("debug=tiny", "estimator=zeros", "page=false", "tracking=none")
    odd = json.loads((run.folder / "report.json").read_text())
    odd["run_meta"]["protocol"]["task"]["name"] = "os"
    (tmp_path / "report.json").write_text(json.dumps(odd))
    outcome = whest("job=log", f"path={tmp_path}", "console=json")
    assert outcome.exit_code == 1
    assert "Traceback" not in outcome.err
    assert "the report is of task=os, and whest has whitebox" in json.loads(outcome.out)["error"]


def test_a_damaged_store_costs_the_record_not_the_result(whest: Whest, outputs: Path) -> None:
    outputs.mkdir()
    (outputs / "mlflow.db").write_bytes(b"this is no database" * 100)
    outcome = whest(*TRACKED, "estimator=zeros")
    assert outcome.exit_code == 0, outcome.err
    assert "did not store this run" in outcome.err
    assert outcome.report["results"]["score"] > 0
    assert (outputs / "mlflow.db").read_bytes() == b"this is no database" * 100


def test_what_a_killed_first_run_left_is_no_hindrance(whest: Whest, outputs: Path) -> None:
    outputs.mkdir()
    (outputs / "mlflow.draft.db").write_bytes(b"SQLite format 3\x00 and then the power went")
    (outputs / "mlflow.lock").touch()
    outcome = whest(*TRACKED, "estimator=zeros")
    assert outcome.exit_code == 0, outcome.err
    assert "did not store" not in outcome.err
    assert len(recorded(outputs)) == 1


def start(tmp_path: Path, outputs: Path, environment: dict[str, str], *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "whest", *TRACKED, f"outputs_dir={outputs}", *more],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_first_runs_at_the_same_time_both_get_in(
    tmp_path: Path, outputs: Path, environment: dict[str, str]
) -> None:
    processes = [start(tmp_path, outputs, environment, f"estimator={name}") for name in ("zeros", "mean_prop")]
    texts = [process.communicate(timeout=300)[0] for process in processes]
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode == 0, text
        assert "did not store" not in text
    runs = recorded(outputs)
    assert sorted((run.data.tags["estimator"], run.info.status) for run in runs) == [
        ("mean_prop", "FINISHED"),
        ("zeros", "FINISHED"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(5))
def test_a_first_run_killed_at_any_moment_leaves_a_usable_store(
    whest: Whest, tmp_path: Path, outputs: Path, environment: dict[str, str], trial: int
) -> None:
    """The moments lie in the few seconds after the store's lock was taken, when the store is made and filled."""
    process = start(tmp_path, outputs, environment, "estimator=zeros")
    while not (outputs / "mlflow.lock").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(random.Random(trial).uniform(0, 4))
    process.kill()
    process.communicate()
    outcome = whest(*TRACKED, "estimator=mean_prop", "hydra.run.dir=again")
    assert outcome.exit_code == 0, outcome.err
    assert "did not store" not in outcome.err
    statuses = {run.data.tags["estimator"]: run.info.status for run in recorded(outputs)}
    assert statuses["mean_prop"] == "FINISHED"
    for killed in outputs.glob("runs/*/*/report.json"):
        json.loads(killed.read_text())
