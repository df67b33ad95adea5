"""Checks of the devices, their speed, and the protections that the kernel offers for workers."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from whest.checks.finding import Finding

SIDE = 1024
ROUNDS = 3
SLOW_GFLOPS_PER_CORE = {"float32": 4.0, "float64": 2.0}
"""A slower core makes one or two multiply-adds per cycle: no vector units, a build without them, or a busy machine."""

SANDBOX = """
import json, sys, tempfile
from whest.isolation.sandbox import enter
found = enter([], tempfile.mkdtemp())
print(json.dumps(found))
"""

ABILITIES = {
    "no_network": "no network",
    "hidden_answers": "no access to the answers",
    "own_processes": "no access to other processes",
    "read_only_files": "no writable files",
}


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_devices(device: str) -> Finding:
    import jax

    logging.getLogger("jax").setLevel(logging.WARNING)
    try:
        devices = jax.devices() if device == "auto" else jax.devices(device)
    except RuntimeError as error:
        problem = f"JAX finds no device={device} ({str(error).splitlines()[0]})"
        return Finding("devices", "fail", problem, "use device=cpu, or install JAX for your accelerator")
    kinds = ", ".join(sorted({f"{device.platform} {device.device_kind}" for device in devices}))
    return Finding("devices", "ok", f"{len(devices)}: {kinds}, {usable_cores()} CPU cores for this process")


def check_rates() -> list[Finding]:
    """Measure matrix products with NumPy's BLAS and with XLA, and judge them by the number of cores."""
    import jax
    import jax.numpy as jnp

    findings = []
    for dtype in SLOW_GFLOPS_PER_CORE:
        ours = np.ones((SIDE, SIDE), dtype)
        blas = measured_gflops(partial(np.matmul, ours, ours))
        with jax.enable_x64(True):
            theirs, product = jnp.asarray(ours), jax.jit(jnp.matmul)
            xla = measured_gflops(lambda: jax.block_until_ready(product(theirs, theirs)))  # noqa: B023, called here
        findings.append(judge_rate(dtype, blas, xla, usable_cores()))
    return findings


def measured_gflops(multiply: Callable[[], object]) -> float:
    """The best of ROUNDS measurements, after one to warm up."""
    multiply()
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        multiply()
        seconds.append(time.perf_counter() - started)
    return 2 * SIDE**3 / min(seconds) / 1e9


def judge_rate(dtype: str, blas: float, xla: float, cores: int) -> Finding:
    expected = SLOW_GFLOPS_PER_CORE[dtype] * cores
    detail = f"XLA {xla:.3g} GFLOP/s, BLAS {blas:.3g}; {cores} cores should reach at least {expected:.3g}"
    if xla < expected:
        remedy = "is the machine busy, or the process restricted (taskset, a container)? Runs will be slow, not wrong"
        return Finding(f"matmul {dtype}", "warn", detail, remedy)
    return Finding(f"matmul {dtype}", "ok", detail)


def check_sandbox() -> Finding:
    """Start a process in the sandbox, as a worker, and read which protections work."""
    try:
        tried = subprocess.run([sys.executable, "-c", SANDBOX], capture_output=True, text=True, timeout=60)
        found: dict[str, bool] = json.loads(tried.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Finding("sandbox", "warn", f"could not be tested ({error})", "workers still run; see docs/trust.md")
    return judge_sandbox(found)


def judge_sandbox(found: dict[str, bool]) -> Finding:
    missing = [words for key, words in ABILITIES.items() if not found.get(key)]
    if not missing:
        return Finding("sandbox", "ok", f"a worker has {', '.join(ABILITIES.values())}")
    return Finding(
        "sandbox",
        "warn",
        f"this kernel does not offer: {', '.join(missing)}",
        "run only estimators that you trust, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "or kernel.apparmor_restrict_unprivileged_userns=0)",
    )
