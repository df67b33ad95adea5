"""docs/porting.md: the ported estimator gives the answers of the peer's own, and the prices are those of the page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.places import ROOT
from whest.estimator.contract import SetupContext
from whest.estimator.spec import EstimatorSpec
from whest.isolation.runner import InProcessRunner

pytestmark = pytest.mark.slow
PORTED = ROOT / "docs" / "examples" / "ported_cov_prop.py"
THEIRS = """
import json, sys
import numpy as np, flopscope as flops, flopscope.numpy as fnp
from whestbench.estimators import CovariancePropagationEstimator
from whestbench.domain import MLP
given = np.load(sys.argv[1])
answers, spent = [], []
for weights in given["weights"]:
    depth, width, _ = weights.shape
    mlp = MLP(width=width, depth=depth, weights=[fnp.array(w) for w in weights])
    with flops.BudgetContext(flop_budget=10**13, quiet=True) as budget:
        answers.append(np.asarray(CovariancePropagationEstimator().predict(mlp, 10**13)).tolist())
    spent.append(budget.flops_used)
json.dump({"means": answers, "flops": spent}, sys.stdout)
"""


@pytest.fixture(scope="module")
def peer() -> Path:
    checkouts = [ROOT, Path(sys.prefix).parent]
    found = [place / "outputs" / "peer" / "bin" / "python" for place in checkouts]
    python = next(
        (path for path in [Path(os.environ.get("WHEST_PEER_PYTHON", "absent")), *found] if path.exists()), None
    )
    if python is None:
        pytest.skip("the peer is not installed: make peer")
    return python


def run_peer(python: Path, script: str, *arguments: str | Path) -> str:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run([python, "-c", script, *arguments], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_ported_estimator_answers_as_the_peers_own(peer: Path, tmp_path: Path) -> None:
    from whest.dataset.sources import SuiteDataset

    dataset = SuiteDataset("warmup", n_mlps=3).load()
    mlps = [mlp for mlp, _ in dataset]
    np.savez(tmp_path / "given.npz", weights=np.stack([mlp.weights for mlp in mlps]))
    theirs = json.loads(run_peer(peer, THEIRS, tmp_path / "given.npz"))
    spec = EstimatorSpec("ported", "traced", None, PORTED, {})
    context = SetupContext(256, 8, 68_000_000_000, 1e11, 60.0, None, 0, str(tmp_path / "scratch"), None)
    with InProcessRunner(spec, context) as runner:
        ours = [runner.predict(mlp) for mlp in mlps]
    for prediction, means in zip(ours, theirs["means"], strict=True):
        assert prediction.means is not None, prediction.failure
        np.testing.assert_allclose(prediction.means, np.array(means), rtol=1e-5, atol=1e-6)
    (flops,) = {prediction.cost.flops for prediction in ours}
    said = re.search(r"F is ([\d,]+) here and ([\d,]+) by flopscope", (ROOT / "docs" / "porting.md").read_text())
    assert said is not None
    assert [int(figure.replace(",", "")) for figure in said.groups()] == [flops, theirs["flops"][0]]


def test_the_pages_prices_are_what_both_meters_say_now(peer: Path) -> None:
    command = [sys.executable, "benchmarks/prices.py"]
    if not (ROOT / "outputs" / "peer").exists():
        pytest.skip("the peer is not in this checkout's outputs: make peer")
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    page = (ROOT / "docs" / "porting.md").read_text()
    assert [row for row in ended.stdout.splitlines() if row not in page] == []
