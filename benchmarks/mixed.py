"""truth=mixed against truth=fast: CPU time, variance, and what a CPU second buys.

    NPROC=1 taskset -c 0 python benchmarks/mixed.py            # the three shapes of the rounds
    NPROC=1 taskset -c 0 python benchmarks/mixed.py 256x8      # one of them

One core, because threads that wait for one another count as CPU time. Both samplers take turns on the same MLP; the
first replicates of each are not counted, since they have the compiling in them.
"""

import sys
import time
from collections import deque

from whest.dataset.sources import FreshDataset
from whest.mlp import MLP
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth

SAMPLES = {"256x8": 1_000_000, "256x32": 500_000, "1024x16": 350_000}
ROUNDS, SEED = 3, 1


def spend(sampler: FastTruth | MixedTruth, mlp: MLP) -> tuple[float, float]:
    """CPU seconds per sample, and the variance of one sample."""
    stream = sampler.stream(mlp)
    first = next(running for running in stream if not running.n_bases_begun)  # a whole replicate: all is compiled
    started = time.process_time()
    (last,) = deque(stream, maxlen=1)
    seconds = (time.process_time() - started) / (last.n_samples - first.n_samples)
    truth = last.truth()
    return seconds, truth.floor_mse * truth.n_samples


def main() -> None:
    for shape in sys.argv[1:] or SAMPLES:
        width, depth = map(int, shape.split("x"))
        dataset = FreshDataset(width=width, depth=depth, seed=SEED, n_mlps=1).load()
        mlp = dataset.mlp(dataset.rows[0])
        for _ in range(ROUNDS):
            (fast_s, fast_variance), (mixed_s, mixed_variance) = (
                spend(sampler(SAMPLES[shape]), mlp) for sampler in (FastTruth, MixedTruth)
            )
            time_ratio, variance_ratio = fast_s / mixed_s, mixed_variance / fast_variance
            print(
                f"{shape:8s} CPU time fast / mixed {time_ratio:.2f}, variance mixed / fast {variance_ratio:.3f}, "
                f"gain per CPU second {time_ratio / variance_ratio:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
