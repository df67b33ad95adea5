"""Progress of long work: bars with rate and time left on a terminal, nothing elsewhere."""

from collections.abc import Iterable, Iterator, Sequence

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

from whest.progress import Expected, S, SilentProgress, T


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
        for item in items:
            yield item
            self._bars.advance(bar)

    def samples(self, stream: Iterable[S], label: str, expected: Expected[S]) -> Iterator[S]:
        bar = self._bars.add_task(label, total=None, rated=True)
        for running in stream:
            self._bars.update(bar, completed=running.n_samples, total=expected(running))
            yield running
        self._bars.remove_task(bar)


def open_progress(console: Console) -> BarProgress | SilentProgress:
    """Bars on a terminal, else nothing."""
    return BarProgress(console) if console.is_terminal else SilentProgress()
