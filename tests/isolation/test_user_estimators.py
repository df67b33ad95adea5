"""A user's estimators: by file, by import path and by the user's config; and the failures of faulty ones."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.tasks.whitebox.build import setup_seed

Whest = Callable[..., Any]
TINY = ("debug=tiny", "truth=plain")
HEADER = "import json\nimport pathlib\nimport sys\n\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\n\n\n"
IN_PROCESS = "isolation=none"
FLAGS = ("budget_exhausted", "time_exhausted", "residual_wall_time_exhausted", "combined_budget_exhausted")


def predicting(body: str) -> str:
    return f"{HEADER}class Estimator:\n    def predict(self, mlp, budget):\n        {body}\n"


WELL = "return jnp.zeros((mlp.depth, mlp.width))"
CALLBACK = (
    "return jax.pure_callback(lambda w: np.zeros(w.shape[:2], np.float32), "
    "jax.ShapeDtypeStruct((mlp.depth, mlp.width), jnp.float32), mlp.weights)"
)
FAULTY = {
    "swapped axes": (predicting("return jnp.zeros((mlp.width, mlp.depth))"), "BAD_SHAPE", "(16, 3)"),
    "nan": (predicting("return jnp.full((mlp.depth, mlp.width), jnp.nan)"), "NON_FINITE", "48 of 48"),
    "raises": (predicting("raise ValueError('my own trouble')"), "PREDICT_ERROR", "my own trouble"),
    "host callback": (predicting(CALLBACK), "UNMETERABLE", "pure_callback"),
    "setup raises": (
        predicting(WELL) + "\n    def setup(self, context):\n        raise RuntimeError('no licence')\n",
        "SETUP_ERROR",
        "no licence",
    ),
    "no class": ("class Estimatr:\n    pass\n", "SETUP_ERROR", "defines no class Estimator"),
    "syntax error": ("class Estimator(:\n", "SETUP_ERROR", "SyntaxError"),
    "one layer": (predicting("return jnp.zeros(mlp.width)"), "BAD_SHAPE", "(16,)"),
    "infinite": (predicting(f"{WELL}.at[0, 0].set(jnp.inf)"), "NON_FINITE", "1 of 48"),
    "returns nothing": (predicting("pass"), "PREDICT_ERROR", "None"),
    "whole numbers": (predicting("return jnp.zeros((mlp.depth, mlp.width), int)"), "PREDICT_ERROR", "int32"),
    "looks into a tracer": (predicting(f"if mlp.weights.sum() > 0:\n            {WELL}"), "PREDICT_ERROR", "Tracer"),
    "exits": (predicting("sys.exit(0)"), "PREDICT_ERROR", "SystemExit"),
    "no predict": (f"{HEADER}class Estimator:\n    pass\n", "PREDICT_ERROR", "predict"),
    "no class but a name": ("Estimator = 3\n", "SETUP_ERROR", "defines no class Estimator"),
    "constructor raises": (
        predicting(WELL) + "\n    def __init__(self):\n        raise OSError('no table')\n",
        "SETUP_ERROR",
        "no table",
    ),
    "import fails": ("import no_such_module\n", "SETUP_ERROR", "no_such_module"),
}


@pytest.fixture
def score_file(whest: Whest, tmp_path: Path) -> Whest:
    """Score an estimator given as source text on two small MLPs."""

    def score(source: str, *overrides: str) -> Any:
        (tmp_path / "mine.py").write_text(source)
        return whest(*TINY, "estimator=file", "estimator.path=mine.py", *overrides)

    return score


def assert_failed(outcome: Any, code: str, words: str) -> None:
    """Exit code 1, the reason on the screen and in the report, and every MLP scored as failed."""
    assert outcome.exit_code == 1, outcome.err
    assert "Traceback" not in outcome.err
    is_set_up = code != "SETUP_ERROR"
    said = outcome.out if is_set_up else outcome.err
    assert f"{code}: " in said
    assert words in " ".join(said.split())
    results = outcome.report["results"]
    assert results["n_failed_mlps"] == results["failure_breakdown"]["error"] == len(results["per_mlp"]) == 2
    assert results["score"] == results["final_layer_mse"] > 0
    for row in results["per_mlp"]:
        assert row["error_code"] == code
        assert words in row["error"]["message"]
        assert row["traceback"]
        assert row["adjusted_final_layer_score"] == row["final_layer_mse"]
        assert row["score_multiplier"] == 1
        assert not any(row[flag] for flag in FLAGS)
    assert (outcome.folder / "config.yaml").exists()
    assert (outcome.folder / "report.html").exists() == is_set_up
    assert ("final-layer MSE" in outcome.out) == is_set_up


@pytest.mark.parametrize("fault", ["raises", "nan", "setup raises"])
def test_a_faulty_estimator_is_reported_and_exits_1(score_file: Whest, fault: str) -> None:
    source, code, words = FAULTY[fault]
    assert_failed(score_file(source), code, words)


@pytest.mark.parametrize("fault", ["syntax error", "import fails"])
def test_a_file_that_cannot_be_imported_ends_the_run_before_truth_is_drawn(score_file: Whest, fault: str) -> None:
    source, code, words = FAULTY[fault]
    outcome = score_file(source, IN_PROCESS)
    assert outcome.exit_code == 1
    assert f"{code}: " in outcome.err
    assert words in outcome.err
    assert "Traceback" not in outcome.err
    assert not [name for name in outcome.files if name.endswith(("report.json", ".npz"))]


@pytest.mark.parametrize("fault", [fault for fault in FAULTY if fault not in ("syntax error", "import fails")])
def test_a_faulty_estimator_in_our_own_process_does_no_more_harm(score_file: Whest, fault: str) -> None:
    source, code, words = FAULTY[fault]
    assert_failed(score_file(source, IN_PROCESS), code, words)


def test_a_failed_mlp_scores_as_zeros_and_its_traceback_leads_to_the_users_line(
    score_file: Whest, whest: Whest
) -> None:
    failed = score_file(FAULTY["raises"][0], IN_PROCESS, "hydra.run.dir=failed").report["results"]
    zeros = whest(*TINY, "estimator=zeros", "hydra.run.dir=zeros").report["results"]
    assert failed["per_layer_mse"] == zeros["per_layer_mse"]
    assert failed["score"] == pytest.approx(10 * zeros["score"])
    (trace,) = {row["traceback"] for row in failed["per_mlp"]}
    assert 'mine.py", line 12, in predict' in trace


@pytest.mark.parametrize("isolation", [IN_PROCESS, "isolation=process"])
def test_an_error_shows_the_users_line_and_a_tracer_error_what_to_do(score_file: Whest, isolation: str) -> None:
    outcome = score_file(FAULTY["looks into a tracer"][0], isolation, "dataset.n_mlps=1")
    assert 'mine.py", line 12, in predict: if mlp.weights.sum() > 0:' in outcome.out
    assert "lax.cond" in outcome.out
    assert "estimator.mode=eager" in outcome.out
    error = outcome.report["results"]["per_mlp"][0]["error"]
    assert error["exception"] == "TracerBoolConversionError"
    assert error["where"].endswith("if mlp.weights.sum() > 0:")


def test_a_file_that_can_not_be_imported_gives_one_error(score_file: Whest) -> None:
    outcome = score_file("import jax\n\nclass Estimator(:\n    pass\n", IN_PROCESS)
    assert outcome.exit_code == 1
    (said,) = [line for line in outcome.err.splitlines() if "SyntaxError" in line]
    assert "SETUP_ERROR: SyntaxError" in said
    assert 'mine.py", line 3: class Estimator(:' in outcome.err
    assert "SyntaxError" not in outcome.out
    assert "score" not in outcome.out.replace("scores are comparable", "")


def test_an_eager_run_that_was_stopped_midway_was_run(score_file: Whest) -> None:
    spending = predicting(f"sum(mlp.weights[0] @ mlp.weights[0] for _ in range(9))\n        {WELL}")
    outcome = score_file(spending, IN_PROCESS, "estimator.mode=eager", "budget=20000", "dataset.n_mlps=1")
    assert "it was stopped at" in outcome.out
    assert "it has no answer" in outcome.out
    assert "it was not run" not in outcome.out
    assert "1 of 1 MLP failed" in outcome.out


def test_a_wrong_shape_comes_with_what_was_expected_and_a_hint(score_file: Whest) -> None:
    outcome = score_file(FAULTY["swapped axes"][0], IN_PROCESS)
    for row in outcome.report["results"]["per_mlp"]:
        details = row["error"]["details"]
        assert details["expected_shape"] == [3, 16]
        assert details["got_shape"] == [16, 3]
        assert any("swapped" in hint for hint in details["cause_hints"])
        assert details["hint"]
    assert "hint: the axes are swapped" in outcome.out


def test_one_bad_mlp_does_not_spoil_the_others(score_file: Whest) -> None:
    odd_seeds = "jnp.where(mlp.seed % 2 == 1, jnp.nan, 0.5) * jnp.ones((mlp.depth, mlp.width))"
    outcome = score_file(predicting(f"return {odd_seeds}"), IN_PROCESS, "dataset.n_mlps=6")
    assert outcome.exit_code == 1, outcome.err
    results = outcome.report["results"]
    failed = [row for row in results["per_mlp"] if "error_code" in row]
    fine = [row for row in results["per_mlp"] if "error_code" not in row]
    assert 0 < len(failed) < 6
    assert results["n_failed_mlps"] == results["failure_breakdown"]["error"] == len(failed)
    assert {row["error_code"] for row in failed} == {"NON_FINITE"}
    assert {row["score_multiplier"] for row in fine} == {0.1}
    assert {row["traceback"] for row in fine} == {None}
    scores = [row["adjusted_final_layer_score"] for row in results["per_mlp"]]
    assert results["score"] == pytest.approx(sum(scores) / 6)


def test_over_budget_is_a_score_and_exits_0(score_file: Whest) -> None:
    chain = "h = mlp.weights[0]\n        for w in mlp.weights:\n            h = h @ w\n        return h[: mlp.depth]"
    outcome = score_file(predicting(chain), IN_PROCESS, "budget=1000")
    assert outcome.exit_code == 0, outcome.err
    results = outcome.report["results"]
    assert results["n_failed_mlps"] == results["failure_breakdown"]["budget_exhausted"] == 2
    assert results["failure_breakdown"]["error"] == 0
    for row in results["per_mlp"]:
        assert row["flops_used"] == row["effective_compute"] == 3 * 2 * 16**3
        assert [flag for flag in FLAGS if row[flag]] == ["budget_exhausted"]
        assert row["adjusted_final_layer_score"] == row["final_layer_mse"]
        assert "error_code" not in row
    assert "2 of 2 MLPs failed (budget exhausted 2)" in outcome.out
    assert "hint: the limit is budget: raise it" in outcome.out


def test_a_program_of_exactly_the_budget_passes(score_file: Whest) -> None:
    outcome = score_file(predicting("return (mlp.weights[0] @ mlp.weights[1])[: mlp.depth]"), IN_PROCESS, "budget=8192")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.report["results"]["n_failed_mlps"] == 0
    assert outcome.report["results"]["mean_score_multiplier"] == 1


KNOBS = f"""{HEADER}class Estimator:
    def __init__(self, level: float = 0.0, name_it: str = "plain"):
        self.level = level

    def predict(self, mlp, budget):
        return jnp.full((mlp.depth, mlp.width), self.level)
