"""Are truth=fast, mixed and pruned without bias? Against long plain sampling, of the same MLPs, at small widths.

    python benchmarks/bias.py                              # 1e8 plain samples per MLP: about ten CPU minutes
    python benchmarks/bias.py --reference 1e9              # the long way, about an hour and a half
    python benchmarks/bias.py --reference 1e9 --mlps 1 --shapes 16x4 64x4
    python benchmarks/bias.py --reference 1e6 --mlps 1 --samples 1e5    # does it run?
    python benchmarks/bias.py --suite phase2 --reference 1e7 --mlps 1   # a shipped suite's truth; some ten minutes

The plain samples are kept in outputs/cache/truth, so a run that was stopped goes on where it was. --so-far draws no
more of them, and compares with those that are there.

Both sides are summed over neurons after division by their joint standard error. Without bias the mean square of these
distances is 1 (a little more with few replicates: (k−1)/(k−3) for k of them), and the largest stays near √(2·ln n). It
is given for neurons with a mean of 1e-3 or more, too: the plain error bar of one that is on once in 1e5 samples is
itself a guess. The last column is what is left of a bias: the mean over the final layer of (ours − plain), in units of
1e-6, with its standard error over MLPs.
"""

import argparse
import math
from collections import deque
from pathlib import Path

import numpy as np

from whest.dataset.sources import FreshDataset
from whest.dataset.suite import SUITE_ROOTS, load_suite
from whest.files import read_arrays
from whest.mlp import MLP
from whest.truth.cache import BEGUN, TruthCache
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth
from whest.truth.plain import Moments, PlainTruth
from whest.truth.pruned import PrunedTruth
from whest.truth.truth import Truth, TruthSampler

SHAPES = ((16, 4), (64, 4), (64, 24))
SEED = 77
COMMON = 1e-3
CACHE = TruthCache(Path("outputs/cache/truth"))


def draw(sampler: TruthSampler, mlp: MLP) -> Truth:
    (last,) = deque(sampler.stream(mlp), maxlen=1)
    return last.truth()


def draw_plain(n_samples: float, mlp: MLP, so_far: bool) -> Truth:
    sampler = PlainTruth(int(n_samples))
    begun = read_arrays(CACHE.truth_file(sampler, mlp).with_suffix(BEGUN)) if so_far else None
    return Moments.begin(mlp, begun).truth() if begun else CACHE.truth(sampler, mlp)


def independent(mlp: MLP) -> MLP:
    """The same network with samples of its own."""
    return MLP(mlp.weights, mlp.seed, mlp.name, np.random.SeedSequence(mlp.seed + 1))


def distances(ours: Truth, plain: Truth) -> tuple[np.ndarray, np.ndarray, float]:
    """Joint standard errors between both, of each neuron after the first layer, and whether its mean is at least 1e-3.

    Then the final layer's mean difference.
    """
    difference = (ours.means.astype(np.float64) - plain.means)[1:]
    joint = np.hypot(ours.standard_errors.astype(np.float64), plain.standard_errors.astype(np.float64))[1:]
    is_on = joint > 1e-9  # a neuron that was never on has no error bar
    return difference[is_on] / joint[is_on], plain.means[1:][is_on] >= COMMON, float(difference[-1].mean())


def row(shape: str, name: str, found: list[Truth], plain: list[Truth]) -> str:
    pairs = [distances(ours, theirs) for ours, theirs in zip(found, plain, strict=True)]
    z, is_common = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    left = np.array([mean for _, _, mean in pairs]) * 1e6
    error = left.std(ddof=1) / math.sqrt(len(left)) if len(left) > 1 else math.nan
    k = found[0].n_replicates
    largest = f"{np.abs(z).max():.1f} of {z.size} | {np.abs(z[is_common]).max():.1f} of {is_common.sum()}"
    samples = f"{plain[0].n_samples:.2g}"
    cells = f"{samples} | {k} | {np.mean(z**2):.2f} | {largest} | {left.mean():.1f} ± {error:.1f}"
    return f"| {shape} | {name} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=float, default=1e8, help="plain samples per MLP")
    parser.add_argument("--samples", type=float, default=2e7, help="samples of each of ours")
    parser.add_argument("--mlps", type=int, default=4)
    parser.add_argument("--shapes", nargs="+", default=[f"{width}x{depth}" for width, depth in SHAPES])
    parser.add_argument("--so-far", action="store_true", help="with the plain samples drawn so far")
    parser.add_argument("--suite", help="a round: the truth of its suite instead of samplers")
    asked = parser.parse_args()
    against = f"{asked.suite}'s truth" if asked.suite else f"{asked.samples:.0e}"
    print(f"{asked.mlps} MLPs per shape, {asked.reference:.0e} plain samples against {against}\n")
    heads = "shape | sampler | plain samples | replicates | mean square | largest | of means ≥ 1e-3"
    print(f"| {heads} | final layer's bias, 1e-6 |\n|{'---|' * 8}")
    if asked.suite:
        suite = load_suite(asked.suite)
        shipped = FreshDataset(suite.width, suite.depth, SUITE_ROOTS[asked.suite], asked.mlps).load()
        plain = [draw_plain(asked.reference, independent(shipped.mlp(one)), asked.so_far) for one in shipped.rows]
        print(row(f"{suite.width}x{suite.depth}", suite.sampler, list(suite.truths[: asked.mlps]), plain), flush=True)
        return
    for width, depth in (map(int, shape.split("x")) for shape in asked.shapes):
        dataset = FreshDataset(width, depth, SEED, asked.mlps).load()
        plain = [draw_plain(asked.reference, dataset.mlp(one), asked.so_far) for one in dataset.rows]
        for kind in (FastTruth, MixedTruth, PrunedTruth):
            found = [draw(kind(int(asked.samples)), dataset.mlp(one)) for one in dataset.rows]
            print(row(f"{width}x{depth}", kind.name, found, plain), flush=True)


if __name__ == "__main__":
    main()
