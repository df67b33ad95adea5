"""The report: strict JSON with every field of the rules, identities between fields, and reasons of failures."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from tests.support.places import ROOT
from whest.cases.prediction import Failure, Prediction
from whest.cases.whitebox import WhiteboxCase
from whest.cost import Charge, Cost, Timing
from whest.estimator.contract import Estimator, MLPView, SetupContext
from whest.estimator.traced import Program, compile_program, estimator_function
from whest.experiment import gather
from whest.limits import Limits
from whest.mlp import SeedProtocol, draw_mlp, mlp_names
from whest.report import Report, RunMeta, estimator_breakdown, save_report
from whest.scoring.whest import WhestRule
from whest.tasks.whitebox.baseline import flops_per_sample
from whest.tasks.whitebox.report import WhiteboxReport
from whest.tasks.whitebox.view import VIEW
from whest.truth.truth import Truth

WIDTH, DEPTH, BUDGET = 6, 3, 1e6
LIMITS = Limits(BUDGET, 1e11, 60.0, None)
RULE = WhestRule(0.1)
Json = dict[str, Any]

RESULTS = """adjusted_final_layer_score final_layer_mse all_layers_mse per_layer_mse best_mlp_adjusted_final_layer_score
    worst_mlp_adjusted_final_layer_score mean_score_multiplier mean_compute_utilization mean_effective_compute
    n_failed_mlps failure_breakdown breakdowns per_mlp score direction
    adjusted_final_layer_score_se truth_floor_mse final_layer_mse_corrected adjusted_final_layer_score_corrected
    sampling_mse_at_budget sampling_mse_at_compute ratio_to_sampling compile_time_s peak_memory_bytes""".split()
PER_MLP = """mlp_index mlp_name flops_used effective_compute adjusted_final_layer_score budget_exhausted time_exhausted
    residual_wall_time_exhausted combined_budget_exhausted wall_time_s backend_time_s overhead_time_s
    residual_wall_time_s final_layer_mse all_layers_mse per_layer_mse breakdowns traceback""".split()
RUN_CONFIG = """n_mlps width depth seed flop_budget lambda_flops_per_second wall_time_limit_s residual_wall_time_limit_s
    estimator dataset""".split()
DATASET = "path sha256 seed n_mlps seed_protocol split n_samples".split()
HOST = "hostname os platform machine python cpu ram numpy jax jaxlib backend device".split()
FAILURES = """budget_exhausted time_exhausted residual_wall_time_exhausted combined_budget_exhausted error""".split()
TIMES = ("backend_time_s", "overhead_time_s", "residual_wall_time_s")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """The files of `python -m whest` with mean_prop on three MLPs of five, with truth drawn in the run."""
    folder = tmp_path_factory.mktemp("run")
    choices = "dataset=fresh dataset.range=[2,5] truth=reference truth.n_samples=500 estimator=mean_prop tracking=none"
    shape = f"dataset.width={WIDTH} dataset.depth={DEPTH} dataset.seed=5 budget={BUDGET} device=cpu"
    places = [f"outputs_dir={folder}", f"hydra.run.dir={folder}/it"]
    ended = subprocess.run(
        [sys.executable, "-m", "whest", *choices.split(), *shape.split(), *places],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    return read_strictly((folder / "it" / "report.json").read_text())


def report_of(*cases: WhiteboxCase, limits: Limits = LIMITS, status: str = "finished", **config: Any) -> Report:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    meta = RunMeta(
        run_started_at_utc=started,
        run_finished_at_utc=started + timedelta(seconds=3),
        run_duration_s=3.0,
        status=status,
        whest_version="0",
        code_version=None,
        command="python -m whest",
        protocol_hash="0" * 16,
        protocol={},
    )
    price = flops_per_sample(WIDTH, DEPTH)
    return WhiteboxReport("score", meta, config, limits, cases, RULE.score(cases, limits, price), VIEW, price)


def make_truth() -> Truth:
    generator = np.random.default_rng(0)
    means, errors = generator.random((2, DEPTH, WIDTH)).astype(np.float32)
    return Truth(means, errors / 100, 0.5, 1000)


def make_case(prediction: Prediction, index: int = 0, sampling_time_s: float | None = None) -> WhiteboxCase:
    return WhiteboxCase(index, f"mlp-{index}", make_truth(), prediction, sampling_time_s)


def answered(timing: Timing | None = None, flops: int = 1000) -> Prediction:
    cost = Cost((Charge("", "dot_general", flops, 2),))
    return Prediction(np.zeros((DEPTH, WIDTH), np.float32), cost, timing or Timing(0.1, 0.02, 0.0))


def strict(report: Report) -> Json:
    """The report as a strict reader gets it."""
    return read_strictly(json.dumps(report.to_json(), allow_nan=False))


def read_strictly(text: str) -> Json:
    document: Json = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    return document


@dataclass(frozen=True)
class Plugin:
    """An estimator from a function of the MLP."""

    answer: Callable[[MLPView], Any]

    def predict(self, mlp: MLPView, budget: int) -> Array:
        return self.answer(mlp)


def predict(estimator: Estimator, budget: int = int(BUDGET)) -> Prediction:
    """The answers that a runner would give."""
    context = SetupContext(
        width=WIDTH,
        depth=DEPTH,
        flop_budget=budget,
        lam=0.0,
        wall_time_limit_s=None,
        residual_wall_time_limit_s=None,
        seed=0,
        scratch_dir="",
        submission_dir=None,
    )
    program = compile_program(estimator_function(estimator, budget), context)
    if isinstance(program, Program):
        return program.predict(draw_mlp(SeedProtocol().streams(2), WIDTH, DEPTH, "test"))
    return Prediction(None, Cost(()), failure=program)


# Fields


def test_top_level(real: Json) -> None:
    assert set(real) == {"schema_version", "mode", "run_meta", "run_config", "results"}
    assert real["schema_version"] == "2.0"
    assert real["mode"] == "score"


def test_results_have_every_named_field(real: Json) -> None:
    results = real["results"]
    assert [name for name in RESULTS if name not in results] == []
    assert set(results["failure_breakdown"]) == set(FAILURES)
    assert set(results["breakdowns"]) == {"sampling", "estimator"}
    assert results["score"] == results["adjusted_final_layer_score"]
    assert results["direction"] == "lower"
    assert len(results["per_layer_mse"]) == DEPTH
    assert results["n_failed_mlps"] == 0


def test_each_mlp_has_every_named_field(real: Json) -> None:
    rows = real["results"]["per_mlp"]
    seeds = np.random.SeedSequence(5).generate_state(5, np.uint64) >> np.uint64(1)
    names = mlp_names(SeedProtocol(), [int(seed) for seed in seeds])
    assert [row["mlp_index"] for row in rows] == [2, 3, 4], "an MLP's place in the whole dataset"
    assert [row["mlp_name"] for row in rows] == names[2:]
    for row in rows:
        assert [name for name in PER_MLP if name not in row] == []
        assert row["flops_used"] > 0
        assert isinstance(row["flops_used"], int)
        assert len(row["per_layer_mse"]) == DEPTH
        assert "estimator" in row["breakdowns"]


def test_run_config_has_every_named_field(real: Json) -> None:
    config = real["run_config"]
    assert [name for name in RUN_CONFIG if name not in config] == []
    assert (config["n_mlps"], config["width"], config["depth"], config["seed"]) == (3, WIDTH, DEPTH, None)
    assert (config["flop_budget"], config["lambda_flops_per_second"]) == (BUDGET, 1e11)
    assert config["estimator"]["target"] == "estimators.mean_prop.MeanProp"
    assert len(config["estimator"]["source_sha256"]) == 64


def test_dataset_has_every_named_field(real: Json) -> None:
    dataset = real["run_config"]["dataset"]
    assert [name for name in DATASET if name not in dataset] == []
    assert len(dataset["sha256"]) == 64
    assert (dataset["seed"], dataset["n_mlps"]) == (5, 3)
    assert dataset["seed_protocol"] == {"name": "whestbench_explicit_per_mlp_seeds", "version": "3.0"}


def test_run_meta_stamps_both_ends_in_utc(real: Json) -> None:
    meta = real["run_meta"]
    started, finished = (datetime.fromisoformat(meta[f"run_{end}_at_utc"]) for end in ("started", "finished"))
    assert started.utcoffset() == finished.utcoffset() == timedelta(0)
    assert started < finished
    assert meta["run_duration_s"] > 0
    assert meta["status"] == "finished"
    assert len(meta["protocol_hash"]) == 16


def test_host_says_what_it_ran_on(real: Json) -> None:
    host = real["run_meta"]["host"]
    assert [word for word in HOST if not any(key.startswith(word) for key in host)] == []
    assert host["jax_version"] == jax.__version__
    assert host["cpu_count_logical"] >= 1


# Strict JSON


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_becomes_null(value: float) -> None:
    case = make_case(replace(answered(), timing=Timing(value, 0.0, 0.0)))
    document = strict(report_of(case, knob=np.float64(value), nested={"list": [1.0, value]}))
    assert document["run_config"]["knob"] is None
    assert document["run_config"]["nested"] == {"list": [1.0, None]}
    assert document["results"]["per_mlp"][0]["backend_time_s"] is None


def test_saved_report_is_the_whole_document(tmp_path: Path) -> None:
    report = report_of(make_case(answered()), make_case(answered(), 1))
    path = save_report(report, tmp_path / "run")
    assert path == tmp_path / "run" / "report.json"
    assert [p.name for p in path.parent.iterdir()] == ["report.json"]
    saved, now = read_strictly(path.read_text()), strict(report)
    for document in (saved, now):
        del document["results"]["peak_memory_bytes"]
    assert saved == now


def test_figures_keep_their_precision() -> None:
    report = report_of(make_case(answered(flops=333_333)))
    results = strict(report)["results"]
    assert results["adjusted_final_layer_score"] == report.score.adjusted_final_layer_score
    assert results["per_layer_mse"] == list(report.score.per_layer_mse)


@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_report_without_cases(status: str, tmp_path: Path) -> None:
    report = report_of(status=status)
    document = strict(report)
    assert document["run_meta"]["status"] == status
    results = document["results"]
    assert results["per_mlp"] == results["per_layer_mse"] == []
    assert results["score"] is None
    assert results["breakdowns"]["estimator"]["flops_used"] == 0
    assert not report.has_errors
    assert json.loads(save_report(report, tmp_path).read_text())["results"]["n_failed_mlps"] == 0


def test_interrupted_run_keeps_what_was_finished() -> None:
    def interrupted() -> Iterator[WhiteboxCase]:
        yield from (make_case(answered(), index) for index in range(2))
        raise KeyboardInterrupt

    cases, status = gather(interrupted())
    document = strict(report_of(*cases, status=status))
    assert document["run_meta"]["status"] == "interrupted"
    assert [row["mlp_index"] for row in document["results"]["per_mlp"]] == [0, 1]
    assert document["results"]["score"] is not None


# Identities


def timed_nodes(node: Any, place: str = "results") -> Iterator[tuple[str, Json]]:
    """Every object with a wall time, and its path."""
    if isinstance(node, dict):
        if node.get("wall_time_s") is not None:
            yield place, node
        for key, child in node.items():
            yield from timed_nodes(child, f"{place}.{key}")
    elif isinstance(node, list):
        for i, child in enumerate(node):
            yield from timed_nodes(child, f"{place}[{i}]")


def broken_identities(document: Json) -> list[str]:
    return [
        place
        for place, node in timed_nodes(document["results"])
        if None in [node.get(part) for part in TIMES]
        or not math.isclose(node["wall_time_s"], sum(node[part] for part in TIMES), rel_tol=1e-12)
    ]


def test_wall_time_is_the_sum_of_its_parts_at_every_level() -> None:
    cases = [make_case(answered(Timing(0.1 * i, 0.03, 0.007 * i)), i) for i in range(1, 4)]
    document = strict(report_of(*cases))
    places = [place for place, _ in timed_nodes(document["results"])]
    assert "results.breakdowns.estimator" in places
    assert "results.per_mlp[0]" in places
    assert "results.per_mlp[0].breakdowns.estimator" in places
    assert broken_identities(document) == []
    total = document["results"]["breakdowns"]["estimator"]
    for part in ("wall_time_s", *TIMES):
        assert total[part] == pytest.approx(sum(row[part] for row in document["results"]["per_mlp"]))


def test_wall_time_identity_holds_in_a_real_run(real: Json) -> None:
    """Here the truth was drawn in the run, so its time is in the sampling breakdown."""
    assert real["results"]["breakdowns"]["sampling"]["wall_time_s"] > 0
    assert broken_identities(real) == []


def test_layers_add_up_in_the_document(real: Json) -> None:
    results = real["results"]
    for node in (results, *results["per_mlp"]):
        assert node["per_layer_mse"][-1] == pytest.approx(node["final_layer_mse"], rel=1e-12)
        assert np.mean(node["per_layer_mse"]) == pytest.approx(node["all_layers_mse"], rel=1e-12)


def test_compile_time_is_apart_from_wall_time() -> None:
    cases = [make_case(replace(answered(Timing(1.0)), compile_time_s=seconds)) for seconds in (2.0, 0.5)]
    results = strict(report_of(*cases))["results"]
    assert results["compile_time_s"] == 2.5
    assert results["breakdowns"]["estimator"]["wall_time_s"] == 2.0


# Breakdowns


def labelled(mlp: MLPView) -> Array:
    """Work without a label, in a phase, and in a phase's own phase."""
    start = mlp.weights.sum(axis=1)
    with jax.named_scope("phase"):
        product = start @ mlp.weights[0]
        with jax.named_scope("subphase"):
            product = jnp.exp(product)
    return product


