"""Training repeats on other machines: XLA's threads and vectors are set, whatever the processor has."""

import os
import platform
import subprocess
import sys

import pytest

from whest.tasks.exam.plan import SAME_VECTORS, same_rounding

SUMS = """
import hashlib, sys
import jax, numpy as np
x = np.random.default_rng(0).standard_normal((516, 131)).astype(np.float32)
f = jax.jit(lambda a: (a.sum(0), a.T @ a))
print(hashlib.sha256(b"".join(np.asarray(part).tobytes() for part in f(x))).hexdigest())
"""


def test_ones_own_variables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert same_rounding() == {"NPROC": "2", "XLA_FLAGS": SAME_VECTORS}
    monkeypatch.setenv("NPROC", "8")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX512")
    found = same_rounding()
    assert found["NPROC"] == "8"
    assert found["XLA_FLAGS"].endswith(" --xla_cpu_max_isa=AVX512")  # the last of two counts
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert same_rounding() == {"NPROC": "8"}


def summed(n_cores: int | None, **variables: str) -> str:
    """A digest of long sums, made in a process that may use so many cores."""
    limit = (
        "" if n_cores is None else f"import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{n_cores}])\n"
    )
    environment = {**os.environ, "XLA_FLAGS": "", **variables}
    command = [sys.executable, "-c", limit + SUMS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_with_its_threads_set_a_sum_does_not_depend_on_the_cores() -> None:
    """And without them it does: that is what made exams differ from machine to machine."""
    two = summed(None, NPROC="2")
    assert summed(1, NPROC="2") == two
    assert summed(None, NPROC="1") != two
    if platform.machine() == "x86_64":
        assert summed(None, NPROC="2", XLA_FLAGS=SAME_VECTORS) == two
