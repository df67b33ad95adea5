"""The speed of truth: our samplers, WhestBench's ("peer"), plain NumPy and a matmul alone, in one run on the same MLPs.

    python benchmarks/truth.py              # prints Markdown; about ten minutes on two quiet cores
    python benchmarks/truth.py 256x8        # one shape
    python benchmarks/truth.py growth       # seconds and memory from 1e6 to 1e8 samples

A sampler is timed after its first block, so compiling is not timed. Its time to a standard error of 1e-4 (root mean
square over the final layer) is variance per sample / 1e-8 / samples per second. A design's variance per sample falls
when replicates grow. At a width of 1024 the run is too short for whole designs, so the figure is an upper bound.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import jax
import jax.numpy as jnp
import numpy as np
from peer import peer_bin

from whest.dataset.sources import FreshDataset
from whest.mlp import MLP
from whest.truth.fast import FastTruth
from whest.truth.plain import PlainTruth
from whest.truth.reference import ReferenceTruth
from whest.truth.truth import TruthSampler

SHAPES = {"256x8": (256, 8), "256x32": (256, 32), "1024x16": (1024, 16)}
SEED, N_MLPS, REPEATS = 2026, 2, 2
FLOPS = {"fast": 4e12, "plain": 1e12, "numpy": 5e11, "peer": 5e11}
"""FLOPs per timing: a few seconds to half a minute each, long enough for stable figures on a shared machine."""
SAVED_LAYERS = {"fast": 1.5}
"""The matmuls that a sampler saves, in layers."""
AIM = 1e-4

PEER_SCRIPT = """
import json, sys, time
import numpy as np
import flopscope as flops
import flopscope.numpy as fnp
from whestbench.domain import MLP
from whestbench.simulation import sample_layer_statistics
weights, n_samples = np.load(sys.argv[1]), int(sys.argv[2])
mlp = MLP(width=weights.shape[1], depth=len(weights), weights=[fnp.array(w) for w in weights], seed=0)
with flops.BudgetContext(flop_budget=int(1e18), quiet=True):
    sample_layer_statistics(mlp, 1024, rng=fnp.random.default_rng(1))
    started = time.perf_counter()
    _, _, variance = sample_layer_statistics(mlp, n_samples, rng=fnp.random.default_rng(0))
    print(json.dumps([n_samples / (time.perf_counter() - started), variance]))
"""

GROWTH_SCRIPT = """
import json, resource, sys, time
from whest.dataset.sources import FreshDataset
from whest.truth.fast import FastTruth
dataset = FreshDataset(width=64, depth=4, seed=1, n_mlps=1).load()
stream = FastTruth(int(float(sys.argv[1]))).stream(dataset.mlp(dataset.rows[0]))
first = next(stream)
started = time.perf_counter()
for last in stream:
    pass
