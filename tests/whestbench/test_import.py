"""`job=import`: correct and damaged WhestBench reports go through the checks into a real MLflow store."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.documents import check_document
from whest.boards.board import make_board
from whest.boards.entries import read_entry
from whest.boards.policies import WhestPolicy
from whest.cli.import_reports import describe, import_all
from whest.errors import ConfigError
from whest.tracking.recorded import find_runs, read_report, read_run
from whest.tracking.runs import MlflowTracking
from whest.whestbench.checks import find_problems
from whest.whestbench.reports import NotAReportError, read_peer_report

pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]
Json = dict[str, Any]
BUDGET, LAM, DEPTH = 1000, 100.0, 2
FLAGS = ("budget_exhausted", "time_exhausted", "residual_wall_time_exhausted", "combined_budget_exhausted")
MADE = range(3)


def row(
    index: int, flops: int = 300, residual: float = 0.5, layers: tuple[float, ...] = (0.1, 0.3), **more: Any
) -> Json:
    """An MLP's row as whestbench 0.16 writes it."""
    compute = flops + LAM * residual
    flags = dict.fromkeys(FLAGS, False) | {name: value for name, value in more.items() if name in FLAGS}
    multiplier = 1.0 if any(flags.values()) or "error_code" in more else max(0.1, compute / BUDGET)
    operation = {"flop_cost": flops, "calls": 2, "flopscope_backend_time_s": 0.25, "flopscope_overhead_time_s": 0.125}
    space = {"flops_used": flops, "calls": 2, "operations": {"matmul": operation}}
    return {
        "mlp_index": index,
        "mlp_name": f"name-{index}",
        "final_layer_mse": layers[-1],
        "all_layers_mse": fmean(layers),
        "per_layer_mse": list(layers),
        "adjusted_final_layer_score": layers[-1] * multiplier,
        "flops_used": flops,
        "effective_compute": compute,
        **flags,
        "wall_time_s": 0.375 + residual,
        "flopscope_backend_time_s": 0.25,
        "flopscope_overhead_time_s": 0.125,
        "residual_wall_time_s": residual,
        "breakdowns": {"estimator": {"flops_used": flops, "by_namespace": {"estimator.phase": space}}},
        "traceback": None,
        **more,
    }


def error_row(index: int) -> Json:
    """What the peer makes of an exception: nothing spent, no flag."""
    spent = {"flops_used": 0, "effective_compute": 0.0, "wall_time_s": 0.0, "residual_wall_time_s": 0.0}
    times = {"flopscope_backend_time_s": 0.0, "flopscope_overhead_time_s": 0.0}
    failure = {"error": "no", "error_code": "PREDICT_ERROR", "traceback": "…", "breakdowns": {"estimator": None}}
    return row(index, flops=0, residual=0.0, **failure) | spent | times


def report(rows: list[Json], **config: Any) -> Json:
    """A consistent report."""
    failed = ["error_code" in one or any(one[flag] for flag in FLAGS) for one in rows]
    computes = [one["effective_compute"] for one in rows]
    scores = [one["adjusted_final_layer_score"] for one in rows]
    multipliers = [1.0 if bad else max(0.1, c / BUDGET) for bad, c in zip(failed, computes, strict=True)]
    return {
        "schema_version": "1.1",
        "mode": "agent",
        "whestbench_version": "0.16.2",
        "results": {
            "adjusted_final_layer_score": fmean(scores),
            "final_layer_mse": fmean(one["final_layer_mse"] for one in rows),
            "all_layers_mse": fmean(one["all_layers_mse"] for one in rows),
            "per_layer_mse": [fmean(column) for column in zip(*(one["per_layer_mse"] for one in rows), strict=True)],
            "best_mlp_adjusted_final_layer_score": min(scores),
            "worst_mlp_adjusted_final_layer_score": max(scores),
            "mean_score_multiplier": fmean(multipliers),
            "mean_compute_utilization": fmean(c / BUDGET for c in computes),
            "n_failed_mlps": sum(failed),
            "mean_effective_compute": fmean(computes),
            "failure_breakdown": {flag: sum(one[flag] for one in rows) for flag in FLAGS}
            | {"error": sum("error_code" in one for one in rows)},
            "per_mlp": rows,
            "breakdowns": {"sampling": None, "estimator": None},
        },
        "run_meta": {
            "run_started_at_utc": "2026-06-01T12:00:00+00:00",
            "run_finished_at_utc": "2026-06-01T12:00:00+00:00",
            "run_duration_s": 3.5,
            "host": {"hostname": "theirs", "flopscope_version": "0.12.4", "numpy_version": "2.4.6"},
        },
        "run_config": {
            "n_mlps": len(rows),
            "width": 4,
            "depth": DEPTH,
            "seed": None,
            "flop_budget": BUDGET,
            "setup_timeout_s": 5.0,
            "wall_time_limit_s": 2.0,
            "residual_wall_time_limit_s": 1.0,
            "lambda_flops_per_second": LAM,
            "dataset": {"path": "/somewhere/theirs", "sha256": "ab" * 32, "seed": None, "n_mlps": len(rows)},
            **config,
        },
    }


