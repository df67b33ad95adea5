"""A child process with pipes to it: started afresh, limited in time and memory, killable, its output kept."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
import psutil

from whest.cases.prediction import Failure
from whest.estimator.spec import EstimatorSpec
from whest.isolation.channel import LARGEST_ARRAYS, Channel, ChannelClosedError, DeadlineError, Message
from whest.isolation.messages import WorkerFailedError, write_spec
from whest.limits import WorkerLimits

KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "XLA_FLAGS", "NPROC", "CUDA_VISIBLE_DEVICES")
"""All of our environment that a worker gets; tokens, keys and addresses stay here."""

START_TIMEOUT_S = 120.0

SPENT = "spent"
"""The file in a worker's scratch folder where it notes the FLOPs it spent, to outlive it."""

OUTPUT_CHARACTERS = 4000

WATCHING_TICK_S, IDLE_TICK_S = 0.02, 0.2
"""How often a waiting parent looks at a worker's memory, and how often it looks at all."""


@dataclass(frozen=True)
class Launch:
    """How a worker is started, and what it is told first."""

    command: tuple[str, ...]
    """The numbers of its two pipes, to read from and to write to, are added."""
    environment: Mapping[str, str]
    start: Message


class Surroundings(Protocol):
    """What a worker needs to be started."""

    @property
    def limits(self) -> WorkerLimits: ...

    def launch(self, role: str, scratch: Path) -> Launch:
        """For a worker whose scratch folder is the path."""
        ...


@dataclass(frozen=True)
class World:
    """What every worker of a run has in common."""

    spec: EstimatorSpec
    context: Any
    """What `setup` is told, with a `scratch_dir` that each worker gets of its own."""
    limits: WorkerLimits
    hidden: tuple[str, ...]
    cache: Path

    def launch(self, role: str, scratch: Path) -> Launch:
        """One of `whest.isolation.worker`'s roles, in this interpreter."""
        return launch_module(
            "whest.isolation.worker",
            role,
            scratch,
            [path or str(Path.cwd()) for path in sys.path] if role == "evaluate" else self.spec.module_paths,
            {
                "hidden": list(self.hidden),
                "platforms": "cpu" if role in ("trace", "learner") else chosen_platforms(),
                "spec": write_spec(self.spec),
                "context": asdict(replace(self.context, scratch_dir=str(scratch))),
                "cache": str(self.cache),
                "spent": str(scratch / SPENT),
            },
        )


def launch_module(module: str, role: str, scratch: Path, paths: Sequence[str], start: Message) -> Launch:
    """A module of ours in this interpreter, which looks for modules in these places."""
    environment = {**bare_environment(scratch), "PYTHONPATH": os.pathsep.join(paths)}
    return Launch((sys.executable, "-P", "-m", module, role), environment, start)


