"""Workers killed at random moments: only the MLPs they worked on fail, and the report is complete."""

import os
import random
import signal
import threading
import time

import psutil
import pytest

from whest.api import score
from whest.config.compose import compose

N_MLPS, N_KILLS = 50, 50


class Killer(threading.Thread):
    """Kills one of our workers now and then, until it has killed enough or is told to stop."""

    def __init__(self):
        super().__init__(daemon=True)
        self.kills, self.done, self.random = 0, threading.Event(), random.Random(7)

    def run(self):
        while self.kills < N_KILLS and not self.done.wait(self.random.uniform(0.05, 2.5)):
            workers = [process for process in psutil.Process().children() if "launcher" in " ".join(_words(process))]
            if workers:
                os.killpg(self.random.choice(workers).pid, signal.SIGKILL)
                self.kills += 1


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["traced", "eager"])
def test_fifty_kills_in_fifty_mlps(mode, tmp_path):
    source = tmp_path / "slow.py"
    work = "h = mlp.weights[0]\n        for _ in range(2000):\n            h = jnp.tanh(h @ mlp.weights[1])"
    source.write_text(
        "import jax.numpy as jnp\nclass Estimator:\n    def predict(self, mlp, budget):\n"
        f"        {work}\n        return jnp.zeros((mlp.depth, mlp.width)) + h[0, 0] * 0\n"
    )
    config = compose(
        "estimator=file", f"estimator.path={source}", f"estimator.mode={mode}", "isolation=process", "tracking=none",
        "dataset=fresh", "dataset.seed=3", "dataset.width=192", "dataset.depth=3", f"dataset.n_mlps={N_MLPS}",
        "truth.n_samples=1000", f"outputs_dir={tmp_path / 'outputs'}", "lam=0", "budget=1e13",
    )  # fmt: skip
    killer = Killer()
    killer.start()
    began = time.monotonic()
    report = score(config, tmp_path)
    killer.done.set()
    killer.join()
    failures = [case.prediction.failure for case in report.cases if case.prediction.failure]
    assert len(report.cases) == N_MLPS, time.monotonic() - began
    assert killer.kills >= 10
    assert 0 < len(failures) <= killer.kills
    assert {failure.code for failure in failures} == {"WORKER_DIED"}
    assert report.to_json()["results"]["n_failed_mlps"] == len(failures)