MIXED = [
    row(0),
    row(1, flops=20, residual=0.25),
    row(2, residual=1.2, residual_wall_time_exhausted=True),
    row(3, residual=1.9, time_exhausted=True),
    row(4, flops=990, budget_exhausted=True),
    row(5, flops=960, combined_budget_exhausted=True),
    error_row(6),
]
OLD = {
    "schema_version": "1.0",
    "run_config": {"n_mlps": 2, "width": 4, "depth": 3, "flop_budget": 100, "untracked_time_limit_s": 0.2},
    "run_meta": {"run_finished_at_utc": "n/a", "run_duration_s": None},
    "results": {
        "primary_score": 0.2,
        "secondary_score": 0.4,
        "per_mlp": [
            {
                "mlp_index": index,
                "final_mse": 0.1 + 0.2 * index,
                "all_layer_mse": 0.4,
                "flops_used": 50,
                "budget_exhausted": False,
                "time_exhausted": False,
                "untracked_time_exhausted": bool(index),
                "wall_time_s": 0.4,
                "tracked_time_s": 0.2,
                "untracked_time_s": 0.1 + 0.2 * index,
                "breakdowns": {"estimator": None},
            }
            for index in range(2)
        ],
    },
}


def problems(document: Json, folder: Path) -> list[str]:
    path = folder / "report.json"
    path.write_text(json.dumps(document))
    return find_problems(read_peer_report(path))


def changed(document: Json, change: Callable[[Json], Any]) -> Json:
    spoilt = copy.deepcopy(document)
    change(spoilt)
    return spoilt


def test_a_report_that_holds_together_has_no_problems(tmp_path: Path) -> None:
    assert problems(report(MIXED), tmp_path) == []
    assert problems(OLD, tmp_path) == []


LAYERS = st.tuples(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3))
ROWS = st.builds(row, st.just(0), st.integers(0, 900), st.floats(0, 0.99), LAYERS)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_whatever_was_measured_a_sound_report_is_sound(tmp_path_factory: Any, rows: list[Json]) -> None:
    rows = [{**one, "mlp_index": index} for index, one in enumerate(rows)]
    assert problems(report(rows), tmp_path_factory.mktemp("sound")) == []


@pytest.mark.parametrize(
    ("place", "name"),
    [
        *(("row", name) for name in (
            "final_layer_mse", "all_layers_mse", "adjusted_final_layer_score", "effective_compute", "flops_used",
            "wall_time_s", "residual_wall_time_s",
        )),
        *(("suite", name) for name in (
            "adjusted_final_layer_score", "final_layer_mse", "all_layers_mse", "best_mlp_adjusted_final_layer_score",
            "worst_mlp_adjusted_final_layer_score", "mean_score_multiplier", "mean_compute_utilization",
            "mean_effective_compute", "n_failed_mlps",
        )),
    ],
)  # fmt: skip
def test_a_figure_that_was_changed_is_named(place: str, name: str, tmp_path: Path) -> None:
    def change(document: Json) -> None:
        part = document["results"] if place == "suite" else document["results"]["per_mlp"][0]
        part[name] = part[name] + 1 if isinstance(part[name], int) else part[name] * 1.01

    found = problems(changed(report(MIXED), change), tmp_path)
    follows = {"residual_wall_time_s": "effective_compute"}.get(name, name)
    assert any(follows in problem for problem in found)
    if place == "row":
        assert any("MLP 0 (name-0)" in problem for problem in found)