class Worker:
    """One child process and the pipes to it."""

    def __init__(self, role: str, world: Surroundings) -> None:
        self._limits = world.limits
        self.scratch = Path(tempfile.mkdtemp(prefix="whest-worker-"))
        self.spent = self.scratch / SPENT
        self.spent.write_bytes(bytes(8))
        self._output = self.scratch / "output"
        self._output_read = 0
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        launch = world.launch(role, self.scratch)
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*launch.command, str(theirs_in), str(theirs_out)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs_in, theirs_out),
                env=dict(launch.environment),
                cwd=self.scratch,
                start_new_session=True,
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._channel = Channel(ours_in, ours_out)
        self.protections: dict[str, bool] = {}
        self._is_ready = False
        with suppress(ChannelClosedError):  # a worker that is gone says so when it is asked
            self._channel.send(launch.start, deadline=time.monotonic() + START_TIMEOUT_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Workers import side by side; whoever needs one waits for it here."""
        if not self._is_ready:
            ready, _ = self._await(time.monotonic(), START_TIMEOUT_S)
            found = ready.get("protections")
            self.protections = {str(k): bool(v) for k, v in found.items()} if isinstance(found, dict) else {}
            self._is_ready = True

    def ask(
        self,
        message: Message,
        arrays: Sequence[np.ndarray] = (),
        timeout_s: float | None = None,
        largest_arrays: int = LARGEST_ARRAYS,
    ) -> tuple[Message, list[np.ndarray]]:
        """One question and its answer; anything else is a `WorkerFailedError`, and the worker is gone."""
        return self._await(time.monotonic(), timeout_s, (message, arrays), largest_arrays)

    def _await(
        self,
        started: float,
        timeout_s: float | None,
        question: tuple[Message, Sequence[np.ndarray]] | None = None,
        largest_arrays: int = LARGEST_ARRAYS,
    ) -> tuple[Message, list[np.ndarray]]:
        deadline = None if timeout_s is None else started + timeout_s
        tick_s = WATCHING_TICK_S if self._limits.memory_limit_mb else IDLE_TICK_S
        try:
            if question is not None:
                self._channel.send(*question, deadline=deadline, watch=self._watch_memory, tick_s=tick_s)
            reply, results = self._channel.receive(deadline, self._watch_memory, tick_s, largest_arrays)
        except DeadlineError:
            elapsed = time.monotonic() - started
            self.kill()
            failure = Failure("WORKER_DIED", f"no answer within {timeout_s:.4g} s: killed")
            raise WorkerFailedError(failure, elapsed, is_timeout=True) from None
        except ChannelClosedError as error:
            elapsed = time.monotonic() - started
            raise WorkerFailedError(self._last_words(str(error)), elapsed) from None
        except MemoryError as error:
            self.kill()
            failure = Failure("OUT_OF_MEMORY", str(error), self._tail() or None)
            raise WorkerFailedError(failure, time.monotonic() - started) from None
        if "broken" in reply:
            failure = Failure("PREDICT_ERROR", str(reply["broken"]), str(reply.get("traceback")))
            raise WorkerFailedError(failure, time.monotonic() - started)
        return reply, results

    def _watch_memory(self) -> None:
        limit = self._limits.memory_limit_mb
        if limit is None:
            return
        used = _tree_memory(self._process.pid) / 1e6
        if used > limit:
            raise MemoryError(f"the worker held {used:,.0f} MB, the limit is {limit:,.0f} MB: killed")

    def _last_words(self, reason: str) -> Failure:
        """How a worker died, and what it said last."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        code = self._process.poll()
        self.kill()
        if code is None:
            how = reason
        elif code < 0:
            how = f"killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        return Failure("WORKER_DIED", f"the worker died: {how}", self._tail() or how)

    def output(self) -> str:
        """What was printed since the last look, its end where it is long."""
        start, self._output_read = self._output_read, self._output_size()
        return self._read_output(max(start, self._output_read - OUTPUT_CHARACTERS))

    def _tail(self) -> str:
        return self._read_output(max(0, self._output_size() - OUTPUT_CHARACTERS))

    def _output_size(self) -> int:
        with suppress(OSError):
            return self._output.stat().st_size
        return 0

    def _read_output(self, start: int) -> str:
        with suppress(OSError), self._output.open("rb") as file:
            file.seek(start)
            return file.read(OUTPUT_CHARACTERS).decode(errors="replace").replace("\0", "")
        return ""

    def flops_spent(self) -> float:
        with suppress(OSError, struct.error):
            return float(struct.unpack("<d", self.spent.read_bytes()[:8])[0])
        return 0.0

    def kill(self) -> None:
        for process in _tree(self._process.pid):
            with suppress(psutil.Error):
                process.kill()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.5)
        self.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)


def bare_environment(scratch: Path) -> dict[str, str]:
    """Little of ours, and homes of its own."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**kept, "HOME": str(scratch), "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"}


def chosen_platforms() -> str:
    """JAX's platforms as this process has them."""
    return getattr(jax.config, "jax_platforms", None) or ""


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def _tree_memory(pid: int) -> int:
    total = 0
    for process in _tree(pid):
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total
