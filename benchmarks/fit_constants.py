"""Fit matrix_core's constants by differentiating through the whole chain, and test them on held-out networks.

    python benchmarks/fit_constants.py            # 20 networks of 256x8 to fit on, 12 to confirm

It takes ten minutes on two quiet cores, half of it for truth. The free constants are the scale of the core's diagonal
and the weight of every term beyond the simple closure; 1 is the expansion's own value. A Gauss–Newton step solves
min ‖r + Jδ‖² over all final-layer residuals r, with J by forward differentiation of the chain. A set of constants is
worth adopting if it lowers the error on the held-out networks by more than two standard errors of the paired
difference. Only the scale was adopted, written as 1 − core_shrink/width.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from training import Network, networks, plus_minus

from estimators.matrix_core import RADIAL, TERMS, MatrixCore
from estimators.parts.cumulant_chain import propagate
from estimators.parts.cumulants import Terms
from estimators.parts.strassen import Strassen
from whest.truth.fast import FastTruth

WIDTH, DEPTH, SEED = 256, 8, 5150
N_FIT, N_HELD_OUT = 20, 12
STEPS = 2
NAMES = ("core_scale", *Terms._fields)
START = np.array([1.0, *(float(weight) for weight in TERMS if weight is not None)])
SETS = {"core_scale": ["core_scale"], "all": list(NAMES)}

Constants = Float[Array, " constants"]


@jax.jit
def final_means(constants: Constants, weights: Float[Array, "depth width width"]) -> Float[Array, " width"]:
    core = MatrixCore(constants[0], third_in_core=True, radial=RADIAL)
    return propagate(weights, core, Terms(*constants[1:]), RADIAL, Strassen(0))[-1]


@jax.jit
def derivatives(constants: Constants, weights: Float[Array, "depth width width"]) -> Float[Array, "constants width"]:
    """One constant at a time, so that the memory is only twice that of the chain."""
    _, linear = jax.linearize(lambda c: final_means(c, weights), constants)
    return jax.lax.map(linear, jnp.eye(len(constants)))


def errors(constants: np.ndarray, nets: list[Network]) -> np.ndarray:
    at = jnp.asarray(constants, jnp.float32)
    return np.array([net.error(np.asarray(final_means(at, net.weights))) for net in nets])


def step(constants: np.ndarray, free: list[int], nets: list[Network]) -> np.ndarray:
    """One Gauss–Newton step in the free constants."""
    normal, gradient = np.zeros((len(free), len(free))), np.zeros(len(free))
    at = jnp.asarray(constants, jnp.float32)
    for net in nets:
        jacobian = np.asarray(derivatives(at, net.weights), np.float64)[free]
        residual = np.asarray(final_means(at, net.weights), np.float64) - net.means
        normal += jacobian @ jacobian.T
        gradient += jacobian @ residual
    moved = constants.copy()
    moved[free] -= np.linalg.solve(normal, gradient)
    return moved


def main() -> None:
    nets = networks(WIDTH, DEPTH, SEED, N_FIT + N_HELD_OUT, FastTruth(2, standard_error=3e-4))
    fit, held_out = nets[:N_FIT], nets[N_FIT:]
    before = errors(START, held_out)
    print(f"| free | constants | fit ({N_FIT}) | held out ({N_HELD_OUT}) | paired change |\n|---|---|---|---|---|")
    print(f"| none | all 1 | {plus_minus(errors(START, fit))} | {plus_minus(before)} | – |", flush=True)
    for label, names in SETS.items():
        constants = START
        for _ in range(STEPS):
            constants = step(constants, [NAMES.index(name) for name in names], fit)
        after = errors(constants, held_out)
        change = plus_minus((after - before) / before.mean())
        values = ", ".join(f"{name} {constants[NAMES.index(name)]:.3g}" for name in names)
        print(
            f"| {label} | {values} | {plus_minus(errors(constants, fit))} | {plus_minus(after)} | {change} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
