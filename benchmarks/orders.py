"""How the errors of four closures fall with the width: the exponents of the expansion, against the theory's.

    python benchmarks/orders.py                    # 16 networks of each width, four layers
    python benchmarks/orders.py 4 16 32 64 128     # depth, number of networks, widths

A mean that is wrong at the order n^(−k/2) has a mean square error of n^(−k). The exponents are fitted to the logarithms
of the mean errors, each weighed by its standard error. Two minutes on a quiet core.
"""

import sys
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Float
from training import networks, plus_minus

from estimators.cov_prop import CovarianceProp
from estimators.matrix_core import CORE_SHRINK, RADIAL, TERMS, MatrixCore
from estimators.parts.cumulant_chain import propagate
from estimators.parts.cumulants import Terms
from estimators.parts.strassen import Strassen
from estimators.third_cumulant import ScalarCore
from whest.truth.fast import FastTruth

SEED, DEFAULTS = 8191, (4, 16, 32, 64, 128)
SE_AT_64 = 1e-3
"""The truth's standard error; it falls as width^(−3/2)."""
Answer = Callable[[Float[np.ndarray, "depth width width"]], Float[Array, "depth width"]]


def closures(width: int) -> dict[str, Answer]:
    product = Strassen(0)
    core = MatrixCore(1 - CORE_SHRINK / width, True, RADIAL)
    plain = MatrixCore(1.0, True, 1)
    return {
        "Gaussian (`cov_prop`)": CovarianceProp(sphere=True).means,
        "κ₃, one number for κ₄ (`third_cumulant`)": lambda w: propagate(w, ScalarCore(), Terms(), 1, product),
        "κ₃, B, plain": lambda w: propagate(w, plain, TERMS._replace(gates=None, legs=None), 1, product),
        "κ₃, B, corrected (`matrix_core`)": lambda w: propagate(w, core, TERMS, RADIAL, product),
    }


def slope(errors: dict[int, np.ndarray]) -> str:
    """The exponent of the width and its standard error."""
    logs = np.array([np.log(x.mean()) for x in errors.values()])
    weights = np.array([x.mean() / (x.std(ddof=1) / np.sqrt(len(x))) for x in errors.values()])
    design = np.stack([np.log(list(errors)), np.ones(len(errors))], axis=1) * weights[:, None]
    covariance = np.linalg.inv(design.T @ design)
    return f"{(covariance @ design.T @ (logs * weights))[0]:.2f} ± {np.sqrt(covariance[0, 0]):.2f}"


def main() -> None:
    depth, number, *widths = (int(word) for word in sys.argv[1:]) if len(sys.argv) > 1 else DEFAULTS
    found: dict[str, dict[int, np.ndarray]] = {}
    for width in widths:
        sampler = FastTruth(2, standard_error=SE_AT_64 * (64 / width) ** 1.5 * (depth / 4))
        nets = networks(width, depth, SEED, number, sampler)
        for name, means in closures(width).items():
            answer = jax.jit(means)
            errors = np.array([net.error(np.asarray(answer(net.weights))[-1]) for net in nets])
            found.setdefault(name, {})[width] = errors
            print(width, name, plus_minus(errors), file=sys.stderr, flush=True)
    print(f"| raw MSE, {depth} layers, {number} networks | {' | '.join(map(str, widths))} | exponent |")
    print("|---|" + "---|" * (len(widths) + 1))
    for name, by_width in found.items():
        print(f"| {name} | {' | '.join(plus_minus(x) for x in by_width.values())} | {slope(by_width)} |")


if __name__ == "__main__":
    main()
