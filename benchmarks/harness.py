"""Our harness against WhestBench's ("peer"): 100 MLPs of 256x8, covariance propagation, in an isolated process.

    python benchmarks/harness.py 1          # number of repeats; one takes four minutes after the peer is installed

Both score the same kind of estimator on the same seeds, and the truth is baked before. So only the harness is timed:
start-up, the worker, metering, scoring, the report. The peer is installed from PyPI into outputs/peer.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

from peer import peer_bin

N_MLPS, WIDTH, DEPTH, SEED, N_SAMPLES = 100, 256, 8, 1, 2000
REPEATS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
PEER_ESTIMATOR = '''"""Covariance propagation in gain form, on the peer's own arrays."""
import flopscope as flops
import flopscope.numpy as fnp
from whestbench import BaseEstimator


class Estimator(BaseEstimator):
    def predict(self, mlp, budget):
        width = mlp.width
        mean, covariance, rows = fnp.zeros(width), fnp.eye(width), []
        for w in mlp.weights:
            mean = w.T @ mean
            covariance = w.T @ covariance @ w
            variance = fnp.maximum(fnp.diag(covariance), 1e-10)
            sigma = fnp.sqrt(variance)
            alpha = mean / sigma
            density = flops.stats.norm.pdf(alpha)
            gain = flops.stats.norm.cdf(alpha)
            first = mean * gain + sigma * density
            second = (mean * mean + variance) * gain + mean * sigma * density
            covariance = covariance * fnp.outer(gain, gain)
            left = fnp.maximum(second - first * first, 0.0) - fnp.diag(covariance)
            covariance = covariance + fnp.diag(left)
            mean = first
            rows.append(mean)
        return fnp.stack(rows, axis=0)
'''


def timed(command: list[str | Path], **options: object) -> tuple[float, str]:
    started = time.monotonic()
    finished = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    elapsed = time.monotonic() - started
    if finished.returncode:
        raise SystemExit(f"{command}: exit {finished.returncode}\n{finished.stdout[-2000:]}\n{finished.stderr[-2000:]}")
    return elapsed, finished.stdout


def main() -> None:
    from whest.dataset.sources import fresh_seeds

    folder = Path(mkdtemp(prefix="whest-harness-"))
    whest = peer_bin() / "whest"
    seeds = folder / "seeds.json"
    seeds.write_text(json.dumps(fresh_seeds(SEED, N_MLPS)))
    (folder / "estimator.py").write_text(PEER_ESTIMATOR)
    sizes = ["--n-mlps", str(N_MLPS), "--width", str(WIDTH), "--depth", str(DEPTH), "--n-samples", str(N_SAMPLES)]
    timed([whest, "dataset", "bake", *sizes, "--mlp-seeds", seeds, "--output", folder / "dataset"])
    ours: list[str | Path] = [
        sys.executable, "-m", "whest", "estimator=cov_prop", "isolation=process", "tracking=none", "dataset=fresh",
        f"dataset.seed={SEED}", f"dataset.n_mlps={N_MLPS}", f"truth.n_samples={N_SAMPLES}",
        f"outputs_dir={folder / 'outputs'}",
    ]  # fmt: skip
    timed(ours)  # draw the truth once, as the bake above did for the peer
    theirs: list[str | Path] = [
        whest, "run", "--estimator", folder / "estimator.py", "--runner", "subprocess", "--dataset", folder / "dataset",
        "--flop-budget", "68000000000", "--lambda-flops-per-second", "1e11", "--no-residual-wall-time-limit",
        "--setup-timeout", "60", "--format", "json",
    ]  # fmt: skip
    seconds: dict[str, list[float]] = {"whest": [], "peer": []}
    mses = {}
    for repeat in range(REPEATS):
        print(f"repeat {repeat + 1} of {REPEATS}", file=sys.stderr, flush=True)
        elapsed, _ = timed([*ours, f"hydra.run.dir={folder / 'run'}"])
        seconds["whest"].append(elapsed)
        elapsed, printed = timed(theirs, env={**os.environ, "NO_COLOR": "1"})
        seconds["peer"].append(elapsed)
        mses["peer"] = json.loads(printed[printed.index("{") :])["results"]["final_layer_mse"]
    report = json.loads((folder / "run" / "report.json").read_text())
    mses["whest"] = report["results"]["final_layer_mse"]
    print(f"| harness | seconds (median of {REPEATS}) | final-layer MSE |")
    print("|---|---|---|")
    for name in ("whest", "peer"):
        print(f"| {name} | {statistics.median(seconds[name]):.1f} | {mses[name]:.4g} |")
    print(f"\n{statistics.median(seconds['peer']) / statistics.median(seconds['whest']):.1f}x faster")


if __name__ == "__main__":
    main()
