"""A child process with pipes to it: started afresh, walled in, limited in time and memory, and killable."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from whest.cases.prediction import Failure
from whest.errors import UnprotectedError
from whest.isolation.cgroup import group_around
from whest.isolation.channel import Channel, ChannelClosedError, DeadlineError, Message, RefusedError
from whest.isolation.descriptors import Output, Spent
from whest.isolation.launch import Launch, Room, Surroundings, World, bare_environment, chosen_platforms, first_words
from whest.isolation.messages import WorkerFailedError, cut_texts
from whest.isolation.protections import check_required, read_protections
from whest.isolation.scratch import Scratch
from whest.isolation.wire import PROGRAM, Bounds, answer_bounds

__all__ = ["Launch", "Room", "Surroundings", "Worker", "World", "bare_environment", "chosen_platforms"]

LAUNCHER = Path(__file__).parent / "launcher.py"

START_TIMEOUT_S = 120.0

WATCHING_TICK_S, IDLE_TICK_S, DISK_TICK_S = 0.02, 0.2, 1.0
"""How often a waiting parent looks at a worker's memory, how often it looks at all, and how often at its folder."""


class Worker:
    """One child process and the pipes to it."""

    def __init__(self, role: str, world: Surroundings) -> None:
        self._limits, self._require = world.limits, world.require
        self._scratch, self._output, self._spent = Scratch(), Output(), Spent()
        self.scratch = self._scratch.folder
        launch = world.launch(role, self.scratch)
        self._room = launch.room
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        arguments = ("-I", "-S", "-u", str(LAUNCHER), role, str(theirs_in), str(theirs_out))
        self._process = subprocess.Popen(
            [launch.python, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output.write_fd,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs_in, theirs_out, self._spent.fd),
            env=dict(launch.environment),
            cwd=self.scratch,
            start_new_session=True,
        )
        for fd in (theirs_in, theirs_out):
            os.close(fd)
        self._output.started()
        self._group = group_around(self._process.pid, self._limits.memory_limit_mb)
        self._channel = Channel(ours_in, ours_out, self._output)
        self.protections: dict[str, str] = {}
        self._is_ready, self._is_measured = False, False
        self._measured_at, self._watched_at = 0.0, 0.0
        with suppress(ChannelClosedError):  # a worker that is gone says so when it is asked
            told = first_words(launch, self._scratch, self._spent.fd)
            self._channel.send(told, deadline=time.monotonic() + START_TIMEOUT_S)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Workers import side by side; the caller that needs one waits for it here.

        None of a stranger's code has been imported yet. Where a required protection is missing, none ever is.
        """
        if self._is_ready:
            return
        ready, _ = self._await(time.monotonic(), START_TIMEOUT_S)
        if "refused" in ready:
            raise UnprotectedError(
                f"the walls around the worker could not be raised ({ready['refused']}): run as an ordinary user; "
                "`job=doctor` says what this machine gives"
            )
        self.protections = self._in_force(ready.get("protections"))
        if self._room is not None:
            check_required(self._require, self.protections, self._limits.memory_limit_mb)
        self._is_ready = True

    def _in_force(self, said: Any) -> dict[str, str]:
        """What the worker tried, and what we see to from here: memory, and a folder without a size of its own."""
        if self._room is None:
            return {}
        found = read_protections(said)
        if self._limits.memory_limit_mb and tree_memory(self._process.pid) > 0:
            found["memory"] = "polled" if self._group is None else "cgroup+polled"
        if found["disk"] == "rlimit" and not self._scratch.is_full(self._room.scratch_bytes):
            found["disk"] = "rlimit+polled"
            self._is_measured = True
        return found

    def ask(
        self,
        message: Message,
        arrays: Sequence[np.ndarray] = (),
        timeout_s: float | None = None,
        largest_arrays: int | None = None,
        most_arrays: int = 100,
    ) -> tuple[Message, list[np.ndarray]]:
        """One question and its answer; anything else is a `WorkerFailedError`, and the worker is gone.

        `largest_arrays` (bytes) and `most_arrays` bound an answer with figures; without it the answer may be a program.
        """
        bounds = PROGRAM if largest_arrays is None else answer_bounds(largest_arrays, most_arrays)
        return self._await(time.monotonic(), timeout_s, (message, arrays), bounds)

    def _await(
        self,
        started: float,
        timeout_s: float | None,
        question: tuple[Message, Sequence[np.ndarray]] | None = None,
        bounds: Bounds = PROGRAM,
    ) -> tuple[Message, list[np.ndarray]]:
        deadline = None if timeout_s is None else started + timeout_s
        tick_s = WATCHING_TICK_S if self._limits.memory_limit_mb else IDLE_TICK_S
        try:
            if question is not None:
                if self._channel.has_unread():
                    raise RefusedError("it answered before it was asked")
                self._channel.send(*question, deadline=deadline, watch=self._watch, tick_s=tick_s)
            reply, results = self._channel.receive(deadline, self._watch, tick_s, bounds)
        except DeadlineError:
            elapsed = time.monotonic() - started
            self.kill()
            failure = Failure("WORKER_DIED", f"no answer within {timeout_s:.4g} s: killed")
            raise WorkerFailedError(failure, elapsed, is_timeout=True) from None
        except RefusedError as error:
            self.kill()
            failure = Failure("WORKER_DIED", f"the worker's message was refused: {error}", self._output.tail() or None)
            raise WorkerFailedError(failure, time.monotonic() - started) from None
        except ChannelClosedError as error:
            elapsed = time.monotonic() - started
            raise WorkerFailedError(self._last_words(str(error)), elapsed) from None
        except MemoryError as error:
            self.kill()
            failure = Failure("OUT_OF_MEMORY", str(error), self._output.tail() or None)
            raise WorkerFailedError(failure, time.monotonic() - started) from None
        reply = cut_texts(reply)
        if "broken" in reply:
            failure = Failure("PREDICT_ERROR", str(reply["broken"]), str(reply.get("traceback")))
            raise WorkerFailedError(failure, time.monotonic() - started)
        return reply, results

    def _watch(self) -> None:
        """Look at what the worker takes; raises MemoryError where it is too much."""
        if self._is_measured and self._room is not None and time.monotonic() - self._measured_at > DISK_TICK_S:
            self._measured_at, most = time.monotonic(), self._room.scratch_bytes
            if self._scratch.is_full(most):
                raise MemoryError(f"the worker's scratch folder holds more than {most >> 20} MB: killed")
        limit, now = self._limits.memory_limit_mb, time.monotonic()
        if limit is None or now - self._watched_at < WATCHING_TICK_S:
            return
        self._watched_at = now
        used = tree_memory(self._process.pid) / 1e6
        if used > limit:
            raise MemoryError(f"the worker held {used:,.0f} MB, the limit is {limit:,.0f} MB: killed")

    def _last_words(self, reason: str) -> Failure:
        """How a worker died, and what it said last."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        code = self._process.poll()
        limit = self._limits.memory_limit_mb
        if self._group is not None and self._group.has_killed():
            self.kill()
            told = f"the worker took more memory than its limit of {limit:,.0f} MB: killed by the kernel"
            return Failure("OUT_OF_MEMORY", told, self._output.tail() or None)
        self.kill()
        if code is None:
            how = reason
        elif code < 0:
            how = f"killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        return Failure("WORKER_DIED", f"the worker died: {how}", self._output.tail() or how)

    def output(self) -> str:
        """What was printed since the last look, its end where it is long."""
        return self._output.since_last_look()

    def flops_spent(self) -> float:
        return self._spent.read()

    def kill(self) -> None:
        for process in _tree(self._process.pid):
            with suppress(psutil.Error):
                process.kill()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._group is not None:
            self._group.remove()

    def close(self) -> None:
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.5)
        self.kill()
        self._output.close()
        self._spent.close()
        self._scratch.remove()


def _tree(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def tree_memory(pid: int) -> int:
    """Bytes of a process and its children: the pages, and the tables of pages, which a program can make large alone."""
    total = 0
    for process in _tree(pid):
        with suppress(psutil.Error):
            total += process.memory_info().rss + page_tables(process.pid)
    return total


def page_tables(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        return 1024 * int(status.partition("VmPTE:")[2].split()[0])
    return 0
