"""Are truth=fast, mixed and pruned without bias? Against long plain sampling, of the same MLPs, at small widths.

    python benchmarks/bias.py                              # 1e8 plain samples per MLP: about ten CPU minutes
    python benchmarks/bias.py --reference 1e9              # the long way, about an hour and a half
    python benchmarks/bias.py --reference 1e6 --mlps 1 --samples 1e5    # does it run?
    python benchmarks/bias.py --suite phase2 --reference 1e7 --mlps 1   # a shipped suite's truth; some ten minutes

The plain samples are kept in outputs/cache/truth, so a run that was stopped goes on where it was.

Both sides are summed over neurons after division by their joint standard error. Without bias the mean square of these
distances is 1 (a little more with few replicates: (k−1)/(k−3) for k of them), and the largest stays near √(2·ln n). The
last column is what is left of a bias: the mean over the final layer of (ours − plain), in units of 1e-6, with its
standard error over MLPs.
"""

import argparse
import math
from collections import deque
from pathlib import Path

import numpy as np

from whest.dataset.sources import FreshDataset
from whest.dataset.suite import SUITE_ROOTS, load_suite
from whest.mlp import MLP
from whest.truth.cache import TruthCache
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth
from whest.truth.plain import PlainTruth
from whest.truth.pruned import PrunedTruth
from whest.truth.truth import Truth, TruthSampler

SHAPES = ((16, 4), (64, 4), (64, 24))
SEED = 77
CACHE = TruthCache(Path("outputs/cache/truth"))


def draw(sampler: TruthSampler, mlp: MLP) -> Truth:
    (last,) = deque(sampler.stream(mlp), maxlen=1)
    return last.truth()


def draw_plain(n_samples: float, mlp: MLP) -> Truth:
    return CACHE.truth(PlainTruth(int(n_samples)), mlp)


def independent(mlp: MLP) -> MLP:
    """The same network with samples of its own."""
    return MLP(mlp.weights, mlp.seed, mlp.name, np.random.SeedSequence(mlp.seed + 1))


def distances(ours: Truth, plain: Truth) -> tuple[np.ndarray, float]:
    """Joint standard errors between both, of each neuron after the first layer; the final layer's mean difference."""
    difference = (ours.means.astype(np.float64) - plain.means)[1:]
    joint = np.hypot(ours.standard_errors.astype(np.float64), plain.standard_errors.astype(np.float64))[1:]
    is_on = joint > 1e-9  # a neuron that was never on has no error bar
    return difference[is_on] / joint[is_on], float(difference[-1].mean())


def row(shape: str, name: str, found: list[Truth], plain: list[Truth]) -> str:
    pairs = [distances(ours, theirs) for ours, theirs in zip(found, plain, strict=True)]
    z = np.concatenate([far for far, _ in pairs])
    left = np.array([mean for _, mean in pairs]) * 1e6
    error = left.std(ddof=1) / math.sqrt(len(left)) if len(left) > 1 else math.nan
    k = found[0].n_replicates
    cells = f"{k} | {np.mean(z**2):.2f} | {np.abs(z).max():.1f} | {z.size} | {left.mean():.1f} ± {error:.1f}"
    return f"| {shape} | {name} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=float, default=1e8, help="plain samples per MLP")
    parser.add_argument("--samples", type=float, default=2e7, help="samples of each of ours")
    parser.add_argument("--mlps", type=int, default=4)
    parser.add_argument("--suite", help="a round: the truth of its suite instead of samplers")
    asked = parser.parse_args()
    against = f"{asked.suite}'s truth" if asked.suite else f"{asked.samples:.0e}"
    print(f"{asked.mlps} MLPs per shape, {asked.reference:.0e} plain samples against {against}\n")
    print("| shape | sampler | replicates | mean square | largest | neurons | final layer's bias, 1e-6 |")
    print("|---|---|---|---|---|---|---|")
    if asked.suite:
        suite = load_suite(asked.suite)
        shipped = FreshDataset(suite.width, suite.depth, SUITE_ROOTS[asked.suite], asked.mlps).load()
        plain = [draw_plain(asked.reference, independent(shipped.mlp(one))) for one in shipped.rows]
        print(row(f"{suite.width}x{suite.depth}", suite.sampler, suite.truths[: asked.mlps], plain), flush=True)
        return
    for width, depth in SHAPES:
        dataset = FreshDataset(width, depth, SEED, asked.mlps).load()
        plain = [draw_plain(asked.reference, dataset.mlp(one)) for one in dataset.rows]
        for kind in (FastTruth, MixedTruth, PrunedTruth):
            found = [draw(kind(int(asked.samples)), dataset.mlp(one)) for one in dataset.rows]
            print(row(f"{width}x{depth}", kind.name, found, plain), flush=True)


if __name__ == "__main__":
    main()