def test_namespaces_follow_the_scopes() -> None:
    prediction = predict(Plugin(labelled))
    breakdown = strict(report_of(make_case(prediction)))["results"]["per_mlp"][0]["breakdowns"]["estimator"]
    spaces = breakdown["by_namespace"]
    cells = DEPTH * WIDTH
    assert set(spaces) == {"estimator.estimator-client", "estimator.phase", "estimator.phase.subphase"}
    assert spaces["estimator.estimator-client"]["flops_used"] == DEPTH * WIDTH * (WIDTH - 1)
    assert spaces["estimator.phase"]["flops_used"] == 2 * cells * WIDTH
    assert spaces["estimator.phase.subphase"]["flops_used"] == cells
    product, exponential = (spaces[f"estimator.{name}"]["operations"] for name in ("phase", "phase.subphase"))
    assert (product["dot_general"]["flops_used"], product["dot_general"]["calls"]) == (2 * cells * WIDTH, 1)
    assert list(exponential) == ["exp"]
    assert (exponential["exp"]["flops_used"], exponential["exp"]["calls"]) == (cells, 1)
    assert sum(space["flops_used"] for space in spaces.values()) == breakdown["flops_used"] == prediction.cost.flops


def test_namespaces_of_a_traced_program_have_no_times() -> None:
    breakdown = strict(report_of(make_case(predict(Plugin(labelled)))))["results"]["breakdowns"]["estimator"]
    for space in breakdown["by_namespace"].values():
        assert [space[part] for part in ("wall_time_s", *TIMES)] == [None] * 4
        assert space["calls"] == sum(operation["calls"] for operation in space["operations"].values())
        assert space["flops_used"] == sum(operation["flops_used"] for operation in space["operations"].values())