"""


def test_knobs_reach_the_constructor_and_the_report(score_file: Whest, tmp_path: Path) -> None:
    (tmp_path / "my_tables.py").write_text("UNIT = 1.0\n")
    source = f"from my_tables import UNIT\n{KNOBS.replace('self.level = level', 'self.level = level * UNIT')}"
    plain = score_file(source, IN_PROCESS, "hydra.run.dir=plain")
    raised = score_file(source, "+estimator.level=0.5", "+estimator.name_it=special", "hydra.run.dir=raised")
    assert (plain.exit_code, raised.exit_code) == (0, 0), raised.err
    before, after = plain.report, raised.report
    assert before["run_config"]["estimator"]["knobs"] == {}
    assert after["run_config"]["estimator"]["knobs"] == {"level": 0.5, "name_it": "special"}
    assert after["results"]["final_layer_mse"] != before["results"]["final_layer_mse"]
    (digest,) = {report["run_config"]["estimator"]["source_sha256"] for report in (before, after)}
    assert digest == hashlib.sha256(source.encode()).hexdigest()


def test_a_knob_that_the_constructor_does_not_take_is_named(score_file: Whest) -> None:
    assert_failed(score_file(KNOBS, IN_PROCESS, "+estimator.levle=1"), "SETUP_ERROR", "estimator.levle is not a key")


PREPARED = f"""{HEADER}class Estimator:
    def setup(self, context):
        assert pathlib.Path(context.submission_dir).is_dir()
        names = "width depth flop_budget lam wall_time_limit_s residual_wall_time_limit_s seed".split()
        told = {{name: getattr(context, name) for name in names}}
        print("told", json.dumps(told))
        np.save(pathlib.Path(context.scratch_dir) / "table.npy", np.zeros((context.depth, context.width), np.float32))
        self.table = np.load(pathlib.Path(context.scratch_dir) / "table.npy")

    def predict(self, mlp, budget):
        return jnp.asarray(self.table)

    def teardown(self):
        print("torn down")
