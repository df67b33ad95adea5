"""How far kerdock believes matrix_core at 256x8, where `job=explain` finds that nine tenths of its error is bias.

    python benchmarks/shallow_anchors.py

The shares of `estimators.parts.chain.anchored` are min(1, max(0, believed − layer)/fading). The choice is made on 8
networks and confirmed on 12 others, against the shares of the default; no suite contains any of them. Changes are
paired. There is one design per network.
"""

from functools import partial

import jax
import numpy as np
from training import networks, plus_minus

from estimators.kerdock import BELIEVED, FADING, Kerdock
from estimators.matrix_core import CORE_SHRINK, RADIAL, THINNED, MatrixCoreProp
from estimators.parts.chain import anchored
from whest.scoring.paired import Paired, verdict
from whest.truth.fast import FastTruth

WIDTH, DEPTH = 256, 8
ROOTS = {"fit": (6171, 8), "held out": (6172, 12)}
CHOICES = [(b, f) for b in (6, 7, 8, 9, 10, 11, 12, 13, 15) for f in (2, 4, 6, 8, 10) if b - f >= 1]
DEFAULT = (BELIEVED, FADING)


def errors(purpose: str, choices: list[tuple[int, int]]) -> dict[tuple[int, int], np.ndarray]:
    root, n = ROOTS[purpose]
    nets = networks(WIDTH, DEPTH, root, n, FastTruth(2, standard_error=2e-4))
    sample = jax.jit(partial(Kerdock(0.1, 1.0, 0.3, "none", 0, 0).designs, designs=1))
    analytic = jax.jit(MatrixCoreProp(RADIAL, CORE_SHRINK, "lean", False, 0, THINNED, False).means)
    correct = jax.jit(anchored)
    found: dict[tuple[int, int], list[float]] = {choice: [] for choice in choices}
    for index, net in enumerate(nets):
        means, known = sample(net.weights, jax.random.key(index)), analytic(net.weights)
        for b, f in choices:
            shares = tuple(min(1.0, max(0, b - layer) / f) for layer in range(1, DEPTH + 1))
            found[b, f].append(net.error(np.asarray(correct(means, net.weights, known, shares)[-1])))
    return {choice: np.array(values) for choice, values in found.items()}


def main() -> None:
    fitted = errors("fit", CHOICES)
    base = fitted[DEFAULT]
    print("| believed | fading | raw MSE | paired change |\n|---|---|---|---|")
    for (b, f), values in fitted.items():
        change = (values - base) / base.mean()
        print(f"| {b} | {f} | {plus_minus(values)} | {plus_minus(change)} |", flush=True)
    best = min(fitted, key=lambda choice: float(fitted[choice].mean()))
    held = errors("held out", [DEFAULT, best])
    ours, theirs = held[best], held[DEFAULT]
    print(f"\nheld out: believed {best[0]}, fading {best[1]}: {plus_minus(ours)} against {plus_minus(theirs)}")
    print(f"paired change {plus_minus((ours - theirs) / theirs.mean())}")
    print(verdict(Paired(ours, theirs), f"believed {best[0]}, fading {best[1]}", "the default"))


if __name__ == "__main__":
    main()