def test_aggregate_breakdown_is_the_sum_over_mlps(real: Json) -> None:
    results = real["results"]
    total = results["breakdowns"]["estimator"]
    parts = [row["breakdowns"]["estimator"] for row in results["per_mlp"]]
    assert total["flops_used"] == sum(row["flops_used"] for row in results["per_mlp"])
    assert set(total["by_namespace"]) == {"estimator.propagate", "estimator.rectify"} | set(parts[0]["by_namespace"])
    for name, space in total["by_namespace"].items():
        for count in ("flops_used", "calls"):
            assert space[count] == sum(part["by_namespace"][name][count] for part in parts)


def test_sampling_breakdown_says_what_truth_cost() -> None:
    cases = [make_case(answered(), 0, 1.5), make_case(answered(), 1, None), make_case(answered(), 2, 0.25)]
    sampling = strict(report_of(*cases))["results"]["breakdowns"]["sampling"]
    assert sampling["wall_time_s"] == 1.75
    assert sampling["flops_used"] == round(3000 * flops_per_sample(WIDTH, DEPTH))
    assert all(name.startswith("sampling.") for name in sampling["by_namespace"])
    baked = strict(report_of(make_case(answered())))["results"]["breakdowns"]["sampling"]
    assert baked["wall_time_s"] is None, "nothing was drawn in this run"


