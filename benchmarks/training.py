"""Networks for fitting constants: their seeds are in no shipped suite, and their truth is kept in outputs/cache."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from whest.dataset.sources import FreshDataset
from whest.dataset.suite import SUITE_ROOTS
from whest.truth.cache import TruthCache
from whest.truth.fast import FastTruth


@dataclass(frozen=True)
class Network:
    weights: Float[np.ndarray, "depth width width"]
    means: Float[np.ndarray, " width"]
    """True means of the last layer."""
    floor: float
    """The mean square error of this truth."""

    def error(self, answer: Float[np.ndarray, " width"]) -> float:
        """The mean square error of a prediction, without the truth's own noise."""
        return float(np.mean((answer.astype(np.float64) - self.means) ** 2)) - self.floor


def networks(width: int, depth: int, seed: int, number: int, sampler: FastTruth) -> list[Network]:
    return list(each_network(width, depth, seed, number, sampler))


def each_network(width: int, depth: int, seed: int, number: int, sampler: FastTruth) -> Iterator[Network]:
    """One network after the other, each as soon as its truth is drawn."""
    assert seed not in SUITE_ROOTS.values(), "a suite's own networks are for scoring"
    cache = TruthCache(Path("outputs/cache/truth"))
    dataset = FreshDataset(width=width, depth=depth, seed=seed, n_mlps=number).load()
    for number_drawn, mlp in enumerate((dataset.mlp(row) for row in dataset.rows), start=1):
        truth = cache.truth(sampler, mlp)
        print(f"truth {number_drawn}/{number} of seed {seed}", file=sys.stderr, flush=True)
        yield Network(np.asarray(mlp.weights), truth.means[-1].astype(np.float64), truth.floor_mse)


def plus_minus(values: Float[np.ndarray, " n"]) -> str:
    return f"{values.mean():.3g} ± {values.std(ddof=1) / np.sqrt(len(values)):.2g}"
