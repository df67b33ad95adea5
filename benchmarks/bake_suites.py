"""Bake the shipped suites: `python benchmarks/bake_suites.py warmup 16 1e7`.

Prints the floor (the MSE that truth's own noise adds) and the rate. Finished MLPs are kept in outputs/cache/truth, so
an interrupted bake goes on where it was.
"""

import sys
import time
from pathlib import Path

from whest.cache import TruthCache
from whest.dataset import fresh_seeds
from whest.mlp import SeedProtocol, draw_mlp, mlp_names
from whest.suite import FOLDER, SUITE_ROOTS, Suite, save_suite
from whest.truth import PlainTruth

SHAPES = {"warmup": (256, 8), "phase1": (256, 32), "phase2": (1024, 16)}


def bake(round_name: str, n_mlps: int, n_samples: int) -> None:
    width, depth = SHAPES[round_name]
    sampler, protocol = PlainTruth(n_samples), SeedProtocol()
    cache = TruthCache(Path("outputs/cache/truth"))
    seeds = fresh_seeds(SUITE_ROOTS[round_name], n_mlps)
    names = mlp_names(protocol, seeds)
    truths = []
    for seed, name in zip(seeds, names, strict=True):
        started = time.monotonic()
        truths.append(cache.truth(sampler, draw_mlp(protocol.streams(seed), width, depth, name)))
        elapsed = time.monotonic() - started
        print(f"{name:24} floor {truths[-1].floor_mse:.2e}  {n_samples / elapsed:,.0f} samples/s", flush=True)
    suite = Suite(round_name, width, depth, seeds, names, truths, f"{sampler.name} {sampler.version}")
    save_suite(suite, FOLDER / f"{round_name}.npz")
    print(f"{round_name}: {n_mlps} MLPs of {width}x{depth}, {n_samples:.0e} samples each, floor {suite.floor_mse:.2e}")


if __name__ == "__main__":
    bake(sys.argv[1], int(sys.argv[2]), int(float(sys.argv[3])))
