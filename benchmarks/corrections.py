"""What each correction of matrix_core buys, on networks of no suite: paired differences with the plain expansion.

    python benchmarks/corrections.py                  # 24 networks of 256x8, full and lean sources
    python benchmarks/corrections.py 1024 16 12       # width, depth, number of networks; lean sources only

Five minutes at 256x8 on two quiet cores if the truth is in the cache (`fit_constants.py` draws the same), hours at
1024x16, almost all of it for truth.
"""

import sys
from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np
from jaxtyping import Array, Float
from training import networks, plus_minus

from estimators.matrix_core import CORE_SHRINK, RADIAL, TERMS, THINNED, MatrixCore
from estimators.parts.cumulant_chain import propagate
from estimators.parts.cumulants import Terms
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sources import Sources, Third
from estimators.parts.strassen import Strassen
from estimators.parts.thinning import Thinning
from whest.truth.fast import FastTruth

SEED = 5150
PLAIN = TERMS._replace(gates=None, legs=None)
Answer = Callable[[Float[np.ndarray, "depth width width"]], Float[Array, "depth width"]]


def chain(core: MatrixCore, terms: Terms, third: Third) -> Answer:
    return jax.jit(lambda w: propagate(w, core, terms, core.radial, Strassen(0), third))


def tries(width: int, is_lean: bool) -> dict[str, Answer]:
    """The plain expansion on the sphere, then one correction after the other."""
    scale = 1 - CORE_SHRINK / width
    sphere = MatrixCore(scale, not is_lean, 1)
    whole = replace(sphere, radial=RADIAL)
    third: Third = LeanSources() if is_lean else Sources()
    found = {
        "plain": chain(sphere, PLAIN, third),
        "+ legs": chain(sphere, PLAIN._replace(legs=1), third),
        "+ gates": chain(sphere, TERMS, third),
        f"+ radius to the power {RADIAL}": chain(whole, TERMS, third),
    }
    if is_lean:
        third = LeanSources(Thinning(width, THINNED))
        found["+ thinned"] = chain(whole, TERMS, third)
    return found | {"+ spread (not adopted)": chain(replace(whole, spread=True), TERMS, third)}


def main() -> None:
    width, depth, number = (int(word) for word in sys.argv[1:4]) if len(sys.argv) > 1 else (256, 8, 24)
    target = 3e-4 if width <= 256 else 1e-4
    nets = networks(width, depth, SEED, number, FastTruth(2, standard_error=target))
    for is_lean in (False, True) if width <= 256 else (True,):
        kind = "lean" if is_lean else "full"
        print(f"| {kind} sources, {width}x{depth}, {number} networks | raw MSE | paired change | from the row above |")
        print("|---|---|---|---|")
        first: np.ndarray | None = None
        above: np.ndarray | None = None
        for label, answer in tries(width, is_lean).items():
            errors = np.array([net.error(np.asarray(answer(net.weights))[-1]) for net in nets])
            first, above = (errors if x is None else x for x in (first, above))
            changes = (plus_minus((errors - x) / x.mean()) for x in (first, above))
            print(f"| {label} | {plus_minus(errors)} | {' | '.join(changes)} |", flush=True)
            above = errors


if __name__ == "__main__":
    main()