# Diagnoses


def test_clean_row_carries_no_error(real: Json) -> None:
    assert not report_of(make_case(answered())).has_errors
    for row in real["results"]["per_mlp"]:
        assert row["traceback"] is None
        assert row.get("error") is None
        assert row.get("error_code") is None


@pytest.mark.parametrize(
    ("answer", "got_shape", "clue"),
    [
        (lambda mlp: jnp.zeros((WIDTH, DEPTH)), [WIDTH, DEPTH], "swapped"),
        (lambda mlp: jnp.zeros(WIDTH), [WIDTH], "one layer"),
        (lambda mlp: jnp.zeros((DEPTH + 1, WIDTH)), [DEPTH + 1, WIDTH], "too many"),
        (lambda mlp: jnp.zeros((2, 2, 2)), [2, 2, 2], "stack"),
        (lambda mlp: 0.0, [], "stack"),
    ],
)
def test_shape_error_says_what_was_expected_and_what_came(
    answer: Callable[[MLPView], Any], got_shape: list[int], clue: str
) -> None:
    report = report_of(make_case(predict(Plugin(answer))))
    assert report.has_errors
    row = strict(report)["results"]["per_mlp"][0]
    assert row["error_code"] == "BAD_SHAPE"
    details = row["error"]["details"]
    assert set(details) == {"expected_shape", "got_shape", "cause_hints", "hint"}
    assert details["expected_shape"] == [DEPTH, WIDTH]
    assert details["got_shape"] == got_shape
    assert any(clue in hint for hint in details["cause_hints"])
    assert "(depth, width)" in details["hint"]
    assert str((DEPTH, WIDTH)) in row["error"]["message"]
    assert row["traceback"]


