"""truth=pruned and truth=mixed against truth=fast: CPU time, variance, and what a CPU second buys.

    NPROC=1 taskset -c 0 python benchmarks/mixed.py                    # the three shapes of the rounds
    NPROC=1 taskset -c 0 python benchmarks/mixed.py 256x8 --mlps 4     # one of them, more MLPs
    NPROC=1 taskset -c 0 python benchmarks/mixed.py 256x32 --samplers pruned

One core, because threads that wait for one another count as CPU time. The samplers take turns, block by block, on the
same MLP; the first replicates of each are not counted, since they have the compiling in them ("start" is their CPU
time). A replicate of each sampler is turned by the same rotation. So the noise that a surrogate adds is seen directly,
as the mean square of the difference of replicates, and the variance is 1 + this / the variance of fast's replicates.
"""

import argparse
import math
import statistics
import time
from collections.abc import Iterator

import numpy as np

from whest.dataset.sources import FreshDataset
from whest.mlp import MLP
from whest.truth.fast import FastTruth, Replicates
from whest.truth.mixed import MixedTruth
from whest.truth.pruned import PrunedTruth

SAMPLERS = {"pruned": PrunedTruth, "mixed": MixedTruth}
PLANNED = {"256x8": 1_000_000, "256x32": 900_000, "1024x16": 1_000_000}
"""The samples that the sizes of replicates are made for, as in the rounds; not all of them are drawn."""
REPLICATES = {"256x8": 12, "256x32": 8, "1024x16": 4}
SEED, N_MLPS = 1, 3


class Draw:
    """A sampler's stream, with its CPU time and the means of each replicate."""

    def __init__(self, sampler: FastTruth, mlp: MLP) -> None:
        self._stream: Iterator[Replicates] = sampler.stream(mlp)
        self._before = np.zeros(mlp.width)
        self._n_before = 0
        self.seconds: list[float] = []
        self.groups: list[np.ndarray] = []
        """The final layer's mean over the replicates of each turn."""
        self.points = 0

    def turn(self) -> int:
        """Draw until more replicates are finished; their number."""
        started = time.process_time()
        running = next(running for running in self._stream if not running.n_bases_begun)
        self.seconds.append(time.process_time() - started)
        new = running.n_replicates - self._n_before
        self.groups.append((running.total[-1] - self._before) / new)
        self._before, self._n_before, self.points = running.total[-1], running.n_replicates, running.layout.points
        return new


def compare(shape: str, mlp: MLP, names: list[str]) -> dict[str, float]:
    draws = {
        name: Draw({**SAMPLERS, "fast": FastTruth}[name](PLANNED.get(shape, 200_000)), mlp) for name in ["fast", *names]
    }
    drawn = 0
    while drawn < REPLICATES.get(shape, 8):
        drawn += max(draw.turn() for draw in draws.values())
    fast = draws["fast"]
    variance = np.var(fast.groups, axis=0, ddof=1).mean()
    gains = {}
    for name in names:
        draw = draws[name]
        faster = sum(fast.seconds[1:]) / sum(draw.seconds[1:])
        noisier = 1 + np.square(np.subtract(draw.groups, fast.groups)).mean() / variance
        gains[name] = faster / noisier
        print(
            f"{shape:8s} {mlp.name:20s} {name:7s} CPU time fast / {name} {faster:.2f}, variance {name} / fast "
            f"{noisier:.3f}, gain per CPU second {gains[name]:.2f} (start {draw.seconds[0]:.0f} s, fast's "
            f"{fast.seconds[0]:.0f} s)",
            flush=True,
        )
    return gains


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=list(PLANNED))
    parser.add_argument("--mlps", type=int, default=N_MLPS)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=list(SAMPLERS))
    words = parser.parse_args()
    for shape in words.shapes:
        width, depth = map(int, shape.split("x"))
        dataset = FreshDataset(width=width, depth=depth, seed=SEED, n_mlps=words.mlps).load()
        found = [compare(shape, dataset.mlp(row), words.samplers) for row in dataset.rows]
        for name in words.samplers:
            gains = [gain[name] for gain in found]
            error = statistics.stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.nan
            print(f"{shape:8s} {name}: {statistics.fmean(gains):.2f} ± {error:.2f} over {len(gains)} MLPs", flush=True)


if __name__ == "__main__":
    main()
