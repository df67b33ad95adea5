"""How near a sampler comes to the float32 products of the machine: CPU time on one core, turn by turn.

    NPROC=1 taskset -c 0 python benchmarks/peak.py                    # truth=fast, the rounds' shapes
    NPROC=1 taskset -c 0 python benchmarks/peak.py 256x8 --samplers fast mixed --turns 20

In each turn every sampler draws one block, and products alone are timed before it: 1,024 to 8,192 rows times a square
matrix, without anything else. The share counts the products that `fast` makes (one and a half layers fewer than the
network has) against the fastest products of the run. "best" is the fastest block, the figure for a busy machine, since
neighbours only add time; "median" is over blocks. The first block is not counted: it has the compiling in it, and at
1024x16 the rotation of a replicate of 128 blocks.
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from whest.dataset.sources import FreshDataset
from whest.truth.fast import FastTruth, Replicates
from whest.truth.mixed import MixedTruth
from whest.truth.pruned import PrunedTruth

SAMPLERS = {"fast": FastTruth, "mixed": MixedTruth, "pruned": PrunedTruth}
SHAPES = ("256x8", "256x32", "1024x16")
N_SAMPLES = 10**8
"""As many as the longest draws have, so replicates are whole designs. Only the first blocks are drawn."""
SAVED_LAYERS = 1.5
PRODUCT_FLOPS = 1e10
SEED = 2026


class Draw:
    def __init__(self, stream: Iterator[Replicates]) -> None:
        self._stream, self._n_samples = stream, next(stream).n_samples
        self.seconds: list[float] = []
        """CPU seconds per sample, by block."""

    def turn(self) -> None:
        started = time.process_time()
        n_samples = next(self._stream).n_samples
        self.seconds.append((time.process_time() - started) / (n_samples - self._n_samples))
        self._n_samples = n_samples


def product_rates(width: int) -> list[float]:
    """FLOPs per CPU second of products alone, by their number of rows."""
    multiply, rates = jax.jit(lambda a, b: jnp.matmul(a, b, precision="highest")), []
    for rows in (1024, 2048, 4096, 8192):
        a, b = jnp.ones((rows, width), jnp.float32), jnp.ones((width, width), jnp.float32)
        flops = 2 * rows * width**2
        times = max(1, round(PRODUCT_FLOPS / flops))
        multiply(a, b).block_until_ready()
        started = time.process_time()
        jax.block_until_ready([multiply(a, b) for _ in range(times)])
        rates.append(times * flops / (time.process_time() - started))
    return rates


def measure(shape: str, names: list[str], turns: int) -> None:
    width, depth = map(int, shape.split("x"))
    dataset = FreshDataset(width=width, depth=depth, seed=SEED, n_mlps=1).load()
    mlp = dataset.mlp(dataset.rows[0])
    draws = {name: Draw(SAMPLERS[name](N_SAMPLES).stream(mlp)) for name in names}
    peak = 0.0
    for _ in range(turns):
        for draw in draws.values():
            peak = max(peak, *product_rates(width))
            draw.turn()
    flops = 2 * width**2 * (depth - SAVED_LAYERS)
    for name, draw in draws.items():
        best, median = (flops / peak / one for one in (min(draw.seconds), statistics.median(draw.seconds)))
        print(f"| {shape} | {name} | {best:.0%} | {median:.0%} | {peak / 1e9:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=list(SHAPES))
    parser.add_argument("--samplers", nargs="+", default=["fast"], choices=list(SAMPLERS))
    parser.add_argument("--turns", type=int, default=10)
    words = parser.parse_args()
    print("| shape | sampler | of the product rate, best | median | products, GFLOP/s |\n|---|---|---|---|---|")
    for shape in words.shapes:
        measure(shape, words.samplers, words.turns)


if __name__ == "__main__":
    main()
