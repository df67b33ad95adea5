"""Recorded runs: an unchanged run reads back complete; every later change is reported."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_store import Store
from whest.document import report_metrics
from whest.tracking.recorded import UnreadableError, read_report, read_run

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("outputs"))


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_run_reads_back_as_it_was_from_mlflow_and_from_its_file(store: Store) -> None:
    run_id = store.add("mean_prop", participant="ada")
    run = read_run(store.client, run_id)
    assert run.problem is None
    assert (run.participant, run.rule, len(run.rows)) == ("ada", "whest", 2)
    assert run.score == store.client.get_run(run_id).data.metrics["score"] > 0
    assert run.score_se == run.report["results"]["adjusted_final_layer_score_se"] > 0
    assert run.tags["protocol_hash"] == run.protocol_hash
    assert run.finished_at is not None
    folder = Path(run.tags["run_folder"])
    for place in (folder, folder / "report.json"):
        read = read_report(place)
        assert (read.report, read.participant, read.problem) == (run.report, "ada", None)
    assert run_id in [found.run_id for found in store.runs()]


def test_mlflow_has_every_metric_of_the_report(store: Store) -> None:
    run_id = store.add("zeros")
    run = read_run(store.client, run_id)
    expected = report_metrics(run.report)
    assert {"score", "score_se", "n_failed_mlps", "failures/error", "flop_budget", "wall_time_s"} <= set(expected)
    metrics = store.client.get_run(run_id).data.metrics
    assert {name: metrics[name] for name in expected} == expected


def test_a_failed_or_refused_run_is_no_tampered_one(store: Store) -> None:
    run = read_run(store.client, store.add("random", "budget=1"))
    assert run.problem is None
    assert run.report["results"]["n_failed_mlps"] == 2


def test_a_sweeps_parent_and_a_strangers_run_are_not_scored(store: Store) -> None:
    store.add("zeros")
    client = store.client
    before = len(store.runs())
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == "whest"]
    client.create_run(experiment, tags={"whest.kind": "sweep"})
    client.create_run(experiment)
    assert len(store.runs()) == before


# --- what may be changed afterwards ---


@pytest.mark.parametrize("metric", ["score", "final_layer_mse", "n_failed_mlps", "flop_budget"])
def test_a_changed_metric_is_noticed(store: Store, metric: str) -> None:
    run_id = store.add("zeros")
    store.client.log_metric(run_id, metric, 1e-9)
    problem = read_run(store.client, run_id).problem
    assert problem is not None
    assert f"metric {metric} is 1e-09 in MLflow" in problem


@pytest.mark.parametrize("tag", ["participant", "protocol_hash", "scoring", "estimator"])
def test_a_changed_or_deleted_tag_is_noticed(store: Store, tag: str) -> None:
    run_id = store.add("zeros")
    store.client.set_tag(run_id, tag, "another")
    assert f"tag {tag} is another in MLflow" in str(read_run(store.client, run_id).problem)
    store.client.delete_tag(run_id, tag)
    assert f"tag {tag} is missing in MLflow" in str(read_run(store.client, run_id).problem)


def test_a_changed_date_is_noticed(store: Store) -> None:
    run_id = store.add("zeros")
    store.client.set_terminated(run_id, "FINISHED", end_time=1_000_000_000_000)
    assert "the time at which it finished differs" in str(read_run(store.client, run_id).problem)


def test_a_replaced_artifact_is_noticed_even_with_metrics_and_tag_to_match(store: Store) -> None:
    run_id = store.add("zeros")
    path = store.artifact(run_id)
    edit(path, lambda report: report["results"].update(score=1e-9))
    assert "sha256" in str(read_run(store.client, run_id).problem)
    store.client.log_metric(run_id, "score", 1e-9)
    store.client.set_tag(run_id, "report_sha256", hashlib.sha256(path.read_bytes()).hexdigest())
    assert "sha256" in str(read_run(store.client, run_id).problem), "MLflow doesn't let a param change"


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]", b'{"run_meta": {"protocol_hash": 1}}'])
def test_a_missing_or_broken_artifact_is_noticed(store: Store, content: bytes | None) -> None:
    run_id = store.add("zeros", participant="bob")
    if content is None:
        store.artifact(run_id).unlink()
    else:
        store.artifact(run_id).write_bytes(content)
    run = read_run(store.client, run_id)
    assert "report.json is" in str(run.problem)
    assert (run.participant, run.score, run.report) == ("bob", None, {})


def change_row(report: dict[str, Any]) -> None:
    report["results"]["per_mlp"][0]["final_layer_mse"] /= 2


def change_flops(report: dict[str, Any]) -> None:
    for row in report["results"]["per_mlp"]:
        row["flops_used"] = int(report["run_config"]["flop_budget"] / 2)


def drop_row(report: dict[str, Any]) -> None:
    report["results"]["per_mlp"].pop()


def change_limits(report: dict[str, Any]) -> None:
    report["run_meta"]["protocol"]["limits"]["budget"] *= 2


def change_rule(report: dict[str, Any]) -> None:
    report["run_config"]["scoring"]["name"] = "mine"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_row, "but its rows give"),
        (change_flops, "but its rows give"),
        (drop_row, "but its rows give"),
        (change_limits, "is not the hash of its protocol"),
        (change_rule, "scoring=mine is no rule of whest"),
    ],
)
def test_a_report_that_does_not_add_up_is_noticed(
    store: Store, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    copy = tmp_path / "report.json"
    copy.write_bytes((store.scored("mean_prop") / "report.json").read_bytes())
    assert read_report(copy).problem is None
    edit(copy, change)
    assert words in str(read_report(copy).problem)


def test_what_is_not_there_is_refused_with_a_remedy(store: Store, tmp_path: Path) -> None:
    store.add("zeros")
    with pytest.raises(UnreadableError, match="no MLflow run 0123"):
        read_run(store.client, "0123")
    with pytest.raises(UnreadableError, match="can't be read"):
        read_report(tmp_path)
    (tmp_path / "report.json").write_text("no JSON")
    with pytest.raises(UnreadableError, match="is not a report"):
        read_report(tmp_path)
