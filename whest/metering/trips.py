"""How often a `while` loop goes round, where the program's text tells it."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from whest.metering.internals import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, scan_of, while_of
from whest.metering.jaxprs import call_arguments

Known = Mapping[Var, int]
"""Scalars whose value is fixed in the program text, which is what makes a `while` loop's length countable."""


def passed_on(eqn: JaxprEqn, program: ClosedJaxpr, known: Known) -> Known:
    """Which of a called program's arguments have a known value."""
    pairs = zip(program.jaxpr.invars, call_arguments(eqn, eqn.invars), strict=True)
    values = {var: _value(operand, known) for var, operand in pairs}
    return {var: value for var, value in values.items() if value is not None}


def known_constants(program: ClosedJaxpr) -> Known:
    pairs = zip(program.jaxpr.constvars, program.consts, strict=True)
    return {var: int(value) for var, value in pairs if _is_whole_scalar(var.aval)}


def _is_whole_scalar(aval: Any) -> bool:
    return getattr(aval, "shape", None) == () and getattr(getattr(aval, "dtype", None), "kind", "") in "iu"


def _value(operand: Var | Literal, known: Known) -> int | None:
    if isinstance(operand, Literal):
        return int(operand.val) if _is_whole_scalar(operand.aval) else None
    return known.get(operand)


def settled(eqn: JaxprEqn, known: Known) -> Known:
    """The result of a sum of known numbers, if it fits its type."""
    if eqn.primitive.name != "add" or not all(_is_whole_scalar(var.aval) for var in (*eqn.invars, *eqn.outvars)):
        return {}
    (result,) = eqn.outvars
    dtype: Any = getattr(result.aval, "dtype", None)
    left, right = (_value(operand, known) for operand in eqn.invars)
    return {} if left is None or right is None or not _fits(left + right, dtype) else {result: left + right}


def counters(eqn: JaxprEqn, known: Known) -> Callable[[int], Known] | None:
    """The carried values of a `scan` that only count, at the start of any round; None if there are none."""
    scan = scan_of(eqn)
    body, first = scan.body.jaxpr, scan.n_consts
    after = zip(body.invars[first : first + scan.n_carry], body.outvars, strict=False)
    found: dict[Var, tuple[int, int]] = {}
    for (before, outcome), operand in zip(after, eqn.invars[first:], strict=False):
        start = _value(operand, known) if _is_whole_scalar(before.aval) else None
        step = None if start is None else _step(body, before, outcome)
        dtype: Any = getattr(before.aval, "dtype", None)
        if start is not None and step is not None and _fits(start + step * scan.length, dtype):
            found[before] = start, step
    return (lambda number: {var: start + step * number for var, (start, step) in found.items()}) if found else None


def trip_count(eqn: JaxprEqn, known: Known) -> int | None:
    """Rounds of a counting loop whose start, step and limit the program text gives, else None."""
    loop = while_of(eqn)
    condition, body, n_cond, n_body = loop.test.jaxpr, loop.body.jaxpr, loop.n_test, loop.n_body
    start = [_value(operand, known) for operand in eqn.invars[n_cond + n_body :]]
    limits = [_value(operand, known) for operand in eqn.invars[:n_cond]]
    carry_in, carry_out = body.invars[n_body:], body.outvars
    if len(condition.eqns) != 1 or condition.eqns[0].outvars != condition.outvars:
        return None
    test = condition.eqns[0]
    compare = _COMPARISONS.get(test.primitive.name)
    if compare is None or not all(_is_whole_scalar(operand.aval) for operand in test.invars):
        return None

    def settle(operand: Var | Literal) -> tuple[int, int] | None:
        """Start value and step of one side of the comparison."""
        if isinstance(operand, Literal):
            return int(operand.val), 0
        place = condition.invars.index(operand)
        if place < n_cond:
            limit = limits[place]
            return None if limit is None else (limit, 0)
        index = place - n_cond
        first, step = start[index], _step(body, carry_in[index], carry_out[index])
        return None if first is None or step is None else (first, step)

    left, right = (settle(operand) for operand in test.invars)
    if left is None or right is None:
        return None
    rounds = compare(right[0] - left[0], left[1] - right[1])
    ends = [] if rounds is None else [first + step * rounds for first, step in (left, right)]
    fits = all(_fits(end, operand.aval.dtype) for end, operand in zip(ends, test.invars, strict=False))
    return rounds if fits else None  # a counter that wraps around runs longer than arithmetic says


def _fits(value: int, dtype: Any) -> bool:
    info = np.iinfo(dtype)
    return info.min <= value <= info.max


def _step(body: Jaxpr, before: Var, after: Var | Literal) -> int | None:
    """How a loop variable moves each round, where the program text says so."""
    if after is before:
        return 0
    for eqn in body.eqns:
        if eqn.outvars == [after] and eqn.primitive.name in ("add", "sub"):
            left, right = eqn.invars
            if left is before and isinstance(right, Literal):
                return int(right.val) if eqn.primitive.name == "add" else -int(right.val)
            if right is before and isinstance(left, Literal) and eqn.primitive.name == "add":
                return int(left.val)
    return None


def _rounds_below(gap: int, step: int) -> int | None:
    """Rounds while a gap that shrinks by `step` stays above zero."""
    if gap <= 0:
        return 0
    return math.ceil(gap / step) if step > 0 else None


_COMPARISONS: dict[str, Callable[[int, int], int | None]] = {
    "lt": _rounds_below,
    "le": lambda gap, step: _rounds_below(gap + 1, step),
    "gt": lambda gap, step: _rounds_below(-gap, -step),
    "ge": lambda gap, step: _rounds_below(-gap + 1, -step),
}
