"""kerdock's anchors of the second order: the chain's covariance of a layer beside its means.

    NPROC=1 python benchmarks/second_anchors.py fit         # layers and weights, 16 networks of 256x32
    NPROC=1 python benchmarks/second_anchors.py confirm     # the choice against means alone, 16 other networks

No suite contains any of them. Each network has several designs, and no other truth is needed: a design's own mean y is
unbiased, so a corrected one, y + c, has the error Var(y + c) + |E c|². Both parts are estimated without bias from the
designs' spread. The changes are paired. Nothing is pruned here, since that is the same in both.
"""

import sys
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from training import plus_minus

from estimators.kerdock import ANCHORED, CHAIN, SPREAD, Kerdock
from whest.dataset.sources import FreshDataset
from whest.dataset.suite import SUITE_ROOTS
from whest.scoring.paired import Paired, verdict
from whest.truth.designs import kerdock_signs

WIDTH, DEPTH = 256, 32
ROOTS = {"fit": (7421, 16), "confirm": (7422, 16)}
LAYERS, SHARES = (9, 10, 11, 12), (0.0, 0.3, 0.4, 0.5, 0.75)
N_DESIGNS = 6
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""The chain runs once per network: compiling it well takes longer than running it."""


class Choice(NamedTuple):
    layer: int
    share: float | None
    """The weight of the covariance's error; None: means alone."""


def error(corrected: np.ndarray, plain: np.ndarray) -> float:
    """The mean square error of one corrected design, from several: variance and squared bias."""
    change = corrected - plain
    squared_bias = np.mean(change.mean(axis=0) ** 2 - change.var(axis=0, ddof=1) / len(change))
    return float(corrected.var(axis=0, ddof=1).mean() + squared_bias)


def errors(purpose: str, choices: list[Choice]) -> dict[Choice, np.ndarray]:
    root, number = ROOTS[purpose]
    assert root not in SUITE_ROOTS.values(), "a suite's own networks are for scoring"
    kerdock, signs = Kerdock(0.1, 1.0, 0.0, "none", 0, 0), jnp.asarray(kerdock_signs(WIDTH))
    samples = {
        layer: jax.jit(partial(kerdock.sampled, turns=1, signs=signs, layer=layer))
        for layer in {choice.layer for choice in choices if choice.share is not None}
    }
    dense = replace(CHAIN, strassen_levels=0)
    chain, correct = jax.jit(dense.moments, compiler_options=QUICKLY), jax.jit(kerdock.corrected)
    dataset = FreshDataset(width=WIDTH, depth=DEPTH, seed=root, n_mlps=number).load()
    found: dict[Choice, list[float]] = {choice: [] for choice in choices}
    for row in dataset.rows:
        weights = jnp.asarray(dataset.mlp(row).weights)
        known, covariances = chain(weights[: max(LAYERS)])
        plain, answers = [], {choice: [] for choice in choices}  # type: ignore[var-annotated]
        for design in range(N_DESIGNS):
            key = jax.random.key(1000 * row.index + design)
            sampled = {layer: sample(weights, key) for layer, sample in samples.items()}
            means = next(iter(sampled.values()))[0]
            plain.append(np.asarray(means[-1], np.float64))
            for choice in choices:
                layer, share = choice
                spreads = None if share is None else (covariances[layer - 1], sampled[layer][1])
                answer = correct(means, weights, known[:layer], spreads, 0.0 if share is None else share)
                answers[choice].append(np.asarray(answer[-1], np.float64))
        for choice in choices:
            found[choice].append(error(np.stack(answers[choice]), np.stack(plain)))
        print(f"network {row.index + 1} of {number}", file=sys.stderr, flush=True)
    return {choice: np.array(values) for choice, values in found.items()}


def main() -> None:
    purpose = sys.argv[1] if len(sys.argv) > 1 else "confirm"
    before, ours = Choice(ANCHORED, None), Choice(ANCHORED, SPREAD)
    tried = [Choice(layer, share) for layer in LAYERS for share in SHARES] if purpose == "fit" else [ours]
    found = errors(purpose, [before, *tried])
    base = found[before]
    print("| layers | weight of the covariance | raw MSE | paired change |\n|---|---|---|---|")
    for (layer, share), values in found.items():
        kind = "means alone" if share is None else share
        print(f"| {layer} | {kind} | {plus_minus(values)} | {plus_minus((values - base) / base.mean())} |", flush=True)
    if purpose == "confirm":
        print(verdict(Paired(found[ours], base), "with the covariance", "means alone"))


if __name__ == "__main__":
    main()