elapsed = time.perf_counter() - started
print(json.dumps([elapsed * last.n_samples / (last.n_samples - first.n_samples),
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


@dataclass(frozen=True)
class Timing:
    samples_per_s: float
    variance: float
    """Variance of one sample, averaged over the final layer: n samples have the error variance / n."""


def matmul_flops_per_s(width: int) -> float:
    """The machine's best speed on independent float32 matmuls of this width."""
    best = 0.0
    multiply = jax.jit(lambda a, b: jnp.matmul(a, b, precision="highest"))
    for rows in (1024, 2048, 4096, 8192):
        a, b = jnp.ones((rows, width), jnp.float32), jnp.ones((width, width), jnp.float32)
        times = max(4, int(2e11 / (2 * rows * width**2)) // 10)
        multiply(a, b).block_until_ready()
        for _ in range(5):
            started = time.perf_counter()
            jax.block_until_ready([multiply(a, b) for _ in range(times)])
            best = max(best, times * 2 * rows * width**2 / (time.perf_counter() - started))
    return best


def time_ours(sampler: TruthSampler, mlp: MLP) -> Timing:
    stream = sampler.stream(mlp)
    first = next(stream)
    started = time.perf_counter()
    (last,) = deque(stream, maxlen=1)
    elapsed = time.perf_counter() - started
    truth = last.truth()
    return Timing((last.n_samples - first.n_samples) / elapsed, truth.floor_mse * truth.n_samples)


def time_peer(mlp: MLP, n_samples: int, folder: Path) -> Timing:
    np.save(folder / "weights.npy", mlp.weights)
    command: list[str | Path] = [peer_bin() / "python", "-c", PEER_SCRIPT, folder / "weights.npy", str(n_samples)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Timing(*json.loads(printed.splitlines()[-1]))


def contestants(width: int, depth: int, folder: Path) -> dict[str, Callable[[MLP], Timing]]:
    n = {name: int(flops / (2 * width**2 * depth)) for name, flops in FLOPS.items()}
    return {
        "fast": lambda mlp: time_ours(FastTruth(n["fast"]), mlp),
        "plain": lambda mlp: time_ours(PlainTruth(n["plain"]), mlp),
        "numpy": lambda mlp: time_ours(ReferenceTruth(n["numpy"]), mlp),
        "peer": lambda mlp: time_peer(mlp, n["peer"], folder),
    }


def compare(shape: str) -> None:
    width, depth = SHAPES[shape]
    dataset = FreshDataset(width=width, depth=depth, seed=SEED, n_mlps=N_MLPS).load()
    mlps = [dataset.mlp(row) for row in dataset.rows]
    runs = contestants(width, depth, Path(mkdtemp(prefix="whest-truth-")))
    timings: dict[str, list[Timing]] = {name: [] for name in runs}
    peak = 0.0
    for repeat in range(REPEATS):
        for mlp in mlps:
            peak = max(peak, matmul_flops_per_s(width))
            for name, run in runs.items():
                timings[name].append(run(mlp))
                print(f"{shape} {repeat + 1}/{REPEATS} {mlp.name} {name}", file=sys.stderr, flush=True)
    rates = {name: statistics.median(t.samples_per_s for t in found) for name, found in timings.items()}
    variances = {name: statistics.fmean(t.variance for t in found) for name, found in timings.items()}
    seconds = {name: variances[name] / AIM**2 / rates[name] for name in runs}
    for name in runs:
        executed = rates[name] * 2 * width**2 * (depth - SAVED_LAYERS.get(name, 0))
        cells = [
            shape,
            name,
            f"{rates[name]:,.0f}",
            f"{executed / peak:.0%}",
            f"{variances[name]:.4f}",
            f"{seconds[name]:,.0f}",
            f"{seconds['peer'] / seconds[name]:.1f}x",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(
        f"| {shape} | *matmul alone* | {peak / (2 * width**2 * depth):,.0f} | {peak / 1e9:.0f} GFLOP/s | | | |",
        flush=True,
    )


def growth() -> None:
    print("\n64x4, `fast`\n\n| samples | seconds | peak memory, MB |\n|---|---|---|")
    for n_samples in ("1e6", "1e7", "1e8"):
        command = [sys.executable, "-c", GROWTH_SCRIPT, n_samples]
        seconds, megabytes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"| {n_samples} | {seconds:.2f} | {megabytes:.0f} |", flush=True)


def main() -> None:
    jax.config.update("jax_default_matmul_precision", "highest")
    asked = sys.argv[1:] or [*SHAPES, "growth"]
    print(f"{N_MLPS} MLPs per shape, median of {N_MLPS * REPEATS} timings, {os.cpu_count()} cores\n")
    shapes = [name for name in asked if name in SHAPES]
    if shapes:
        print("| shape | sampler | samples/s | of matmul peak | variance per sample | s to SE 1e-4 | vs peer |")
        print("|---|---|---|---|---|---|---|")
    for shape in shapes:
        compare(shape)
    if "growth" in asked:
        growth()


if __name__ == "__main__":
    main()