SPOILT: dict[str, Callable[[Json], Any]] = {
    "run_config.n_mlps is 9": lambda r: r["run_config"].update(n_mlps=9),
    "mlp_index twice: [0]": lambda r: r["results"]["per_mlp"][1].update(mlp_index=0),
    "has 3 layers": lambda r: r["results"]["per_mlp"][0].update(per_layer_mse=[0.1, 0.2, 0.3]),
    "results.per_layer_mse is not": lambda r: r["results"]["per_layer_mse"].append(1.0),
    "failure_breakdown.error is 3": lambda r: r["results"]["failure_breakdown"].update(error=3),
    "no flag is set, but 2.275 s": lambda r: r["results"]["per_mlp"][3].update(time_exhausted=False),
    "time_exhausted is set, but no limit": lambda r: r["results"]["per_mlp"][0].update(time_exhausted=True),
    "are both set": lambda r: r["results"]["per_mlp"][4].update(time_exhausted=True),
    "is set beside the error": lambda r: r["results"]["per_mlp"][6].update(time_exhausted=True),
    "over the budget of 1000": lambda r: r["results"]["per_mlp"][5].update(combined_budget_exhausted=False),
    "FLOPs are over": lambda r: r["results"]["per_mlp"][0].update(flops_used=1001),
}