def test_raised_error_keeps_its_traceback() -> None:
    def broken(mlp: MLPView) -> Array:
        raise ValueError("the estimator's own words")

    row = strict(report_of(make_case(predict(Plugin(broken)))))["results"]["per_mlp"][0]
    assert row["error_code"] == "PREDICT_ERROR"
    assert row["error"]["message"] == "ValueError: the estimator's own words"
    assert "in broken" in row["traceback"]
    assert row["flops_used"] == 0


def test_non_finite_answer_is_an_error_with_its_cost() -> None:
    def poisoned(mlp: MLPView) -> Array:
        return mlp.weights.sum(axis=1).at[0, 0].set(jnp.nan)

    row = strict(report_of(make_case(predict(Plugin(poisoned)))))["results"]["per_mlp"][0]
    assert row["error_code"] == "NON_FINITE"
    assert f"1 of {DEPTH * WIDTH}" in row["error"]["message"]
    assert row["flops_used"] >= DEPTH * WIDTH * (WIDTH - 1)
    assert row["wall_time_s"] > 0


def test_host_code_can_not_be_metered() -> None:
    def escaping(mlp: MLPView) -> Array:
        shape = jax.ShapeDtypeStruct((DEPTH, WIDTH), jnp.float32)
        return jax.pure_callback(lambda w: np.zeros((DEPTH, WIDTH), np.float32), shape, mlp.weights)

    row = strict(report_of(make_case(predict(Plugin(escaping)))))["results"]["per_mlp"][0]
    assert row["error_code"] == "UNMETERABLE"
    assert "pure_callback" in row["error"]["message"]


