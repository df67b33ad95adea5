"""WhestBench estimators here, beside the peer's own subprocess runner: the same figures, flags and codes."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whest import api
from whest.cases.whitebox import WhiteboxCase
from whest.dataset.stored import FileDataset
from whest.estimator.contract import SetupContext
from whest.estimator.spec import estimator_spec
from whest.isolation import peer as peer_runner
from whest.isolation.choose import Isolation, open_runner
from whest.limits import Limits, WorkerLimits
from whest.scoring.whest import WhestCase, WhestRule
from whest.tasks.whitebox.baseline import peer_flops_per_sample
from whest.whestbench.checks import find_problems
from whest.whestbench.reports import read_peer_report

pytestmark = pytest.mark.slow
WIDTH, DEPTH, BUDGET = 16, 4, 10**6
PATIENCE_S = 3.0
RUN = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import whestbench
from whestbench.cli import _run_estimator_with_runner
from whestbench.runner import EstimatorEntrypoint, RunnerError, SubprocessRunner
from whestbench.scoring import ContestSpec, make_contest_from_dataset

asked = json.loads(Path(sys.argv[1]).read_text())
found = {}
for name, case in asked["cases"].items():
    dataset = whestbench.load_dataset(asked["dataset"])
    said = whestbench.metadata(dataset)
    spec = ContestSpec(said["width"], said["depth"], said["n_mlps"], ground_truth_samples=10, **case["rules"])
    try:
        found[name] = _run_estimator_with_runner(
            SubprocessRunner(), entrypoint=EstimatorEntrypoint(Path(case["path"]).resolve()), contest_spec=spec,
            n_mlps=said["n_mlps"], profile=False, detail="raw", output_format="json",
            contest_data=make_contest_from_dataset(spec, dataset, said["n_mlps"]),
        )
    except RunnerError as error:
        found[name] = {"setup": error.detail.code}
Path(sys.argv[2]).write_text(json.dumps(found))
"""
HEAD = """
import os, sys, time
import flopscope as flops
import flopscope.numpy as fnp
from whestbench import BaseEstimator


def zeros(mlp):
    return fnp.zeros((mlp.depth, mlp.width))


class Estimator(BaseEstimator):
    def predict(self, mlp, budget):
"""
BUNDLED = """
from whestbench.estimators import {0}


class Estimator({0}):
    pass
"""
FOLDER = """
from pathlib import Path

import flopscope as flops
import flopscope.numpy as fnp
from helper import shift
from whestbench import BaseEstimator


class Estimator(BaseEstimator):
    def setup(self, ctx):
        self.offset = float(fnp.load(Path(ctx.submission_dir) / "offset.npy")[0])
        self.seed, self.version = ctx.seed, ctx.api_version

    def predict(self, mlp, budget):
        with flops.namespace("draw"):
            with flops.namespace("normals"):
                noise = fnp.random.default_rng(mlp.seed + self.seed).standard_normal((mlp.depth, mlp.width))
        return shift(noise, self.offset) + float(self.version)
"""


@dataclass(frozen=True)
class Submission:
    """A file's `predict`, and the rules that it is run under."""

    body: str
    rules: dict[str, Any] = field(default_factory=dict)
    codes: str | None = None
    """The result that the test expects of both; None to expect the peer's result."""


