"""Bake the shipped suites: `python benchmarks/bake_suites.py warmup phase1 phase2`.

It takes about 35, 30 and 40 minutes on two quiet cores. `python -m whest job=bake round=warmup dataset=fresh seed=101
dataset.n_mlps=50 truth.standard_error=7e-5 output=DIR` makes the same rows. This script stores only the truth, without
the weights, in whest/dataset/suites. Finished blocks are kept in outputs/bake/cache/truth, so an interrupted bake
continues where it stopped.
"""

import sys
from pathlib import Path

from rich.console import Console

from whest.dataset.sources import FreshDataset
from whest.dataset.suite import FOLDER, SUITE_ROOTS, Suite, save_suite
from whest.display.progress import open_progress
from whest.truth.cache import TruthCache, watched_truth
from whest.truth.fast import FastTruth

SUITES = {
    "warmup": (256, 8, 50, FastTruth(2, standard_error=7e-5)),
    "phase1": (256, 32, 20, FastTruth(2, standard_error=7e-5)),
    "phase2": (1024, 16, 5, FastTruth(2_000_000)),
}
"""Width, depth, number of MLPs, and the sampler of their truth."""


def bake(round_name: str, console: Console) -> None:
    width, depth, n_mlps, sampler = SUITES[round_name]
    cache = TruthCache(Path("outputs/bake/cache/truth"))
    dataset = FreshDataset(width, depth, SUITE_ROOTS[round_name], n_mlps).load()
    truths = []
    with open_progress(console) as progress:
        for row in progress.each(dataset.rows, round_name):
            mlp = dataset.mlp(row)
            truths.append(cache.find(sampler, mlp) or watched_truth(cache, sampler, mlp, progress))
            console.print(f"{row.name:24} floor {truths[-1].floor_mse:.2e}  {truths[-1].n_samples:.3g} samples")
    seeds, names = zip(*((row.mlp_seed, row.name) for row in dataset.rows), strict=True)
    suite = Suite(round_name, width, depth, seeds, names, truths, f"{sampler.name} {sampler.version}")
    save_suite(suite, FOLDER / f"{round_name}.npz")
    console.print(f"{round_name}: {n_mlps} MLPs of {width}x{depth}, floor {suite.floor_mse:.2e}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        bake(name, Console())
