"""CPU seconds of a save under `job=watch`, once its workers are warm: a sampler of 256x8 on four MLPs, six versions.

    python benchmarks/watch.py

The seconds are those of this process, of the worker that runs programs, and of the worker that traces, from the moment
the version is seen until its score is known. The start of the next tracer falls between saves and is given apart.
"""

import statistics
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

import whest
from whest.cli.watch import draw_cases, score_once, warm_runner
from whest.experiment import build
from whest.isolation.process import Worker
from whest.tasks.whitebox.task import Whitebox

SAMPLER = """
import jax, jax.numpy as jnp

class Estimator:
    def predict(self, mlp, budget):
        h = jax.random.normal(mlp.key, (SAMPLES, mlp.width))
        means = []
        for w in mlp.weights:
            h = jax.nn.relu(h @ w)
            means.append(h.mean(axis=0))
        return jnp.stack(means)
"""
ENDED = [0.0]


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process and of its living children."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            total += sum(one.cpu_times()[:2])
    return total


class Counting:
    """Adds what a worker has spent when it is closed: after that nobody can tell."""

    def __enter__(self) -> None:
        self._close = close = Worker.close

        def counted(worker: Worker) -> None:
            with suppress(psutil.Error):
                ENDED[0] += cpu_s(psutil.Process(worker.pid))
            close(worker)

        Worker.close = counted  # type: ignore[method-assign,assignment]

    def __exit__(self, *error: object) -> None:
        Worker.close = self._close  # type: ignore[method-assign]


def main() -> None:
    own = psutil.Process()
    with tempfile.TemporaryDirectory() as place, Counting():
        path = Path(place) / "work" / "mine.py"
        path.parent.mkdir()
        path.write_text(SAMPLER.replace("SAMPLES", "1_000"))
        words = ("estimator=file", f"estimator.path={path}", "tracking=none", f"outputs_dir={place}/outputs")
        experiment = build(whest.compose(*words), Path(place) / "run")
        task = experiment.task
        assert isinstance(task, Whitebox)
        cases, saves, starts = draw_cases(task, 4), [], []
        with warm_runner(task) as runner:
            for number in range(6):
                before = cpu_s(own) + ENDED[0]
                runner.start_ahead()
                assert runner._spare is not None
                runner._spare.wait_until_ready()
                ready = cpu_s(own) + ENDED[0]
                path.write_text(SAMPLER.replace("SAMPLES", f"{number + 2}_000"))
                runner.renew()
                found = score_once(experiment, runner, cases)
                assert not isinstance(found, list), found
                saves.append(cpu_s(own) + ENDED[0] - ready)
                starts.append(ready - before)
    print(f"the first save, which starts the other worker too: {saves[0]:.2f} s of CPU time")
    warm = saves[1:]
    print(f"a save once warm: {min(warm):.2f} to {max(warm):.2f} s, median {statistics.median(warm):.2f}")
    print(f"the next tracer, between saves: {statistics.median(starts):.2f} s")


if __name__ == "__main__":
    main()