SUBMISSIONS = {
    "raises": Submission("raise RuntimeError('no')", codes="PREDICT_ERROR"),
    "raises on some": Submission("assert mlp.seed % 2, 'even'\nreturn zeros(mlp)"),
    "transposed": Submission("return zeros(mlp).T", codes="PREDICT_ERROR"),
    "no array": Submission("return [[0.0] * mlp.width] * mlp.depth", codes="PREDICT_ERROR"),
    "NaN": Submission("return zeros(mlp) * fnp.nan", codes="PREDICT_ERROR"),
    "infinite": Submission("return zeros(mlp) + 1e300", codes="PREDICT_ERROR"),
    "over budget": Submission("for _ in range(1000):\n    h = mlp.weights[0] @ mlp.weights[1]\nreturn zeros(mlp)"),
    "caught budget": Submission(
        "try:\n    while True:\n        h = mlp.weights[0] @ mlp.weights[1]\n"
        "except flops.BudgetExhaustedError:\n    return zeros(mlp)"
    ),
    "late": Submission("time.sleep(1.5)\nreturn zeros(mlp)", {"wall_time_limit_s": 1.0}),
    "late without an operation": Submission(
        "answer = zeros(mlp)\ntime.sleep(1.5)\nreturn answer", {"wall_time_limit_s": 1.0}
    ),
    "hangs": Submission("if not mlp.seed % 2: time.sleep(10**6)\nreturn zeros(mlp)", {"wall_time_limit_s": 2.0}),
    "residual": Submission("time.sleep(0.5)\nreturn zeros(mlp)", {"residual_wall_time_limit_s": 0.3}),
    "combined": Submission("time.sleep(0.3)\nreturn zeros(mlp)", {"lambda_flops_per_second": 1e7}),
    "residual and combined": Submission(
        "time.sleep(0.5)\nreturn zeros(mlp)",
        {"residual_wall_time_limit_s": 0.3, "lambda_flops_per_second": 1e7},
    ),
    "dies": Submission("if mlp.seed % 2: os._exit(3)\nreturn zeros(mlp)"),
    "exits": Submission("sys.exit(0)", codes="WORKER_EOF"),
    "crashes": Submission("import ctypes\nctypes.string_at(0)", codes="WORKER_EOF"),
    "too large": Submission("return fnp.zeros((30000, 30000))", {"memory_limit_mb": 6000}, "PREDICT_ERROR"),
    "over budget at once": Submission("return fnp.ones((3000, 3000))"),
}
SETUPS = {
    "setup raises": "raise ValueError('no')",
    "setup hangs": "time.sleep(10**6)",
    "setup dies": "os._exit(3)",
}
DEFAULTS = {
    "flop_budget": BUDGET,
    "wall_time_limit_s": 60.0,
    "residual_wall_time_limit_s": None,
    "lambda_flops_per_second": 0.0,
    "memory_limit_mb": 8192,
    "setup_timeout_s": 300.0,
    "predict_timeout_s": PATIENCE_S,
    "seed": 11,
}
FLAGS = ("budget_exhausted", "time_exhausted", "residual_wall_time_exhausted", "combined_budget_exhausted")


def indented(body: str) -> str:
    return "".join(f"        {line}\n" for line in body.splitlines())


def with_setup(body: str) -> str:
    return f"{HEAD}        return zeros(mlp)\n\n    def setup(self, ctx):\n{indented(body)}"


@dataclass(frozen=True)
class Both:
    """The paths of all parts, and the peer's results."""

    paths: dict[str, Path]
    rules: dict[str, dict[str, Any]]
    dataset: Path
    python: Path
    theirs: dict[str, Any]


