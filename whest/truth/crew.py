"""Truth of several MLPs at a time: a crew of worker processes with one thread each.

Two threads of one process wait for each other after every operation of a network, and so waste a third of two cores at
1024x16. Two processes don't. An MLP is drawn by one process, so its numbers depend neither on the number of processes
nor on that of the cores.
"""

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import jax

from whest.errors import WhestError
from whest.mlp import MLP
from whest.truth.cache import TruthCache
from whest.truth.truth import TruthSampler

LONG_FLOPS = 1e13
"""From here on a crew is worth its start: half a minute of two cores. A worker starts and compiles in five seconds."""

ROUGH_VARIANCE = 0.03
"""Variance of one sample, very roughly: only to guess whether an error bar needs long sampling."""


def is_long(sampler: TruthSampler, width: int, depth: int, n_mlps: int) -> bool:
    """Whether the dataset's truth takes long. The answer is the same for a slice and for what is left of a bake."""
    aim = sampler.standard_error
    n_samples = sampler.n_samples if aim is None else ROUGH_VARIANCE / aim**2
    return n_mlps > 1 and n_mlps * n_samples * 2 * width**2 * depth >= LONG_FLOPS


def usable_cores() -> int:
    """The number of threads that XLA would use here; 1 if another device than the CPU computes."""
    if jax.default_backend() != "cpu":
        return 1
    told = os.environ.get("NPROC", "")
    if told.isdecimal():
        return max(1, int(told))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Stage:
    """How far an MLP is."""

    n_samples: int = 0
    expected: int | None = None
    seconds: float | None = None
    """The time it took, when it is finished."""


class Crew:
    """Processes that draw the truth of MLPs, in order, into the cache. Use it as a context."""

    def __init__(
        self, n_processes: int, cache: TruthCache, sampler: TruthSampler, mlps: Sequence[Callable[[], MLP]]
    ) -> None:
        self._cache, self._sampler, self._mlps = cache, sampler, mlps
        self._stages = [Stage() for _ in mlps]
        self._waiting = iter(range(len(mlps)))
        self._changed = threading.Condition()
        self._failure: str | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._n_processes = min(n_processes, len(mlps))

    def __enter__(self) -> "Crew":
        for _ in range(self._n_processes):
            process = _start_worker(self._cache)
            self._processes.append(process)
            thread = threading.Thread(target=self._lead, args=(process,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.kill()  # finished blocks are in the cache
        with self._changed:
            self._waiting = iter(())
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # a job that nobody read
                    pipe.close()  # type: ignore[union-attr]

    def stages(self, index: int) -> Iterator[Stage]:
        """How far MLP `index` is, whenever that changes, until it is finished."""
        seen = self._stages[index]
        yield seen
        while seen.seconds is None:
            with self._changed:
                while self._stages[index] is seen and self._failure is None:
                    self._changed.wait()
                seen = self._stages[index]
                if seen.seconds is None and self._failure is not None:
                    raise WhestError(self._failure)
            yield seen

    def _lead(self, process: "subprocess.Popen[bytes]") -> None:
        """Give a worker one MLP after another. Weights are made when they are needed, one MLP at a time."""
        while True:
            with self._changed:
                index = next(self._waiting, None)
                if index is None:
                    return
                job = pickle.dumps((self._sampler, self._mlps[index]()))
            try:
                self._follow(index, job, process)
            except (OSError, ValueError):
                with self._changed:
                    self._failure = (
                        f"a process that draws truth ended with exit code {process.wait()}: its message is above; "
                        "bake.processes=1 draws in this process"
                    )
                    self._changed.notify_all()
                return

    def _follow(self, index: int, job: bytes, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(job)
        process.stdin.flush()
        while self._stages[index].seconds is None:
            told = json.loads(process.stdout.readline())  # nothing to read is no JSON: a ValueError
            with self._changed:
                self._stages[index] = Stage(**{**vars(self._stages[index]), **told})
                self._changed.notify_all()


def _start_worker(cache: TruthCache) -> "subprocess.Popen[bytes]":
    compiled = getattr(jax.config, "jax_compilation_cache_dir", None) or ""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109, as the import system does it
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "whest.truth.worker", str(cache.folder), compiled],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "NPROC": "1", "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths},
    )
