"""The machine and the version of the code that made a run."""

import atexit
import gc
import os
import platform
import socket
import subprocess
import sys
import sysconfig
import threading
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from whest.document import HostJson

PACKAGE = Path(__file__).parent

IS_INSTALLED = (PACKAGE / "conf" / "config.yaml").exists()
"""Whether this is a wheel's copy: there the configs lie inside the package, and no Makefile is near."""

CONFIGS = PACKAGE / "conf" if IS_INSTALLED else PACKAGE.parent / "conf"
ESTIMATORS = PACKAGE.parent / ("whest_estimators" if IS_INSTALLED else "estimators")
"""The bundled estimators. A wheel doesn't take the name `estimators` away from others (`whest.estimator.bundled`)."""
"""The folder of whest's own code."""

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))

VECTOR_FLAGS = ("sse4", "avx", "fma", "f16c", "amx", "asimd", "sve", "neon", "bf16")

SKIP_PROBES = "WHEST_SKIP_HARDWARE_FALLBACK_PROBES"
"""WhestBench's variable: no other program is started to learn about the machine."""


def collect_less() -> None:
    """Look for unreachable cycles seldom: importing makes a million objects that stay, and looking costs 0.2 s."""
    gc.set_threshold(200_000, 50, 100)


def leave(exit_code: int, at_once: bool = False) -> NoReturn:
    """End the process without freeing its memory piece by piece, which takes 0.4 s.

    Exit functions are called unless it must end at once.
    """
    if not at_once:
        if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
            sys.exit(exit_code)
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or a pipe that nobody reads
            stream.flush()
    os._exit(exit_code)


@cache
def describe_host() -> "HostJson":
    """The report's `run_meta.host`. A value that can't be found is None."""
    import jax
    import psutil

    device = jax.devices()[0]
    return {
        "hostname": socket.gethostname(),
        "os": platform.system(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "python_version": platform.python_version(),
        "cpu_brand": _cpu_brand(),
        "cpu_features": _cpu_features(),
        "xla_flags": os.environ.get("XLA_FLAGS") or None,
        "cpu_count_logical": os.cpu_count(),
        "cpu_count_physical": psutil.cpu_count(logical=False),
        "ram_total_bytes": psutil.virtual_memory().total,
        "numpy_version": _version("numpy"),
        "jax_version": _version("jax"),
        "jaxlib_version": _version("jaxlib"),
        "backend": jax.default_backend(),
        "device": device.device_kind,
    }


@cache
def multiplies_bfloat16() -> bool:
    """Whether the device has instructions for products of bfloat16. Of an unknown processor we assume so."""
    import jax

    features = _cpu_features() if jax.default_backend() == "cpu" else None
    return features is None or "bf16" in features


def page(name: str) -> str:
    """Where a page of docs/ is to be read: in the checkout, or as the copy that a wheel has."""
    return str(PACKAGE / "docs" / name) if IS_INSTALLED else f"docs/{name}"


def advice(make: str, elsewhere: str) -> str:
    """A command of the checkout's Makefile, or its like where there is no checkout."""
    return elsewhere if IS_INSTALLED else make


@cache
def code_version() -> str | None:
    """The checkout's commit, marked as dirty if files differ from it; None for an installed package."""
    root = PACKAGE.parent
    if not (root / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None


def is_users_code(filename: str) -> bool:
    """Whether a traceback's frame is in the user's own file: not in whest, in a library or in Python itself."""
    path = Path(filename)
    library = "site-packages" in path.parts or path.is_relative_to(STANDARD_LIBRARY) or filename.startswith("<")
    return not library and not path.is_relative_to(PACKAGE)


def _cpu_brand() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None if os.environ.get(SKIP_PROBES) else platform.processor() or None  # may start `uname`
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _cpu_features() -> str | None:
    """The vector instructions of a processor, which its name doesn't always tell. XLA's code depends on them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), None)
    return None if flags is None else " ".join(sorted(flag for flag in flags if flag.startswith(VECTOR_FLAGS)))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
