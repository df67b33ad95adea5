"""How large the programs of the frontier methods are, and how long XLA compiles them, in CPU seconds.

    python benchmarks/compile_times.py            # size, tracing and lowering: a minute
    python benchmarks/compile_times.py compile    # and compiling, without the cache: ten minutes on a quiet machine

CPU seconds grow with the machine's load too, so compare two versions only if they ran side by side.
"""

import os
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array

from estimators.kerdock import Kerdock
from estimators.matrix_core import CORE_SHRINK, RADIAL, THINNED, MatrixCoreProp
from whest.metering import meter


def kerdock(weights: Array) -> Array:
    return Kerdock(0.1, 1.0, 0.3, "cumulants", 4, 0).designs(weights, jax.random.key(0), 1)


CORE = partial(MatrixCoreProp, RADIAL, CORE_SHRINK, third_in_core=None, strassen_levels=None, thinned=THINNED)
PROGRAMS = {
    "matrix_core, full, 256x8": (CORE(sources="full", shared=False).means, 256, 8),
    "matrix_core, lean, 256x8": (CORE(sources="lean", shared=False).means, 256, 8),
    "kerdock, 256x32": (kerdock, 256, 32),
    "matrix_core, lean, 1024x16": (CORE(sources="lean", shared=False).means, 1024, 16),
    "matrix_core, shared, 1024x16": (CORE(sources="lean", shared=True).means, 1024, 16),
}


def main() -> None:
    print(f"load {os.getloadavg()[0]:.0f}\n")
    print("| program | FLOPs | lines | trace and lower, s | compile, s |\n|---|---|---|---|---|", flush=True)
    for name, (run, width, depth) in PROGRAMS.items():
        shape = jax.ShapeDtypeStruct((depth, width, width), jnp.float32)
        flops, started = meter(run)(shape).flops, time.process_time()
        lowered = jax.jit(run).lower(shape)
        before = time.process_time()
        if "compile" in sys.argv:
            lowered.compile()
        spent = f"{time.process_time() - before:.0f}" if "compile" in sys.argv else "–"
        lines = len(lowered.as_text().splitlines())
        print(f"| {name} | {flops:.4g} | {lines:,} | {before - started:.1f} | {spent} |", flush=True)


if __name__ == "__main__":
    main()
