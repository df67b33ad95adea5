"""The pace of a sweep: one line per finished job, with the time left."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from whest.notation import plus_minus
from whest.report import AnyReport


@dataclass
class Pace:
    """The sweep of this process. A launcher that starts other processes leaves them without one."""

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


_PACES: list[Pace] = []


def begin_pace(pace: Pace) -> None:
    _PACES.append(pace)


def end_pace() -> None:
    _PACES.clear()


def line_of_before(job: str, score: float) -> str:
    """The line of a job that was finished before."""
    pace = _PACES[-1] if _PACES else Pace()
    pace.n_before += 1
    return f"{pace.place(job)} was finished before, score {score:.3g}"


def job_line(report: AnyReport, job: str, overrides: Sequence[str]) -> str:
    """The line of a finished job: its place, the words that are swept, its score and the time left."""
    pace = _PACES[-1] if _PACES else Pace()
    pace.n_done += 1
    left = pace.time_left_s(time.monotonic())
    swept = [word for word in overrides if not pace.keys or word.lstrip("+~").partition("=")[0] in pace.keys]
    score = report.score
    result = "no score" if score.score is None else f"score {plus_minus(score.score, score.score_se)}"
    words = [f"{pace.place(job)}: {' '.join(swept)}", result, f"{report.meta.run_duration_s:.1f} s"]
    return ", ".join([*words, *([] if left is None else [f"about {left:.0f} s left"])])
