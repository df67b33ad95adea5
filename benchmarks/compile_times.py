"""How large the programs of the frontier methods are, and how long XLA compiles them, in CPU seconds.

    python benchmarks/compile_times.py                    # size, tracing and lowering: a minute
    python benchmarks/compile_times.py compile            # and compiling, without the cache: ten minutes or more
    python benchmarks/compile_times.py compile 256x8      # only the programs with this in their name
    python benchmarks/compile_times.py compile frontier large    # the three experiments, as a run compiles them

Each program is compiled with XLA's own options and with those that a run has for a large program, each in a process of
its own, and answers twice; the second answer is timed. CPU seconds grow with the machine's load too, so compare two
rows only if they ran side by side.
"""

import os
import resource
import subprocess
import sys
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from estimators.kerdock import Kerdock
from estimators.matrix_core import CORE_SHRINK, RADIAL, THINNED, MatrixCoreProp
from whest.estimator.traced import LARGE_OPTIONS
from whest.metering import meter


def kerdock(weights: Array) -> Array:
    return Kerdock(0.1, 1.0, 0.3, "cumulants", 5, 0).designs(weights, jax.random.key(0), 1)


CORE = partial(MatrixCoreProp, RADIAL, CORE_SHRINK, third_in_core=None, strassen_levels=None, thinned=THINNED)
PROGRAMS = {
    "frontier_warmup: matrix_core, full, 256x8": (CORE(sources="full", shared=False).means, 256, 8),
    "matrix_core, lean, 256x8": (CORE(sources="lean", shared=False).means, 256, 8),
    "frontier_phase1: kerdock, 256x32": (kerdock, 256, 32),
    "matrix_core, lean, 1024x16": (CORE(sources="lean", shared=False).means, 1024, 16),
    "frontier_phase2: matrix_core, shared, 1024x16": (CORE(sources="lean", shared=True).means, 1024, 16),
}


OPTIONS: dict[str, dict[str, bool | int]] = {"XLA's own": {}, "large": LARGE_OPTIONS}


def lower(name: str) -> Any:
    run, width, depth = PROGRAMS[name]
    return jax.jit(run).lower(jax.ShapeDtypeStruct((depth, width, width), jnp.float32))


def compile_one(name: str, how: str) -> None:
    """In a process of its own: one row."""
    lowered = lower(name)
    cpu, wall = time.process_time(), time.perf_counter()
    run = lowered.compile(compiler_options=OPTIONS[how])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    _, width, depth = PROGRAMS[name]
    weights = jax.random.normal(jax.random.key(0), (depth, width, width)) * (2 / width) ** 0.5
    jax.block_until_ready(run(weights))
    started, busy = time.perf_counter(), time.process_time()
    jax.block_until_ready(run(weights))
    answer, busy = time.perf_counter() - started, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| {name} | {how} | {cpu:.0f} | {wall:.0f} | {peak:.1f} | {busy:.2f} | {answer:.2f} |", flush=True)


def main(*words: str) -> None:
    asked = [word for word in words if word not in ("compile", *OPTIONS)]
    names = [name for name in PROGRAMS if all(word in name for word in asked)]
    print(f"load {os.getloadavg()[0]:.0f}\n")
    if "compile" in words:
        print("| program | options | compile, CPU s | wall s | peak GB | answer, CPU s | wall s |")
        print("|---" * 7 + "|", flush=True)
        for name in names:
            for how in [how for how in OPTIONS if how in words] or OPTIONS:
                subprocess.run([sys.executable, __file__, "one", name, how], check=True)
        return
    print("| program | FLOPs | lines | trace and lower, s |\n|---|---|---|---|", flush=True)
    for name in names:
        run, width, depth = PROGRAMS[name]
        flops, started = meter(run)(jax.ShapeDtypeStruct((depth, width, width), jnp.float32)).flops, time.process_time()
        lowered = lower(name)
        spent = time.process_time() - started
        print(f"| {name} | {flops:.4g} | {len(lowered.as_text().splitlines()):,} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    _, *given = sys.argv
    if given[:1] == ["one"]:
        compile_one(*given[1:])
    else:
        main(*given)
