"""The speed of truth: our samplers, WhestBench's ("peer"), plain NumPy and a matmul alone, in one run on the same MLPs.

    make peer                                        # once: the peer goes to outputs/peer
    python benchmarks/truth.py                       # prints Markdown; about 25 minutes on two quiet cores
    python benchmarks/truth.py 256x8 --mlps 6        # one shape, more MLPs
    python benchmarks/truth.py 1024x16 --scale 5 --samplers fast mixed "mixed ×2" plain   # mixed is itself
    python benchmarks/truth.py 64x4 --mlps 2 --scale 1e-3 --no-peer    # does it run?
    python benchmarks/truth.py growth                # seconds and memory from 1e6 to 1e8 samples

A sampler is timed after its first whole replicate, so compiling is not timed (the blocks of a large replicate are
several programs). Its time to a standard error of 1e-4 (root mean square over the final layer) is variance per sample
/ 1e-8 / samples per second. The ratio to the peer is taken per MLP; its error bar is the standard error over MLPs. `×N`
is N processes with one thread each, as `job=bake` draws. A design's variance per sample falls when replicates grow. At
a width of 1024 the run is too short for whole designs, so the figure is an upper bound. There `mixed` and `pruned` draw
as `fast` does unless the plan has nine bases per replicate: from --scale 1.3 on.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import jax
import jax.numpy as jnp
import numpy as np
from peer import peer_bin

from whest.dataset.sources import FreshDataset
from whest.mlp import MLP
from whest.truth.crew import usable_cores
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth
from whest.truth.plain import PlainTruth
from whest.truth.pruned import PrunedTruth
from whest.truth.reference import ReferenceTruth
from whest.truth.truth import TruthSampler

SHAPES = ("256x8", "256x32", "1024x16")
SEED, N_MLPS = 2026, 4
FLOPS = {"fast": 4e12, "mixed": 4e12, "pruned": 4e12, "plain": 1e12, "numpy": 5e11, "peer": 5e11}
"""FLOPs per timing: a few seconds to half a minute each, long enough for stable figures."""
SAVED_LAYERS = {"fast": 1.5, "mixed": 1.5, "pruned": 1.5}
"""The matmuls that a sampler saves, in layers. Mixed makes cheaper ones, pruned smaller ones: both can exceed 100 %."""
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

SINGLE_SCRIPT = """
import json, sys, time
from collections import deque
from whest.dataset.sources import FreshDataset
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth
from whest.truth.pruned import PrunedTruth
width, depth, seed, place, n_samples = map(int, sys.argv[2:])
dataset = FreshDataset(width=width, depth=depth, seed=seed, n_mlps=place + 1).load()
sampler = {"fast": FastTruth, "mixed": MixedTruth, "pruned": PrunedTruth}[sys.argv[1]](n_samples)
stream = sampler.stream(dataset.mlp(dataset.rows[place]))
first = next(running for running in stream if not running.n_bases_begun)
print("compiled", flush=True)
sys.stdin.readline()
started = time.perf_counter()
(last,) = deque(stream, maxlen=1)
elapsed, truth = time.perf_counter() - started, last.truth()
print(json.dumps([(last.n_samples - first.n_samples) / elapsed, truth.floor_mse * truth.n_samples]))
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
        times = min(2000, max(4, int(2e11 / (2 * rows * width**2)) // 10))
        multiply(a, b).block_until_ready()
        for _ in range(5):
            started = time.perf_counter()
            jax.block_until_ready([multiply(a, b) for _ in range(times)])
            best = max(best, times * 2 * rows * width**2 / (time.perf_counter() - started))
    return best


def time_ours(sampler: TruthSampler, mlp: MLP) -> Timing:
    stream = sampler.stream(mlp)
    first = next(running for running in stream if not getattr(running, "n_bases_begun", 0))
    started = time.perf_counter()
    rest = list(deque(stream, maxlen=1))
    if not rest:  # a single block, at tiny sizes: once more, now that it is compiled
        started = time.perf_counter()
        rest = list(deque(sampler.stream(mlp), maxlen=1))
    elapsed, last = time.perf_counter() - started, rest[-1]
    truth = last.truth()
    drawn = last.n_samples - (first.n_samples if last.n_samples > first.n_samples else 0)
    return Timing(drawn / elapsed, truth.floor_mse * truth.n_samples)


def time_crew(name: str, shape: tuple[int, int], place: int, n_samples: int, n_processes: int) -> Timing:
    """The rates of single-threaded processes that start together, added up."""
    words = [sys.executable, "-c", SINGLE_SCRIPT, name, *map(str, (*shape, SEED, place, n_samples))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        crew: list[subprocess.Popen[str]] = [
            stack.enter_context(subprocess.Popen(words, env={**os.environ, "NPROC": "1"}, **pipes))  # type: ignore[call-overload]
            for _ in range(n_processes)
        ]
        for process in crew:
            assert process.stdout is not None
            process.stdout.readline()
        for process in crew:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        timings = [Timing(*json.loads(process.communicate()[0].splitlines()[-1])) for process in crew]
    return Timing(sum(timing.samples_per_s for timing in timings), timings[0].variance)


def time_peer(mlp: MLP, n_samples: int, folder: Path) -> Timing:
    np.save(folder / "weights.npy", mlp.weights)
    command: list[str | Path] = [peer_bin() / "python", "-c", PEER_SCRIPT, folder / "weights.npy", str(n_samples)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Timing(*json.loads(printed.splitlines()[-1]))


Run = Callable[[MLP, int], Timing]
"""A timing of one MLP, and of its place in the dataset."""


def contestants(shape: tuple[int, int], scale: float, with_peer: bool) -> dict[str, Run]:
    width, depth = shape
    n = {name: max(2, int(scale * flops / (2 * width**2 * depth))) for name, flops in FLOPS.items()}
    cores, folder = usable_cores(), Path(mkdtemp(prefix="whest-truth-"))
    runs: dict[str, Run] = {
        "fast": lambda mlp, place: time_ours(FastTruth(n["fast"]), mlp),
        f"fast ×{cores}": lambda mlp, place: time_crew("fast", shape, place, n["fast"], cores),
        "mixed": lambda mlp, place: time_ours(MixedTruth(n["mixed"]), mlp),
        f"mixed ×{cores}": lambda mlp, place: time_crew("mixed", shape, place, n["mixed"], cores),
        "pruned": lambda mlp, place: time_ours(PrunedTruth(n["pruned"]), mlp),
        f"pruned ×{cores}": lambda mlp, place: time_crew("pruned", shape, place, n["pruned"], cores),
        "plain": lambda mlp, place: time_ours(PlainTruth(n["plain"]), mlp),
        "numpy": lambda mlp, place: time_ours(ReferenceTruth(n["numpy"]), mlp),
    }
    return runs | ({"peer": lambda mlp, place: time_peer(mlp, n["peer"], folder)} if with_peer else {})


def ratio_words(ours: list[Timing], peers: list[Timing]) -> str:
    """The mean over MLPs of (the peer's seconds / ours) to the same error bar, with its standard error."""
    pairs = zip(ours, peers, strict=True)
    ratios = [peer.variance / peer.samples_per_s / (our.variance / our.samples_per_s) for our, peer in pairs]
    error = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
    return f"{statistics.fmean(ratios):.1f} ± {error:.1f}"


def compare(name: str, n_mlps: int, scale: float, with_peer: bool, samplers: list[str] | None) -> None:
    width, depth = (int(part) for part in name.split("x"))
    dataset = FreshDataset(width=width, depth=depth, seed=SEED, n_mlps=n_mlps).load()
    runs = contestants((width, depth), scale, with_peer)
    if samplers is not None:
        runs = {sampler: run for sampler, run in runs.items() if sampler in (*samplers, "peer")}
    timings: dict[str, list[Timing]] = {sampler: [] for sampler in runs}
    peaks = []
    for place, row in enumerate(dataset.rows):
        mlp = dataset.mlp(row)
        peaks.append(matmul_flops_per_s(width))
        for sampler, run in runs.items():
            timings[sampler].append(run(mlp, place))
            print(f"{name} {place + 1}/{n_mlps} {mlp.name} {sampler}", file=sys.stderr, flush=True)
    peak = max(peaks)
    for sampler, found in timings.items():
        rate = statistics.median(timing.samples_per_s for timing in found)
        variance = statistics.fmean(timing.variance for timing in found)
        executed = rate * 2 * width**2 * (depth - SAVED_LAYERS.get(sampler.split()[0], 0))
        cells = [
            name,
            sampler,
            f"{rate:,.0f}",
            f"{executed / peak:.0%}",
            f"{variance:.4f}",
            f"{variance / AIM**2 / rate:,.0f}",
            ratio_words(found, timings["peer"]) if with_peer else "",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    alone = f"{peak / (2 * width**2 * depth):,.0f} | {peak / 1e9:.0f} GFLOP/s"
    print(f"| {name} | *matmul alone* | {alone} | | | |", flush=True)


def growth() -> None:
    print("\n64x4, `fast`\n\n| samples | seconds | peak memory, MB |\n|---|---|---|")
    for n_samples in ("1e6", "1e7", "1e8"):
        command = [sys.executable, "-c", GROWTH_SCRIPT, n_samples]
        seconds, megabytes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"| {n_samples} | {seconds:.2f} | {megabytes:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("asked", nargs="*", default=[*SHAPES, "growth"], help="shapes such as 256x8, or growth")
    parser.add_argument("--mlps", type=int, default=N_MLPS)
    parser.add_argument("--scale", type=float, default=1.0, help="times the FLOPs of each timing")
    parser.add_argument("--samplers", nargs="+", help="some of them, and the peer")
    parser.add_argument("--no-peer", action="store_true")
    words = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "highest")
    shapes = [name for name in words.asked if name != "growth"]
    if shapes:
        print(f"{words.mlps} MLPs per shape, one timing each, the median of their rates; {os.cpu_count()} cores\n")
        print("| shape | sampler | samples/s | of matmul peak | variance per sample | s to SE 1e-4 | × peer ± SE |")
        print("|---|---|---|---|---|---|---|")
    for name in shapes:
        compare(name, words.mlps, words.scale, not words.no_peer, words.samplers)
    if "growth" in words.asked:
        growth()


if __name__ == "__main__":
    main()