"""


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_setup_is_told_the_rules_has_scratch_space_and_is_torn_down(
    score_file: Whest, tmp_path: Path, isolation: str
) -> None:
    outcome = score_file(PREPARED, "budget=1e6", "lam=5", "seed=7", f"isolation={isolation}")
    assert outcome.exit_code == 0, outcome.out
    printed = outcome.out + (outcome.report["results"]["per_mlp"][0]["output"] or "")
    (told,) = [line.removeprefix("told ") for line in printed.splitlines() if line.startswith("told ")]
    assert json.loads(told) == {
        "width": 16,
        "depth": 3,
        "flop_budget": 1_000_000,
        "lam": 5,
        "wall_time_limit_s": 60,
        "residual_wall_time_limit_s": None,
        "seed": setup_seed(7),
    }
    assert "torn down" in printed


MINE = KNOBS.replace("class Estimator", "class Mine")


def test_an_estimator_by_import_path_from_the_current_folder(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "my_estimators.py").write_text(MINE)
    outcome = whest(*TINY, "estimator._target_=my_estimators.Mine", "+estimator.level=0.5")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.report["run_config"]["estimator"]["target"] == "my_estimators.Mine"
    assert outcome.report["run_config"]["estimator"]["knobs"] == {"level": 0.5}


@pytest.fixture
def own_configs(tmp_path: Path) -> Path:
    (tmp_path / "my_estimators.py").write_text(MINE)
    folder = tmp_path / "my_conf"
    (folder / "estimator").mkdir(parents=True)
    (folder / "estimator" / "mine.yaml").write_text("# ours\n_target_: my_estimators.Mine\nlevel: 0.5\n")
    return folder


def test_a_config_of_ones_own(whest: Whest, own_configs: Path) -> None:
    outcome = whest("--config-dir", str(own_configs), *TINY, "estimator=mine", IN_PROCESS)
    assert outcome.exit_code == 0, outcome.err
    estimator = outcome.report["run_config"]["estimator"]
    assert (estimator["name"], estimator["knobs"]) == ("mine", {"level": 0.5})


def test_a_config_of_ones_own_joins_the_choices(whest: Whest, own_configs: Path) -> None:
    outcome = whest("--config-dir", str(own_configs), *TINY, "estimator=mien")
    assert outcome.exit_code == 2
    assert {"mine", "cov_prop"} <= set(outcome.err.split())


def test_a_typo_in_a_config_of_ones_own_is_told_the_nearest_key(whest: Whest, own_configs: Path) -> None:
    outcome = whest("--config-dir", str(own_configs), *TINY, "estimator=mine", "estimator.levl=1")
    assert outcome.exit_code == 2
    assert "Did you mean estimator.level?" in outcome.err