@pytest.mark.parametrize("words", SPOILT)
def test_what_does_not_add_up_is_said_in_words(words: str, tmp_path: Path) -> None:
    found = problems(changed(report(MIXED), SPOILT[words]), tmp_path)
    assert any(words in problem for problem in found), found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[]", "no run_config"),
        ("{}", "no run_config"),
        ('{"run_config": {}, "results": {"per_mlp": []}}', "no results.per_mlp"),
        ('{"run_config": {}, "results": {"per_mlp": [3]}}', "not an object"),
        ('{"run_config": {}, "results": {"per_mlp": [{}]}}', "mlp_index"),
        ('{"run_meta": {"protocol_hash": "x"}}', "is a report of whest"),
        (json.dumps(changed(report(MIXED), lambda r: r["run_config"].update(flop_budget=-1))), "flop_budget"),
        (json.dumps(changed(report(MIXED), lambda r: r["results"]["per_mlp"][0].update(flops_used="x"))), "flops_used"),
    ],
)
def test_what_is_no_report_is_refused_with_the_reason(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(NotAReportError, match=r"path=.*a\.json") as refused:
        read_peer_report(tmp_path / "a.json")
    assert words in str(refused.value)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MlflowTracking:
    return MlflowTracking(None, "whest", tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two correct reports on one dataset, a changed one, an old one, an old one with an error, and another file."""
    place = tmp_path_factory.mktemp("reports")
    better = [row(index, layers=(0.1, 0.2 + 0.01 * index)) for index in MADE]
    worse = [row(index, layers=(0.1, 0.4 + 0.03 * index)) for index in MADE]
    flattered = changed(report(better), lambda r: r["results"].update(adjusted_final_layer_score=1e-9))
    infinite = changed(OLD, lambda r: r["results"].update(primary_score=math.inf, secondary_score=math.inf))
    told = {key: value for key, value in infinite["results"]["per_mlp"][0].items() if "mse" not in key}
    infinite["results"]["per_mlp"][1] = told | {"mlp_index": 1, "error": "no"}
    (place / "more").mkdir()
    for name, document in {
        "better": report(better, estimator_path="solutions/ada.py", estimator_class="Ada"),
        "more/worse": report(worse),
        "flattered": flattered,
        "old": OLD,
        "infinite": infinite,
        "notes": {"a": 1},
    }.items():
        (place / f"{name}.json").write_text(json.dumps(document))
    return place


@pytest.fixture(scope="module")
def imported(store: MlflowTracking, folder: Path) -> dict[str, Any]:
    fates = import_all(folder, store, None, "python -m whest job=import", store.outputs)
    return {fate.path.stem: fate for fate in fates}


def test_reports_become_runs_that_read_back_whole(imported: dict[str, Any], store: MlflowTracking) -> None:
    client, _ = store.connect()
    run = read_run(client, imported["better"].run_id)
    assert run.problem is None
    assert (run.name.split()[0], run.participant, run.rule, len(run.rows)) == ("ada", "ada", "whest", 3)
    assert run.score == pytest.approx(fmean(0.35 * (0.2 + 0.01 * index) for index in MADE))
    assert run.score_se is not None
    assert (run.tags["imported"], run.tags["imported_from"]) == ("whestbench", "better.json")
    assert "disagrees" not in run.tags
    assert run.rows[0]["backend_time_s"] == 0.25
    space = run.report["results"]["breakdowns"]["estimator"]["by_namespace"]["estimator.phase"]
    assert (space["flops_used"], space["operations"]["matmul"]["calls"]) == (900, 6)
    metrics = client.get_run(run.run_id).data.metrics
    assert metrics["mean_compute_utilization"] == pytest.approx(0.35)
    place = Path(run.tags["run_folder"])
    assert read_report(place).problem is None
    assert "Imported from better.json" in (place / "report.html").read_text()


def test_translated_reports_fit_their_types(imported: dict[str, Any], store: MlflowTracking) -> None:
    written = list(store.outputs.glob("imported/*/report.json"))
    assert len(written) == sum(fate.report is not None for fate in imported.values()) > 1
    for path in written:
        assert check_document(path)["mode"] == "import"


def test_old_reports_keep_their_own_rule(imported: dict[str, Any], store: MlflowTracking) -> None:
    """No discount for compute; an MLP that failed leaves no score at all."""
    client, _ = store.connect()
    old, infinite = (read_run(client, imported[name].run_id) for name in ("old", "infinite"))
    assert (old.problem, old.score, old.rows[1]["residual_wall_time_exhausted"]) == (None, pytest.approx(0.2), True)
    assert old.report["run_config"]["scoring"]["multiplier_floor"] == 1.0
    assert (infinite.problem, infinite.score, infinite.rows[1]["error_code"]) == (None, None, "PREDICT_ERROR")
    json.dumps(infinite.report, allow_nan=False)
    assert (Path(old.tags["run_folder"]) / "report.html").exists()


def test_disagreement_is_a_tag_a_line_and_no_rank(imported: dict[str, Any], store: MlflowTracking) -> None:
    client, experiment_id = store.connect()
    run = read_run(client, imported["flattered"].run_id)
    assert "results.adjusted_final_layer_score is 1e-09" in run.tags["disagrees"]
    assert "but its rows give" in str(run.problem)
    lines = describe(list(imported.values()))
    assert any("inconsistent: results.adjusted" in line for line in lines)
    assert any("left out" in line and "notes.json" in line for line in lines)
    entries = [read_entry(found) for found in find_runs(client, [experiment_id])]
    board = make_board(WhestPolicy(protocol=None, deadline=None, supersedes=[]), entries)
    assert [found.participant for found in board.ranked] == ["ada", "worse"]
    assert [found.status for found in board.rows if found.participant == "flattered"] == ["tampered"]


def test_importing_again_makes_no_second_run(
    imported: dict[str, Any], folder: Path, store: MlflowTracking, tmp_path: Path
) -> None:
    copied = tmp_path / "renamed.json"
    copied.write_bytes((folder / "better.json").read_bytes())
    (again,) = import_all(copied, store, None, "", store.outputs)
    assert (again.run_id, again.report) == (imported["better"].run_id, None)
    assert "already" in describe([again])[0]


def test_a_protocol_of_their_own_for_each_dataset_and_rulebook(imported: dict[str, Any], tmp_path: Path) -> None:
    def protocol(name: str) -> str:
        return str(imported[name].report.meta.protocol_hash)

    assert protocol("better") == protocol("worse") != protocol("old")
    assert imported["better"].report.meta.protocol["imported"] == "whestbench"


def test_the_job_from_the_command_line(whest: Any, folder: Path, tmp_path: Path) -> None:
    done = whest("job=import", f"path={folder / 'better.json'}", "participant=bob", "tracking=mlflow")
    assert done.exit_code == 0
    assert "imported" in done.out
    assert list(done.mlflow_runs().values()) == ["FINISHED"]
    kept = json.loads(next(done.outputs.glob("imported/*/report.json")).read_text())
    assert kept["run_config"]["participant"] == "bob"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["job=import"], "path is missing"),
        (["job=import", "path=absent.json"], "path=absent.json does not exist"),
        (["job=import", "path={notes}"], "notes.json is not a WhestBench report"),
        (["job=import", "path={better}", "tracking=none"], "tracking=none"),
    ],
)
def test_the_job_refuses_before_it_writes(whest: Any, folder: Path, words: list[str], key: str) -> None:
    done = whest(*(word.format(notes=folder / "notes.json", better=folder / "better.json") for word in words))
    assert (done.exit_code, done.files) == (2, [])
    assert key in done.err


def test_imported_runs_compare_with_each_other_alone(imported: dict[str, Any], store: MlflowTracking) -> None:
    from whest.compare.comparison import CompareOptions, compare
    from whest.compare.entrants import named, read_entrants, refuse_other_protocols

    ids = [imported[name].run_id for name in ("better", "worse", "old")]
    better, worse, old = (read_entrants(run_id, store, [])[0] for run_id in ids)
    options = CompareOptions(None, None, "run", "adjusted_final_layer_score", 0.95, 1000, 0)
    verdict = compare(named([better, worse]), options).pairs[0]
    assert verdict.paired.difference < 0
    with pytest.raises(ConfigError, match="protocols differ"):
        refuse_other_protocols(
            [("a", better.report["run_meta"]["protocol"]), ("b", old.report["run_meta"]["protocol"])]
        )
