"""Run an estimator's source in a real worker, for the tests of hostile code."""

import contextlib
from dataclasses import replace
from pathlib import Path

from whest.cases.prediction import Prediction
from whest.cases.whitebox import WhiteboxCase
from whest.dataset.sources import FreshDataset
from whest.estimator.contract import SetupContext
from whest.estimator.spec import EstimatorSpec
from whest.isolation.choose import Isolation, open_runner
from whest.limits import Limits, WorkerLimits
from whest.scoring.whest import WhestCase, WhestRule
from whest.truth.plain import PlainTruth

WIDTH, DEPTH = 16, 3
BUDGET = 10**8
MATMUL = 2 * WIDTH**3
DATASET = FreshDataset(width=WIDTH, depth=DEPTH, seed=7, n_mlps=4).load()
LIMITS = WorkerLimits(wall_time_limit_s=20.0, setup_timeout_s=60.0, memory_limit_mb=None)


def spec_of(source: str, folder: Path, mode: str = "traced") -> EstimatorSpec:
    path = folder / "submission.py"
    path.write_text(source)
    return EstimatorSpec("file", mode, None, path, {})  # type: ignore[arg-type]


def context(budget: int = BUDGET) -> SetupContext:
    return SetupContext(WIDTH, DEPTH, budget, 1e11, 20.0, None, 0, ".", None)


@contextlib.contextmanager
def worker(source, folder, mode="traced", fresh=False, hidden=(), budget=BUDGET, **limits):
    """A runner with the source in its own worker."""
    spec = spec_of(source, folder, mode)
    isolation = Isolation("process", fresh)
    with open_runner(isolation, spec, context(budget), replace(LIMITS, **limits), hidden, folder / "xla") as runner:
        yield runner


def predict(source, folder, n_mlps=1, **options) -> list[Prediction]:
    """A worker's answers for the first MLPs."""
    with worker(source, folder, **options) as runner:
        return [runner.predict(DATASET.mlp(row)) for row in DATASET.rows[:n_mlps]]


def score(prediction: Prediction, wall_time_limit_s: float = 20.0, budget: int = BUDGET) -> WhestCase:
    """The case as the rule sees it."""
    *_, moments = PlainTruth(2000).stream(DATASET.mlp(DATASET.rows[0]))
    case = WhiteboxCase(0, "x", moments.truth(), prediction, None)
    return WhestRule(0.1).score_case(case, Limits(budget, 1e11, wall_time_limit_s, None), 1e4)
