"""Progress of long work: bars with rate and time left on a terminal, a line every ten seconds elsewhere."""

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from whest.progress import Expected, S, T, until_interrupted

EVERY_S = 10.0
"""Seconds between two lines."""


class _RateColumn(ProgressColumn):
    """The number of samples per second."""

    def render(self, task: Task) -> Text:
        if not task.fields.get("rated") or not task.speed:
            return Text("")
        return Text(f"{task.speed / 1e3:,.0f}k samples/s", style="cyan")


class BarProgress:
    """Bars on the terminal, which vanish when the work is done."""

    def __init__(self, console: Console) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bars = RichProgress(*columns, console=console, transient=True)

    def __enter__(self) -> "BarProgress":
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def each(self, items: Sequence[T], label: str) -> Iterator[T]:
        bar = self._bars.add_task(label, total=len(items))
        for item in until_interrupted(items):
            yield item
            self._bars.advance(bar)
        self._bars.remove_task(bar)

    def samples(self, stream: Iterable[S], label: str, expected: Expected[S]) -> Iterator[S]:
        bar = self._bars.add_task(label, total=None, rated=True)
        for running in until_interrupted(stream):
            self._bars.update(bar, completed=running.n_samples, total=expected(running))
            yield running
        self._bars.remove_task(bar)

    @contextmanager
    def stage(self, label: str) -> Iterator[None]:
        bar = self._bars.add_task(label, total=None)
        try:
            yield
        finally:
            self._bars.remove_task(bar)


@dataclass
class Work:
    """A loop, a stream of samples or a stage, as a line shows it."""

    label: str
    unit: str = ""
    total: int | None = None
    done: int = 0
    started: float = field(default_factory=time.monotonic)

    def words(self, now: float) -> str:
        elapsed = now - self.started
        counted = f" {self.done:,} of {self.total:,}{self.unit}" if self.total else ""
        is_known = self.total is not None and 0 < self.done < self.total
        left = f", about {elapsed / self.done * (self.total - self.done):.0f} s left" if is_known and self.total else ""
        return f"{self.label}:{counted} after {elapsed:.0f} s{left}"


class LineProgress:
    """A line on standard error every ten seconds, so that a log shows that the work goes on."""

    def __init__(self, stream: TextIO | None = None, every_s: float = EVERY_S) -> None:
        self._stream, self._every_s = stream or sys.stderr, every_s
        self._works: list[Work] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "LineProgress":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def line(self) -> str:
        """What is being done, the outer work first."""
        now = time.monotonic()
        return "; ".join(work.words(now) for work in list(self._works))

    def each(self, items: Sequence[T], label: str) -> Iterator[T]:
        with self._work(Work(label, total=len(items))) as work:
            for item in until_interrupted(items):
                yield item
                work.done += 1

    def samples(self, stream: Iterable[S], label: str, expected: Expected[S]) -> Iterator[S]:
        with self._work(Work(label, " samples")) as work:
            for running in until_interrupted(stream):
                work.done, work.total = running.n_samples, expected(running)
                yield running

    @contextmanager
    def stage(self, label: str) -> Iterator[None]:
        with self._work(Work(label)):
            yield

    @contextmanager
    def _work(self, work: Work) -> Iterator[Work]:
        self._works.append(work)
        try:
            yield work
        finally:
            self._works.remove(work)

    def _watch(self) -> None:
        while not self._over.wait(self._every_s):
            if self._works:
                print(self.line(), file=self._stream, flush=True)


def open_progress(console: Console) -> BarProgress | LineProgress:
    """Bars on a terminal, else lines."""
    return BarProgress(console) if console.is_terminal else LineProgress()
