"""How far long work is, for whoever wants to show it; `whest.display.progress` draws the bars."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar


class Counted(Protocol):
    """A stage of sampling: anything that knows how many samples it holds."""

    @property
    def n_samples(self) -> int: ...


T = TypeVar("T")
S = TypeVar("S", bound=Counted)
Expected = Callable[[S], int | None]
"""How many samples there will be, judged by those there are; None where that can't be told."""


class Progress(Protocol):
    def each(self, items: Sequence[T], label: str) -> Iterator[T]: ...

    def samples(self, stream: Iterable[S], label: str, expected: Expected[S]) -> Iterator[S]: ...


class SilentProgress:
    """Shows nothing."""

    def __enter__(self) -> "SilentProgress":
        return self

    def __exit__(self, *error: object) -> None:
        return

    def each(self, items: Sequence[T], label: str) -> Iterator[T]:
        return iter(items)

    def samples(self, stream: Iterable[S], label: str, expected: Expected[S]) -> Iterator[S]:
        return iter(stream)
