"""The machine and the version of the code that made a run."""

import atexit
import gc
import os
import platform
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from whest.document import HostJson

PACKAGE = Path(__file__).parent
"""The folder of whest's own code."""

HOME = PACKAGE.parent
"""The checkout, or the folder of installed packages."""


def leave_working_folder(paths: list[str]) -> None:
    """Take off the entry that `python -m` puts first, the working folder, unless whest itself is there.

    PYTHONPATH=. puts it back for a person who wants it.
    """
    if paths and not sys.flags.safe_path and Path(paths[0] or ".").resolve() == Path.cwd().resolve() != HOME.resolve():
        del paths[0]


def collect_less() -> None:
    """Look for unreachable cycles seldom: importing makes a million objects that stay, and looking costs 0.2 s."""
    gc.set_threshold(200_000, 50, 100)


def leave(exit_code: int) -> NoReturn:
    """End the process with all exit functions, but without freeing its memory piece by piece, which takes 0.4 s."""
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
    """Whether a traceback's frame is in the user's own file: not in whest and not in an installed library."""
    path = Path(filename)
    return "site-packages" not in path.parts and not path.is_relative_to(PACKAGE)


def _cpu_brand() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