def test_failed_setup_of_every_mlp_is_reported() -> None:
    failure = Failure("SETUP_ERROR", "RuntimeError: no table", "Traceback …")
    report = report_of(*(make_case(Prediction(None, Cost(()), failure=failure), i) for i in range(2)))
    results = strict(report)["results"]
    assert report.has_errors
    assert [row["error_code"] for row in results["per_mlp"]] == ["SETUP_ERROR"] * 2
    assert results["n_failed_mlps"] == results["failure_breakdown"]["error"] == 2
    assert results["score"] is not None


def test_refused_program_reports_its_flops_and_is_no_error() -> None:
    report = report_of(make_case(predict(Plugin(labelled), budget=10)), limits=replace(LIMITS, budget=10))
    row = strict(report)["results"]["per_mlp"][0]
    assert row["flops_used"] == row["effective_compute"] > 10
    assert row["budget_exhausted"]
    assert not row["combined_budget_exhausted"]
    assert not report.has_errors
    assert "error_code" not in row


@pytest.mark.parametrize(
    ("prediction", "flag"),
    [
        (Prediction(None, Cost((Charge("", "dot_general", 2 * 10**6, 1),))), "budget_exhausted"),
        (answered(Timing(backend_time_s=61.0)), "time_exhausted"),
        (answered(Timing(residual_wall_time_s=0.5)), "residual_wall_time_exhausted"),
        (answered(Timing(residual_wall_time_s=0.1)), "combined_budget_exhausted"),
    ],
    ids=FAILURES[:4],
)
def test_exhausted_row_says_why_it_has_no_prediction(prediction: Prediction, flag: str) -> None:
    """`traceback` is null on clean rows only: the diagnosis of a zeroed one stays visible, residual time's too."""
    limits = Limits(BUDGET, 1e8, 60.0, 0.4)
    row = strict(report_of(make_case(prediction), limits=limits))["results"]["per_mlp"][0]
    assert row[flag]
    assert row["traceback"], "a zeroed row must say why"


def test_a_breakdown_is_the_same_whether_cases_share_their_charges() -> None:
    def charges(timing: Timing | None = None) -> tuple[Charge, ...]:
        return Charge("a", "dot", 10, 2, timing), Charge("", "add", 3, 1, timing), Charge("a", "exp", 5, 1, timing)

    for timing in (None, Timing(1.0, 2.0, 3.0)):
        one, other = charges(timing), (*charges(timing)[:1], Charge("b", "dot", 7, 1, timing))
        shared = estimator_breakdown([one, one, other, one], [Timing()] * 4)
        apart = estimator_breakdown([charges(timing), charges(timing), other, charges(timing)], [Timing()] * 4)
        assert json.dumps(shared) == json.dumps(apart)
        assert shared["flops_used"] == 3 * 18 + 17
        assert shared["by_namespace"]["estimator.a"]["operations"]["dot"]["calls"] == 8
