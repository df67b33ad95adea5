"""Progress of long work, as a protocol. `whest.display.progress` implements it with bars and lines."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar


class Counted(Protocol):
    """A stage of sampling: any object with a number of samples."""

    @property
    def n_samples(self) -> int: ...


T = TypeVar("T")
S = TypeVar("S", bound=Counted)
Expected = Callable[[S], int | None]
"""The expected total of samples, estimated from a stage; None if unknown."""


class Interrupt:
    """Whether Ctrl-C, or a scheduler's stop, came while a command runs.

    Python loses its KeyboardInterrupt where it ignores every exception: in `__del__` and in callbacks of the garbage
    collector, which JAX has. Long work therefore looks here too.
    """

    came = False


def until_interrupted(items: Iterable[T]) -> Iterator[T]:
    """The same items. An interrupt that was lost is raised before the next one."""
    for item in items:
        if Interrupt.came:
            raise KeyboardInterrupt
        yield item


class Progress(Protocol):
    def each(self, items: Sequence[T], label: str) -> Iterator[T]: ...

    def samples(self, stream: Iterable[S], label: str, expected: Expected[S]) -> Iterator[S]: ...

    def stage(self, label: str) -> AbstractContextManager[None]:
        """Work of unknown length, such as compiling."""
        ...


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

    def stage(self, label: str) -> AbstractContextManager[None]:
        return nullcontext()
