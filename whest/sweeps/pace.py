"""The pace of a sweep: one line per finished job, with the time left."""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whest.notation import plus_minus
from whest.report import AnyReport
from whest.sweeps.resume import SWEEP_FILE

COUNTED_EVERY_S = 1.0
"""How often a process of a launcher counts the jobs of the others."""


@dataclass
class Pace:
    """The sweep of this process."""

    n_jobs: int | None = None
    """None for a sweeper that decides as it goes."""
    keys: Sequence[str] = ()
    """The keys that are swept."""
    n_done: int = 0
    n_before: int = 0
    """Jobs that an earlier start of the same sweep had finished."""
    started: float = field(default_factory=time.monotonic)

    def time_left_s(self, now: float) -> float | None:
        """By the mean of the finished jobs; None if the number of jobs or their time is unknown."""
        if self.n_jobs is None or not 0 < self.n_done < self.n_jobs - self.n_before:
            return None
        return (now - self.started) / self.n_done * (self.n_jobs - self.n_done - self.n_before)

    def place(self, job: str) -> str:
        return f"job {job}" if self.n_jobs is None else f"job {self.n_done + self.n_before} of {self.n_jobs}"


@dataclass
class SeenPace(Pace):
    """The sweep of another process, whose launcher started this one: by the jobs that have a folder."""

    folder: Path = Path()
    n_begun: int = 0
    n_first: int | None = None
    """The jobs that had begun when this process looked first."""
    counted: float = 0.0

    def time_left_s(self, now: float) -> float | None:
        """By the jobs that began since this process looked first, in all processes; None if there are none."""
        self._count(now)
        if self.n_jobs is None or self.n_first is None or not self.n_first < self.n_begun < self.n_jobs:
            return None
        return (self.counted - self.started) / (self.n_begun - self.n_first) * (self.n_jobs - self.n_begun)

    def place(self, job: str) -> str:
        self._count(time.monotonic())
        return f"job {job}" if self.n_jobs is None else f"job {job} ({self.n_begun} of {self.n_jobs} begun)"

    def _count(self, now: float) -> None:
        if self.n_first is not None and now - self.counted < COUNTED_EVERY_S:
            return
        with os.scandir(self.folder) as entries:
            self.n_begun, self.counted = sum(entry.name.isdigit() for entry in entries), now
        if self.n_first is None:
            self.n_first, self.started = self.n_begun, now


_PACES: list[Pace] = []


def begin_pace(pace: Pace) -> None:
    _PACES.append(pace)


def end_pace() -> None:
    _PACES.clear()


def pace_of(folder: Path) -> Pace:
    """The pace of the sweep with this job's folder. A process of a launcher knows it from the sweep's own folder."""
    sweep = folder.absolute().parent
    if _PACES and (not isinstance(_PACES[-1], SeenPace) or _PACES[-1].folder == sweep):
        return _PACES[-1]
    try:
        state = json.loads((sweep / SWEEP_FILE).read_text())
        pace = SeenPace(state.get("n_jobs"), state.get("keys") or (), folder=sweep)
    except (OSError, ValueError, AttributeError):  # on another disk
        return Pace()
    _PACES[:] = [pace]
    return pace


def line_of_before(folder: Path, score: float) -> str:
    """The line of a job that was finished before."""
    pace, job = pace_of(folder), folder.name
    pace.n_before += 1
    return f"{pace.place(job)} was finished before, score {score:.3g}"


def job_line(report: AnyReport, folder: Path, overrides: Sequence[str]) -> str:
    """The line of a finished job: its place, the words that are swept, its score and the time left."""
    pace, job = pace_of(folder), folder.name
    pace.n_done += 1
    left = pace.time_left_s(time.monotonic())
    swept = [word for word in overrides if not pace.keys or word.lstrip("+~").partition("=")[0] in pace.keys]
    score = report.score
    result = "no score" if score.score is None else f"score {plus_minus(score.score, score.score_se)}"
    words = [f"{pace.place(job)}: {' '.join(swept)}", result, f"{report.meta.run_duration_s:.1f} s"]
    return ", ".join([*words, *([] if left is None else [f"about {left:.0f} s left"])])
