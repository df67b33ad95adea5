"""Bounds on a program document, checked before anything is built from it, and on each operation as it is built.

The walk keeps its own stack, so that a document as deep as a message allows can't exhaust Python's.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whest.errors import UnmeterableError
from whest.isolation.vocabulary import CHOICES, KINDS, RECORDS

LARGEST_PROGRAM = 200_000
"""Equations, those of inner programs included."""

MOST_NODES = 8_000_000
"""Values of any kind: forty per equation of the longest program."""

LARGEST_DEPTH = 128
"""Of lists and objects inside each other: about fifteen programs inside each other."""

LARGEST_ARRAY = 2**40
"""Numbers of an array that a program makes. XLA counts bytes in 63 bits: where they overflow, a buffer is too small
for what is written to it, and the process dies with SIGSEGV or worse. 200,000 arrays of this size don't overflow."""

LONGEST_TEXT = 4096
"""Characters of a name, a label or a key."""

MOST_CONSTANTS = 100_000

LEAST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64

PARTS = {"inputs", "shapes", "equations", "outputs"}
"""Of a program."""


class ForeignProgramError(UnmeterableError):
    """A program document that this version can't read or doesn't allow."""


def check_bounds(document: Any, arrays: Sequence[np.ndarray]) -> None:
    """Refuse a document that is too large, too deep or of another form, with the first reason found."""
    if len(arrays) > MOST_CONSTANTS:
        raise ForeignProgramError(f"the program has {len(arrays):,} constants, at most {MOST_CONSTANTS:,} are read")
    n_nodes = n_equations = 0
    waiting: list[tuple[Any, int]] = [(document, 1)]
    while waiting:
        node, depth = waiting.pop()
        n_nodes += 1
        if isinstance(node, Mapping):
            if "equations" in node:
                _check_program(node)
                n_equations += len(node["equations"])
            inner = [*node.keys(), *node.values()]
        else:
            inner = node if isinstance(node, list) else []
            _check_leaf(node)
        if n_equations > LARGEST_PROGRAM:
            raise ForeignProgramError(f"the program has more than {LARGEST_PROGRAM} operations")
        if n_nodes + len(waiting) + len(inner) > MOST_NODES:
            raise ForeignProgramError(f"the program document has more than {MOST_NODES:,} values")
        if inner and depth >= LARGEST_DEPTH:
            raise ForeignProgramError(f"the program document is nested more than {LARGEST_DEPTH} deep")
        waiting += [(item, depth + 1) for item in inner]


def _check_leaf(node: Any) -> None:
    if isinstance(node, str) and len(node) > LONGEST_TEXT:
        raise ForeignProgramError(
            f"the program has a text of {len(node):,} characters, at most {LONGEST_TEXT:,} are read"
        )
    if isinstance(node, int) and not LEAST_INTEGER <= node < LARGEST_INTEGER:
        raise ForeignProgramError("the program has a whole number that no array can hold (over 64 bits)")


def _check_program(program: Mapping[str, Any]) -> None:
    """The form of one program; inner ones are met later in the walk."""
    if set(program) != PARTS or not all(isinstance(part, list) for part in program.values()):
        raise ForeignProgramError(f"a program is an object of four lists, {', '.join(sorted(PARTS))}")
    if not _are_variables(program["inputs"]) or len(program["inputs"]) != len(program["shapes"]):
        raise ForeignProgramError("a program's inputs are numbers of variables, one per shape")
    if not all(map(_is_equation, program["equations"])):
        raise ForeignProgramError("an equation is a list: a name, operands, results, parameters, a label")


def _is_equation(equation: Any) -> bool:
    kinds = (str, list, list, Mapping, str)
    if not isinstance(equation, list) or len(equation) != len(kinds):
        return False
    return all(map(isinstance, equation, kinds)) and _are_variables(equation[2])


def _are_variables(names: Any) -> bool:
    """Each is named once."""
    return all(type(name) is int for name in names) and len(set(names)) == len(names)


def fields_of(record: Any) -> dict[str, Any]:
    return dict(record._asdict() if hasattr(record, "_asdict") else vars(record))


def check_kind(name: str, key: str, value: Any) -> None:
    """A text or a choice where none belongs passes JAX's Python, and the compiler's C++ dies of it."""
    if value is None:
        return
    if type(value) is tuple or type(value).__name__ in RECORDS:
        for part in value if type(value) is tuple else fields_of(value).values():
            check_kind(name, key, part)
        return
    kind = type(value).__name__
    if (kind == "str" or kind in CHOICES or key in KINDS) and kind not in KINDS.get(key, "").split():
        raise ForeignProgramError(f"the program's {name[:100]!r} has {str(value)[:100]!r} as its {key}")


def check_size(shape: Sequence[int]) -> None:
    if math.prod(shape) > LARGEST_ARRAY:
        raise ForeignProgramError(
            f"the program makes an array of shape {str(tuple(shape))[:100]}, at most {LARGEST_ARRAY:,} numbers are read"
        )
