"""The programs of a message by their names, whichever task they were traced for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whest.isolation.channel import Message
from whest.sealed.container import SealedFileError
from whest.sealed.purpose import Task

NAMES: dict[Task, tuple[str, ...]] = {
    "whitebox": ("predict",),
    "prequential": ("init", "logits", "update"),
    "exam": ("init", "logits", "update", "answer"),
}

Span = tuple[int, int]
"""The places of a program's arrays among all of them."""


def named_programs(task: Task, message: Message, n_arrays: int) -> dict[str, tuple[Any, Span]]:
    """Each program's document and the span of its arrays. A message of another form is refused."""
    try:
        if task == "whitebox":
            return {"predict": (message["program"], (0, n_arrays))}
        if task == "prequential":
            return {name: (message["programs"][name], _span(message["arrays"][name], n_arrays)) for name in NAMES[task]}
        counts = message["n_constants"]
        if len(counts) != len(NAMES[task]):
            raise ValueError("one count per program")
        ends = np.cumsum([0, *map(_count, counts)]).tolist()
        return {
            name: (message["documents"][name], _span((ends[i], ends[i + 1]), n_arrays))
            for i, name in enumerate(NAMES[task])
        }
    except (KeyError, TypeError, ValueError) as error:
        raise SealedFileError(f"it has no programs for task={task} ({type(error).__name__}: {error})") from None


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 2**40:
        raise ValueError("arrays are counted by whole numbers")
    return number


def _span(ends: Sequence[Any], n_arrays: int) -> Span:
    start, end = ends
    if not 0 <= _count(start) <= _count(end) <= n_arrays:
        raise ValueError("a span of arrays that aren't there")
    return start, end
