"""The results of two experiments of docs/frontier.md: parts of matrix_core left out, and sources in shared bases.

    python benchmarks/moonshots.py                # both, at 256x8 and 256x16
    python benchmarks/moonshots.py core           # one of: core, bases

It takes five minutes on two quiet cores if the truth is in the cache (`fit_constants.py` draws the same).
"""

import sys
from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, Float
from shared_sources import SharedSources
from training import Network, networks, plus_minus

from estimators.matrix_core import CORE_SHRINK, RADIAL, TERMS, MatrixCore
from estimators.parts.cumulant_chain import Core, propagate
from estimators.parts.cumulants import Relu, Square, Terms
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sources import Sources, Third
from estimators.parts.strassen import Strassen
from estimators.third_cumulant import ScalarCore
from estimators.third_cumulant_plus import CORE_SCALE, DiagonalCore
from estimators.third_cumulant_plus import TERMS as PLUS
from whest.dataset.sources import fresh_seeds
from whest.metering.walk import meter
from whest.mlp import SeedProtocol, draw_mlp
from whest.truth.fast import FastTruth

Weights = Float[Array, "depth width width"] | Float[np.ndarray, "depth width width"]
Answer = Callable[[Weights], Float[Array, "depth width"]]
N_NETWORKS = 24


class Unfed(MatrixCore):
    """A matrix core whose κ₄ adds nothing to κ₃."""

    def feed(self, relu: Relu, gram: Square, covariance: Square | None) -> None:
        return None


def chain(core: Core, terms: Terms, third: Third | None = None) -> Answer:
    return jax.jit(lambda weights: propagate(weights, core, terms, RADIAL, Strassen(0), third))


def core_parts() -> None:
    """Error at 256x8 for closures with more and more terms, each paired with the full closure."""
    whole = MatrixCore(1 - CORE_SHRINK / 256, third_in_core=True, radial=RADIAL)
    tries: dict[str, Answer] = {
        "matrix core, all terms": chain(whole, TERMS),
        "core scale 1 (nothing fitted)": chain(replace(whole, scale=1.0), TERMS),
        "without κ₄ → κ₃": chain(Unfed(whole.scale, True, RADIAL), TERMS),
        "without κ₃ in the core": chain(replace(whole, third_in_core=False), TERMS),
        "terms of third_cumulant_plus": chain(replace(whole, scale=1.0), PLUS),
        "lean sources": chain(whole, TERMS, LeanSources()),
        "diagonal core (third_cumulant_plus)": chain(DiagonalCore(CORE_SCALE), PLUS),
        "diagonal core, all terms": chain(DiagonalCore(CORE_SCALE), TERMS._replace(mixed=None)),
        "one number (third_cumulant)": chain(ScalarCore(), Terms()),
    }
    nets = networks(256, 8, 5150, N_NETWORKS, FastTruth(2, standard_error=3e-4))
    print(f"| closure, 256x8, {N_NETWORKS} networks | raw MSE | paired change |\n|---|---|---|")
    first: np.ndarray | None = None
    for label, answer in tries.items():
        errors = np.array([error(answer, net) for net in nets])
        first = errors if first is None else first
        print(f"| {label} | {plus_minus(errors)} | {plus_minus((errors - first) / first.mean())} |", flush=True)


def error(answer: Answer, net: Network) -> float:
    return net.error(np.asarray(answer(net.weights)[-1]))


def shared_bases() -> None:
    """The change by shared bases at 256x16, and the cost in products of n×n matrices."""
    width, depth = 256, 16
    core = MatrixCore(1 - CORE_SHRINK / width, third_in_core=False, radial=RADIAL)
    seeds = fresh_seeds(5170, 3)
    weights = [draw_mlp(SeedProtocol().streams(seed), width, depth, "").weights for seed in seeds]

    def price(answer: Answer) -> float:
        return meter(answer)(weights[0]).flops / (2 * width**3)

    lean = chain(core, TERMS, LeanSources())
    whole = chain(core, TERMS, Sources())
    answers = [np.asarray(lean(w)[-1], np.float64) for w in weights]
    moved = np.mean([(np.asarray(whole(w)[-1]) - a) ** 2 for w, a in zip(weights, answers, strict=True)])
    print("| sources, 256x16, 3 networks | mean square change of the answer | products |\n|---|---|---|")
    print(f"| full | {moved:.1e} (lean against full) | {price(whole):.0f} |\n| lean | 0 | {price(lean):.0f} |")
    for layers, share in ((3, 0.375), (4, 0.25), (4, 0.375), (4, 0.5)):
        shared = chain(core, TERMS, SharedSources(share, layers))
        change = np.mean([(np.asarray(shared(w)[-1]) - a) ** 2 for w, a in zip(weights, answers, strict=True)])
        print(f"| {share} of n from age {layers} | {change:.1e} | {price(shared):.0f} |", flush=True)


PARTS = {"core": core_parts, "bases": shared_bases}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
