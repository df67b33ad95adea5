"""`tracking.live=true`: the MLflow run exists while it runs, with a metric per case.

A run that is killed can't close its record. The next one that writes to the same store does it: a record names its
process, and if that process is gone, the record is marked KILLED.
"""

import json
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

LOG = logging.getLogger(__name__)
OWNER = "whest.owner"
"""The tag with the process that writes a live run: its host, number and start."""
CASES, CASE_SCORE = "live/cases", "live/case_score"
CLOCK_S = 2.0
"""By how much two readings of a process's start may differ."""
STALE_EVERY_S = 60.0
_LOOKED: dict[tuple[str, str], float] = {}
"""When this process last looked for stale records, by store and experiment."""
CaseT = TypeVar("CaseT")


class Live(Protocol):
    """A run's record while it runs."""

    @property
    def run_id(self) -> str | None: ...

    def note(self, number: int, score: float | None) -> None:
        """The number of finished cases, and the score of the last one alone."""
        ...

    def __enter__(self) -> "Live": ...

    def __exit__(self, *error: Any) -> None: ...


class NotLive:
    """No record before the end of the run."""

    run_id: str | None = None

    def note(self, number: int, score: float | None) -> None:
        return None

    def __enter__(self) -> "NotLive":
        return self

    def __exit__(self, *error: Any) -> None:
        return None


class LiveRun:
    """A record in MLflow. If MLflow fails meanwhile, a warning is all: the run goes on."""

    def __init__(self, client: "MlflowClient", run_id: str) -> None:
        self._client, self.run_id = client, run_id
        self._is_silent = False

    def note(self, number: int, score: float | None) -> None:
        if self._is_silent:
            return
        try:
            self._client.log_metric(self.run_id, CASES, number, step=number)
            if score is not None:
                self._client.log_metric(self.run_id, CASE_SCORE, score, step=number)
        except Exception as error:
            self._is_silent = True
            LOG.warning("MLflow took no metric of a case (%s); the run goes on", type(error).__name__)

    def __enter__(self) -> "LiveRun":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        """A run that ended with an error has no report, so nobody else closes its record."""
        if kind is not None:
            with suppress(Exception):
                self._client.set_terminated(self.run_id, "KILLED" if kind is KeyboardInterrupt else "FAILED")


def noted(cases: Iterable[CaseT], score: Callable[[list[CaseT]], float | None], live: Live) -> Iterator[CaseT]:
    """The same cases; each is noted before it is handed on."""
    for number, case in enumerate(cases, start=1):
        if live.run_id is not None:
            live.note(number, score([case]))
        yield case


def owner() -> str:
    """This process, so that a later one can tell whether it still runs."""
    import psutil  # 6 ms, before the score of a run that is not live

    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "started": psutil.Process().create_time()})


def end_stale(client: "MlflowClient", experiment_id: str, every_s: float = 0) -> list[str]:
    """Mark the records of processes of this machine that are gone as KILLED. Returns their ids.

    A process looks at most once in `every_s`: the jobs of a sweep need not each search the store.
    """
    place, now = (str(client.tracking_uri), experiment_id), time.monotonic()
    if now - _LOOKED.get(place, -math.inf) < every_s:
        return []
    _LOOKED[place] = now
    running = client.search_runs([experiment_id], f"attributes.status = 'RUNNING' and tags.`{OWNER}` LIKE '%'")
    ended = [run for run in running if _is_gone(run)]
    for run in ended:
        client.set_terminated(run.info.run_id, "KILLED")
    return [str(run.info.run_id) for run in ended]


def _is_gone(run: "Run") -> bool:
    try:
        told = json.loads(run.data.tags[OWNER])
        host, pid, started = str(told["host"]), int(told["pid"]), float(told["started"])
    except (KeyError, TypeError, ValueError):
        return False  # not ours to judge
    if host != socket.gethostname():
        return False
    import psutil

    try:
        return abs(psutil.Process(pid).create_time() - started) > CLOCK_S
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return True
    except psutil.AccessDenied:
        return False
