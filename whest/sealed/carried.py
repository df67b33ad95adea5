"""What a program brings along: the numbers in it that its author chose, counted from the document alone.

    arrays       by their size
    numbers      8 bytes each: lone operands, fractions in parameters, and whole numbers of a parameter that is a value
    structure    shapes, axes, starts, lengths: a whole number in a parameter, by the bytes that it needs

Nothing is built or run for it. Which variable an operand names and the order of the equations are not counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

NUMBER = 8
VALUES = frozenset({"fill_value", "alpha", "beta", "y", "recall_target"})
"""Parameters that are operands by another name: a whole number there is no shape."""

Where = Literal["document", "structure", "value"]


@dataclass(frozen=True)
class Carried:
    """Bytes that a program brings along, by their kind."""

    arrays: int
    numbers: int
    structure: int

    @property
    def n_bytes(self) -> int:
        return self.arrays + self.numbers + self.structure


def carried_by(message: Any, arrays: Sequence[np.ndarray]) -> Carried:
    """Of all programs in a message. A document of another form is counted as far as it goes; no reader builds it."""
    sizes: dict[str, int] = {"numbers": 0, "structure": 0}
    for kind, size in _sizes(message):
        sizes[kind] += size
    return Carried(sum(array.nbytes for array in arrays), **sizes)


def _sizes(message: Any) -> Iterator[tuple[str, int]]:
    waiting: list[tuple[Any, Where]] = [(message, "document")]
    while waiting:
        node, where = waiting.pop()
        if isinstance(node, dict):
            waiting.extend(_inside(node, where))
        elif isinstance(node, list):
            waiting.extend((each, where) for each in node)
        elif isinstance(node, float) or (where == "value" and isinstance(node, int)):
            yield "numbers", max(NUMBER, _needed(node))
        elif where == "structure" and isinstance(node, int):
            yield "structure", 0 if isinstance(node, bool) else _needed(node)


def _inside(node: dict[str, Any], where: Where) -> Iterator[tuple[Any, Where]]:
    """The parts of an object, each with what a whole number in it is."""
    if isinstance(node.get("equations"), list):
        for name, part in node.items():
            yield from ((each, "document") for each in part) if name != "equations" and isinstance(part, list) else ()
        for equation in node["equations"]:
            yield from _of_equation(equation)
        return
    is_operand = set(node) in ({"scalar"}, {"complex"})
    for each in node.values():
        yield each, "value" if is_operand else where


def _of_equation(equation: Any) -> Iterator[tuple[Any, Where]]:
    match equation:
        case [_, operands, _, dict() as parameters, _]:
            yield operands, "document"
            for name, value in parameters.items():
                yield value, "value" if name in VALUES else "structure"
        case _:
            yield equation, "document"


def _needed(number: float) -> int:
    """0 for 0, 1 up to 255, 2 up to 65,535 and so on."""
    return (abs(number).bit_length() + 7) // 8 if isinstance(number, int) else 0
