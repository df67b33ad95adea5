"""Checks of the devices, their speed, and the protections that the kernel offers for workers."""

import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from whest.checks.finding import Finding
from whest.isolation.protections import MEANING
from whest.isolation.walls import bwrap

SIDE = 1024
ROUNDS = 3
SLOW_GFLOPS_PER_CORE = {"float32": 4.0, "float64": 2.0}
"""A slower core makes one or two multiply-adds per cycle: no vector units, a build without them, or a busy machine."""

REMEDIES = {
    "files": "a Linux kernel since 5.13 with Landlock (boot with lsm=landlock,…), or user namespaces (below)",
    "network": "Linux on x86_64 or aarch64 with seccomp filters, which every common kernel has",
    "processes": "Linux on x86_64 or aarch64 with seccomp filters, which every common kernel has",
    "memory": "set memory_limit_mb=4000, or another limit",
    "disk": "Linux: a worker's scratch folder is limited there",
}
"""How to get a protection that is missing."""

NAMESPACES = (
    "for two walls instead of one, allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 or "
    "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt seccomp=unconfined"
)

BWRAP = {
    False: "; or install bubblewrap, whose bwrap may be given what workers aren't",
    True: "; bwrap is installed and was tried, but can't build the worker's room here either",
}
"""By whether bwrap is there."""

LINUX_ONLY = "run whest on Linux, in a container or a virtual machine; isolation.require=[] runs code that you trust"


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


def check_sandbox() -> list[Finding]:
    """Start a process in the sandbox, as a worker, and read which protections work."""
    from whest.errors import WhestError
    from whest.isolation.messages import WorkerFailedError
    from whest.isolation.trial import try_walls

    try:
        return judge_protections(try_walls())
    except (OSError, WhestError, WorkerFailedError) as error:
        return [Finding("walls", "fail", f"no worker could be started ({error})", "run as an ordinary user")]


def judge_protections(found: dict[str, str], platform: str = sys.platform) -> list[Finding]:
    """One finding for each protection: the mechanisms that held, or how to get one."""
    findings = []
    for name, prevented in MEANING.items():
        held = found.get(name, "")
        if not held:
            told = f"nothing keeps a worker from {prevented}"
            is_elsewhere = name != "memory" and not platform.startswith("linux")
            remedy = LINUX_ONLY if is_elsewhere else REMEDIES[name]
            findings.append(Finding(f"walls: {name}", "warn", told, remedy))
        else:
            told = f"{held}: tried, and a worker is kept from {prevented}"
            only_one = name == "files" and held == "landlock"
            hint = NAMESPACES + BWRAP[bwrap.find() is not None]
            findings.append(Finding(f"walls: {name}", "ok", f"{told}; {hint}" if only_one else told))
    return findings
