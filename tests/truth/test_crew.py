"""A crew of processes draws the numbers of one process with one thread."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np
import psutil
import pytest

from whest.dataset.dataset import Dataset
from whest.dataset.sources import FreshDataset
from whest.errors import WhestError
from whest.truth.cache import TruthCache
from whest.truth.crew import LONG_FLOPS, Crew, is_long, usable_cores
from whest.truth.fast import FastTruth
from whest.truth.plain import PlainTruth

BAKE = "job=bake dataset=fresh seed=7 dataset.width=16 dataset.depth=3 dataset.n_mlps=3 console=text".split()
PATIENCE_S = 120
SINGLE = """
import sys
from pathlib import Path
from whest.dataset.sources import FreshDataset
from whest.truth.cache import TruthCache
from whest.truth.fast import FastTruth
dataset = FreshDataset(16, 3, 7, 3).load()
for row in dataset.rows:
    TruthCache(Path(sys.argv[1])).draw(FastTruth(50_000), dataset.mlp(row))
"""


def small() -> Dataset:
    return FreshDataset(16, 3, 7, 3).load()


def test_long_draws_are_those_of_many_flops() -> None:
    n = int(LONG_FLOPS / (2 * 256**2 * 8 * 10)) + 1
    assert is_long(FastTruth(n), 256, 8, 10)
    assert not is_long(FastTruth(n), 256, 8, 9)
    assert not is_long(FastTruth(100 * n), 256, 8, 1), "a crew has nothing to share"
    assert is_long(FastTruth(2, standard_error=1e-5), 256, 8, 10)
    assert not is_long(FastTruth(2, standard_error=1e-2), 256, 8, 10)


@pytest.mark.parametrize(("told", "expected"), [("1", 1), ("3", 3), ("0", 1), ("many", None), (None, None)])
def test_cores_are_those_that_xla_would_use(
    told: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    jax.devices()  # XLA reads NPROC when it starts, and keeps it
    monkeypatch.delenv("NPROC", raising=False)
    if told is not None:
        monkeypatch.setenv("NPROC", told)
    assert usable_cores() == (expected or len(os.sched_getaffinity(0)))


def test_a_crew_without_mlps_starts_no_process(tmp_path: Path) -> None:
    with Crew(2, TruthCache(tmp_path), FastTruth(1000), []) as crew:
        assert not crew._processes


@pytest.mark.slow
def test_a_crew_draws_the_bits_of_one_thread(tmp_path: Path) -> None:
    dataset, sampler, cache = small(), FastTruth(50_000), TruthCache(tmp_path / "crew")
    with Crew(2, cache, sampler, [partial(dataset.mlp, row) for row in dataset.rows]) as crew:
        for place in range(3):
            stages = list(crew.stages(place))
            assert stages[-1].seconds is not None
            assert stages[-1].n_samples >= 50_000
    alone = [sys.executable, "-c", SINGLE, str(tmp_path / "single")]
    subprocess.run(alone, check=True, env={**os.environ, "NPROC": "1"})
    for row in dataset.rows:
        mlp = dataset.mlp(row)
        truths = [TruthCache(tmp_path / name).find(sampler, mlp) for name in ("crew", "single")]
        assert truths[0] is not None
        assert truths[1] is not None
        np.testing.assert_array_equal(truths[0].means, truths[1].means)
        np.testing.assert_array_equal(truths[0].standard_errors, truths[1].standard_errors)


@pytest.mark.slow
def test_a_worker_that_fails_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    dataset = small()
    (tmp_path / "cache").write_text("a file where the cache should be")
    mlps = [partial(dataset.mlp, row) for row in dataset.rows]
    with Crew(2, TruthCache(tmp_path / "cache"), PlainTruth(1000), mlps) as crew:
        with pytest.raises(WhestError, match=r"ended with exit code 1: .*bake\.processes=1"):
            list(crew.stages(0))
        processes = crew._processes
    assert all(process.returncode is not None for process in processes)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_bake_leaves_no_worker_and_goes_on(how: signal.Signals, tmp_path: Path) -> None:
    words = [*BAKE, "truth.n_samples=1e10", "bake.processes=2", f"outputs_dir={tmp_path}", f"output={tmp_path / 'd'}"]
    bake = subprocess.Popen([sys.executable, "-m", "whest", *words], stderr=subprocess.DEVNULL)
    begun = tmp_path / "cache" / "truth"
    deadline = time.monotonic() + PATIENCE_S
    while len(list(begun.glob("*.begun"))) < 2:
        assert time.monotonic() < deadline, "no worker began"
        assert bake.poll() is None, "the bake ended"
        time.sleep(0.1)
    workers = psutil.Process(bake.pid).children(recursive=True)
    assert len(workers) == 2
    bake.send_signal(how)
    bake.wait(PATIENCE_S)
    assert psutil.wait_procs(workers, PATIENCE_S)[1] == []
    assert not (tmp_path / "d").exists()
    assert len(list(begun.glob("*.begun"))) == 2, "what was finished is kept"
