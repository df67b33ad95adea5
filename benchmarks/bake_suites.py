"""Bake the shipped suites, an MLP at a time: `python benchmarks/bake_suites.py phase2 warmup phase1`.

    python benchmarks/bake_suites.py phase2                 # every MLP, then whest/dataset/suites/v2/phase2.npz
    NPROC=1 python benchmarks/bake_suites.py phase2 --share 0/2   # every second MLP: one process per core
    NPROC=1 python benchmarks/bake_suites.py phase2 --share 1/2   # the others; the last one to finish writes the file

About 35, 40 and 35 minutes on two quiet cores. Only the truth is stored, without the weights. Finished MLPs and blocks
are kept in benchmarks/baked, so an interrupted bake continues where it stopped, bit for bit. Finished MLPs are
committed there until the suite is whole.
"""

import argparse
from pathlib import Path

from rich.console import Console

from whest.dataset.sources import FreshDataset
from whest.dataset.suite import SUITE_ROOTS, Suite, save_suite, suite_path
from whest.display.progress import open_progress
from whest.truth.cache import TruthCache, watched_truth
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth

VERSION = 2
"""A version that was released is never baked again: raise it, so that the old suite stays beside the new one."""
SUITES = {
    "warmup": (256, 8, 100, MixedTruth(2, standard_error=6.2e-5)),
    "phase1": (256, 32, 30, FastTruth(2, standard_error=5.4e-5)),
    "phase2": (1024, 16, 8, MixedTruth(6_500_000)),
}
"""Width, depth, number of MLPs, and the sampler of their truth. Mixed gains nothing at phase1's shape."""


def bake(round_name: str, share: tuple[int, int], console: Console) -> None:
    width, depth, n_mlps, sampler = SUITES[round_name]
    cache = TruthCache(Path(__file__).with_name("baked"))
    dataset = FreshDataset(width, depth, SUITE_ROOTS[round_name], n_mlps).load()
    with open_progress(console) as progress:
        for row in progress.each(dataset.rows[share[0] :: share[1]], round_name):
            mlp = dataset.mlp(row)
            truth = cache.find(sampler, mlp) or watched_truth(cache, sampler, mlp, progress)
            console.print(f"{row.name:24} floor {truth.floor_mse:.2e}  {truth.n_samples:.3g} samples")
    found = [cache.find(sampler, dataset.mlp(row)) for row in dataset.rows]
    truths = [truth for truth in found if truth is not None]
    if len(truths) < n_mlps:
        console.print(f"{round_name}: {len(truths)} of {n_mlps} MLPs are there")
        return
    seeds, names = zip(*((row.mlp_seed, row.name) for row in dataset.rows), strict=True)
    suite = Suite(round_name, width, depth, seeds, names, truths, f"{sampler.name} {sampler.version}")
    path = suite_path(round_name, VERSION)
    path.parent.mkdir(exist_ok=True)
    save_suite(suite, path)
    console.print(f"{round_name}: {n_mlps} MLPs of {width}x{depth}, floor {suite.floor_mse:.2e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="+", choices=SUITES)
    parser.add_argument("--share", default="0/1", help="k/n: every n-th MLP, from the k-th")
    asked = parser.parse_args()
    k, n = map(int, asked.share.split("/"))
    for name in asked.rounds:
        bake(name, (k, n), Console())