@pytest.fixture(scope="module")
def both(peer_path: Path, peer_in: Any, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Every submission on disk, the peer's own dataset, and its subprocess runner's reports on them."""
    folder = tmp_path_factory.mktemp("peer")
    peer = peer_in(folder)
    peer("whest", "init", folder / "starter")
    (folder / "whole").mkdir()
    (folder / "whole" / "estimator.py").write_text(FOLDER)
    (folder / "whole" / "helper.py").write_text("def shift(values, offset):\n    return values * 0.1 + offset\n")
    sources = {name: HEAD + indented(submission.body) for name, submission in SUBMISSIONS.items()}
    sources |= {name: with_setup(body) for name, body in SETUPS.items()}
    sources["mean"] = BUNDLED.format("MeanPropagationEstimator")
    sources["covariance"] = BUNDLED.format("CovariancePropagationEstimator")
    paths = {"starter": folder / "starter" / "estimator.py", "whole": folder / "whole" / "estimator.py"}
    for name, source in sources.items():
        paths[name] = folder / f"{name.replace(' ', '_')}.py"
        paths[name].write_text(source)
    np.save(folder / "whole" / "offset.npy", np.array([0.25]))
    (folder / "seeds.json").write_text("[4, 5, 7]")
    shape = ["--n-mlps", 3, "--width", WIDTH, "--depth", DEPTH, "--n-samples", 2000]
    peer("whest", "dataset", "bake", *shape, "--mlp-seeds", folder / "seeds.json", "--output", folder / "dataset")
    rules = {name: DEFAULTS | (SUBMISSIONS[name].rules if name in SUBMISSIONS else {}) for name in paths}
    rules["setup hangs"] = DEFAULTS | {"setup_timeout_s": 4.0}
    cases = {name: {"path": str(path), "rules": rules[name]} for name, path in paths.items()}
    (folder / "asked.json").write_text(json.dumps({"dataset": str(folder / "dataset"), "cases": cases}))
    peer("python", "-c", RUN, folder / "asked.json", folder / "found.json")
    return Both(paths, rules, folder / "dataset", peer_path, json.loads((folder / "found.json").read_text()))


def ours(both: Both, name: str, tmp_path: Path, path: Path | None = None) -> list[tuple[WhiteboxCase, WhestCase]]:
    """The same submission under the same rules, by our runner and our rule."""
    rules = both.rules[name]
    source = path or both.paths[name]
    node = {"name": "whestbench", "mode": "flopscope", "path": str(source), "python": str(both.python)}
    spec = estimator_spec(node)
    dataset = FileDataset(str(both.dataset)).load()
    limits = Limits(
        BUDGET,
        rules["lambda_flops_per_second"],
        rules["wall_time_limit_s"],
        rules["residual_wall_time_limit_s"],
    )
    context = SetupContext(
        WIDTH, DEPTH, BUDGET, limits.lam, limits.wall_time_limit_s, limits.residual_wall_time_limit_s, rules["seed"],
        "", spec.submission_dir,
    )  # fmt: skip
    worker = WorkerLimits(limits.wall_time_limit_s, rules["setup_timeout_s"], rules["memory_limit_mb"])
    found = []
    with open_runner(Isolation("auto", False), spec, context, worker, [both.dataset], tmp_path) as runner:
        for row in dataset.rows:
            assert row.truth is not None
            case = WhiteboxCase(row.index, row.name, row.truth, runner.predict(dataset.mlp(row)), None)
            scored = WhestRule(0.1).score_case(case, limits, peer_flops_per_sample(WIDTH, DEPTH))
            found.append((case, scored))
    return found


def assert_same_figures(theirs: dict[str, Any], case: WhiteboxCase, scored: WhestCase) -> None:
    assert case.name == theirs["mlp_name"]
    assert case.prediction.cost.flops == theirs["flops_used"]
    assert scored.final_layer_mse == pytest.approx(theirs["final_layer_mse"], rel=1e-6)
    assert scored.all_layers_mse == pytest.approx(theirs["all_layers_mse"], rel=1e-6)
    assert scored.per_layer_mse == pytest.approx(theirs["per_layer_mse"], rel=1e-6)
    assert scored.adjusted_final_layer_score == pytest.approx(theirs["adjusted_final_layer_score"], rel=1e-6)


@pytest.mark.parametrize("name", ["starter", "mean", "covariance", "whole"])
def test_submissions_run_as_they_are(both: Both, name: str, tmp_path: Path) -> None:
    """The peer's starter template, its two bundled estimators, and a folder with a helper, a data file and seeds."""
    rows = both.theirs[name]["results"]["per_mlp"]
    for row, (case, scored) in zip(rows, ours(both, name, tmp_path), strict=True):
        assert not scored.failed
        assert_same_figures(row, case, scored)
        assert case.prediction.flags is not None
        operations = row["breakdowns"]["estimator"]["by_namespace"]
        told = {
            (f"estimator.{charge.namespace or 'estimator-client'}", charge.operation): (charge.flops, charge.calls)
            for charge in case.prediction.cost.charges
        }
        assert told == {
            (namespace, operation): (figures["flop_cost"], figures["calls"])
            for namespace, bucket in operations.items()
            for operation, figures in bucket["operations"].items()
        }


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_failures_have_the_peers_flags_and_codes(
    both: Both, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_runner, "PATIENCE_S", PATIENCE_S)
    rows = both.theirs[name]["results"]["per_mlp"]
    found = ours(both, name, tmp_path)
    for row, (case, scored) in zip(rows, found, strict=True):
        failure = case.prediction.failure
        assert {flag: getattr(scored.flags, flag) for flag in FLAGS} == {flag: row[flag] for flag in FLAGS}
        assert (failure.code if failure else None) == row.get("error_code")
        assert scored.final_layer_mse == pytest.approx(row["final_layer_mse"], rel=1e-6)
        assert scored.failed == (failure is not None or scored.flags.any)
        if failure is None:  # the peer says B where the first operation was one too many
            assert case.prediction.cost.flops == (0 if name == "over budget at once" else row["flops_used"])
        if isinstance(row.get("error"), dict):
            assert failure is not None
            assert failure.shape is not None
            assert list(failure.shape.got_shape) == row["error"]["details"]["got_shape"]
            assert failure.shape.hint == row["error"]["details"]["hint"]
    codes = SUBMISSIONS[name].codes
    assert any(scored.failed for _, scored in found) or name == "caught budget"
    if codes is not None:
        assert {row.get("error_code") for row in rows} == {codes}


@pytest.mark.parametrize("name", SETUPS)
def test_a_failed_setup_fails_every_mlp_with_the_peers_code(both: Both, name: str, tmp_path: Path) -> None:
    """The peer gives up without a report; here every MLP has the code."""
    codes = [case.prediction.failure and case.prediction.failure.code for case, _ in ours(both, name, tmp_path)]
    assert codes == [both.theirs[name]["setup"]] * 3


def test_a_run_from_the_command_line(both: Both, tmp_path: Path) -> None:
    """The folder itself; report, breakdowns, versions in the protocol, protections, and the answers out of reach."""
    overrides = [
        "estimator=whestbench", f"estimator.path={both.paths['whole'].parent}", f"estimator.python={both.python}",
        "dataset=file", f"dataset.path={both.dataset}", f"budget={BUDGET}", "lam=0", "seed=11", "tracking=none",
        f"outputs_dir={tmp_path / 'outputs'}",
    ]  # fmt: skip
    report = api.score(api.compose(*overrides), tmp_path / "run").to_json()
    theirs = both.theirs["whole"]["results"]
    assert report["results"]["final_layer_mse"] == pytest.approx(theirs["final_layer_mse"], rel=1e-6)
    namespaces = report["results"]["breakdowns"]["estimator"]["by_namespace"]
    expected = theirs["breakdowns"]["estimator"]["by_namespace"]
    assert {name: part["flops_used"] for name, part in namespaces.items()} == {
        name: part["flops_used"] for name, part in expected.items()
    }
    assert "estimator.draw.normals" in namespaces
    meter = report["run_meta"]["protocol"]["meter"]
    assert meter["name"] == "flopscope"
    assert meter["version"] == both.theirs["whole"]["run_meta"]["host"]["flopscope_version"]
    for row in report["results"]["per_mlp"]:
        parts = [row[name] for name in ("backend_time_s", "overhead_time_s", "residual_wall_time_s")]
        assert row["wall_time_s"] == pytest.approx(sum(parts))
        assert all(part >= 0 for part in parts)
        assert row["overhead_time_s"] > 0


@pytest.mark.parametrize("name", ["starter", "mean", "covariance", "whole", *SUBMISSIONS])
def test_the_peers_own_reports_hold_together(both: Both, name: str, tmp_path: Path) -> None:
    """The checks of `job=import` hold for whestbench's reports, whatever the estimator did."""
    (tmp_path / "report.json").write_text(json.dumps(both.theirs[name]))
    found = read_peer_report(tmp_path / "report.json")
    assert (found.schema, len(found.rows)) == ("1.1", 3)
    assert find_problems(found) == []


SPY = """
import os
from pathlib import Path
import flopscope.numpy as fnp
from whestbench import BaseEstimator


class Estimator(BaseEstimator):
    def predict(self, mlp, budget):
        print("seen:", sorted(os.listdir(HIDDEN)), "name:", repr(mlp.name))
        return fnp.zeros((mlp.depth, mlp.width))
"""


def test_answers_are_hidden_and_what_is_printed_is_kept(both: Both, tmp_path: Path) -> None:
    spy = tmp_path / "spy.py"
    spy.write_text(f"HIDDEN = {str(both.dataset)!r}\n{SPY}")
    found = ours(both, "starter", tmp_path, spy)
    assert [case.prediction.output.strip() for case, _ in found] == ["seen: [] name: ''"] * 3


def test_the_price_of_a_sample_is_the_peers(peer: Any) -> None:
    code = "from whestbench.budget import mc_flops_per_sample as f; print(f(256, 8, dtype_aware_billing=True))"
    assert float(peer("python", "-c", code)) == peer_flops_per_sample(256, 8)
