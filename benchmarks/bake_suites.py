"""Bake the shipped suites, an MLP at a time: `python benchmarks/bake_suites.py phase2 warmup phase1`.

    python benchmarks/bake_suites.py phase2                 # every MLP, then whest/dataset/suites/v2/phase2.npz
    NPROC=1 python benchmarks/bake_suites.py phase2 --share 0/2   # every second MLP: one process per core
    NPROC=1 python benchmarks/bake_suites.py phase2 --share 1/2   # the others; the last one to finish writes the file

About two hours on two cores with bfloat16. Only the truth is stored, without the weights. Finished MLPs and blocks are
kept in benchmarks/baked, so an interrupted bake continues where it stopped, bit for bit. Finished MLPs are committed
there until the suite is whole.

The MLPs of warmup and phase1 that version 1 has go on from its truth: the mean of its n replicates is a running sum of
n replicates, and the next ones have the numbers n, n + 1, and so on. So they are independent of the first n, and the
stopping rule is the same. This saves two fifths of the samples.
"""

import argparse
from pathlib import Path

from rich.console import Console

from whest.dataset.sources import FreshDataset
from whest.dataset.suite import SUITE_ROOTS, Suite, load_suite, save_suite, suite_path
from whest.display.progress import open_progress
from whest.files import write_arrays
from whest.mlp import MLP
from whest.truth.cache import BEGUN, TruthCache, watched_truth
from whest.truth.fast import state_after
from whest.truth.mixed import MixedTruth
from whest.truth.truth import Truth, TruthSampler

VERSION = 2
"""A version that was released is never baked again: raise it, so that the old suite stays beside the new one."""
SUITES = {
    "warmup": (256, 8, 100, MixedTruth(2, standard_error=6.2e-5)),
    "phase1": (256, 32, 30, MixedTruth(2, standard_error=5.4e-5)),
    "phase2": (1024, 16, 10, MixedTruth(6_500_000)),
}
"""Width, depth, number of MLPs, and the sampler of their truth."""
CONTINUED = ("warmup", "phase1")
"""Their first version has replicates of the same point sets; phase2's were smaller."""


def continue_from(before: Truth, cache: TruthCache, sampler: TruthSampler, mlp: MLP) -> None:
    """Let the draw begin with this truth, unless it has begun."""
    entry = cache.truth_file(sampler, mlp)
    if entry.exists() or entry.with_suffix(BEGUN).exists():
        return
    state = state_after(before)
    assert next(iter(sampler.stream(mlp, state))).n_samples == before.n_samples, "version 1 has other point sets"
    write_arrays(entry.with_suffix(BEGUN), state)


def bake(round_name: str, share: tuple[int, int], console: Console) -> None:
    width, depth, n_mlps, sampler = SUITES[round_name]
    cache = TruthCache(Path(__file__).with_name("baked"))
    dataset = FreshDataset(width, depth, SUITE_ROOTS[round_name], n_mlps).load()
    first = load_suite(round_name, 1)
    begun = first.truths if round_name in CONTINUED else []
    assert list(first.mlp_seeds) == [row.mlp_seed for row in dataset.rows[: len(first.truths)]]
    with open_progress(console) as progress:
        for row in progress.each(dataset.rows[share[0] :: share[1]], round_name):
            mlp = dataset.mlp(row)
            if row.index < len(begun):
                continue_from(begun[row.index], cache, sampler, mlp)
            truth = cache.find(sampler, mlp) or watched_truth(cache, sampler, mlp, progress)
            console.print(f"{row.name:24} floor {truth.floor_mse:.2e}  {truth.n_samples:.3g} samples")
    found = [cache.find(sampler, dataset.mlp(row)) for row in dataset.rows]
    truths = [truth for truth in found if truth is not None]
    if len(truths) < n_mlps:
        console.print(f"{round_name}: {len(truths)} of {n_mlps} MLPs are there")
        return
    seeds, names = zip(*((row.mlp_seed, row.name) for row in dataset.rows), strict=True)
    samplers = [*({first.sampler} if begun else {}), f"{sampler.name} {sampler.version}"]
    suite = Suite(round_name, width, depth, seeds, names, truths, ", ".join(samplers), VERSION)
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
