"""The meter: how many FLOPs a JAX program costs, as its author wrote it.

The program's jaxpr is walked and every primitive charged its price (see `whest.prices`), a loop's body times its trip
count, a branch by the dearest, so that the same mathematics costs the same as a Python loop, `scan`, `fori_loop` or
`map`. `jax.named_scope` labels say where the FLOPs went.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from whest.errors import UnmeterableError
from whest.prices import price

METER_VERSION = 1
"""Part of the protocol hash: raised whenever a price or a rule changes."""

_LABEL = re.compile(r"[\w./ -]+")

Known = Mapping[Var, int]
"""Scalars whose value is fixed in the program text, which is what makes a `while` loop's length countable."""


@dataclass(frozen=True)
class Charge:
    """What one operation cost in one namespace."""

    namespace: str
    """`jax.named_scope` names joined by dots; empty for unlabelled work."""
    operation: str
    flops: int
    calls: int


@dataclass(frozen=True)
class Cost:
    """A program's charges, dearest first."""

    charges: tuple[Charge, ...]

    @property
    def flops(self) -> int:
        return sum(charge.flops for charge in self.charges)


def meter(function: Callable[..., Any]) -> Callable[..., Cost]:
    """`meter(f)(*args)` is what `f(*args)` costs; only shapes and dtypes of the arguments matter, nothing is run."""

    def measure(*args: Any, **kwargs: Any) -> Cost:
        return cost_of(jax.make_jaxpr(function)(*args, **kwargs))

    return measure


def cost_of(program: ClosedJaxpr) -> Cost:
    """The cost of a traced program."""
    flops: dict[tuple[str, str], float] = defaultdict(float)
    calls: dict[tuple[str, str], int] = defaultdict(int)
    for namespace, operation, amount, times in _charges(program.jaxpr, _known_constants(program)):
        flops[namespace, operation] += amount * times
        calls[namespace, operation] += times
    charges = (Charge(*place, round(flops[place]), calls[place]) for place in flops)
    return Cost(tuple(sorted(charges, key=lambda charge: -charge.flops)))


Entry = tuple[str, str, float, int]
"""Namespace, operation, FLOPs a call, number of calls."""


def _charges(jaxpr: Jaxpr, known: Known, scope: str = "") -> Iterator[Entry]:
    for eqn in jaxpr.eqns:
        here = _join(scope, _scope(eqn))
        rule = _STRUCTURES.get(eqn.primitive.name)
        if rule is not None:
            yield from rule(eqn, known, here)
        else:
            inputs = [var.aval for var in eqn.invars]
            outputs = [var.aval for var in eqn.outvars]
            yield here, eqn.primitive.name, price(eqn.primitive, inputs, outputs, eqn.params), 1


def _scope(eqn: JaxprEqn) -> str:
    """The author's own labels; JAX's notes of its transformations (`vmap`, `ij,jk->ik`) are left out."""
    scopes = [entry.name for entry in eqn.source_info.name_stack.stack if type(entry).__name__ == "Scope"]
    return ".".join(name.replace("/", ".") for name in scopes if _LABEL.fullmatch(name))


def _join(*scopes: str) -> str:
    return ".".join(scope for scope in scopes if scope)


def _times(entries: Iterator[Entry], n: int) -> Iterator[Entry]:
    return ((namespace, operation, flops, calls * n) for namespace, operation, flops, calls in entries)


def _inner(eqn: JaxprEqn, program: ClosedJaxpr | Jaxpr, known: Known, scope: str) -> Iterator[Entry]:
    """A sub-program called once with this equation's operands."""
    jaxpr = program if isinstance(program, Jaxpr) else program.jaxpr
    inside = {} if isinstance(program, Jaxpr) else dict(_known_constants(program))
    if len(jaxpr.invars) == len(eqn.invars):
        for var, operand in zip(jaxpr.invars, eqn.invars, strict=True):
            value = _value(operand, known)
            if value is not None:
                inside[var] = value
    return _charges(jaxpr, inside, scope)


def _call(param: str) -> Callable[[JaxprEqn, Known, str], Iterator[Entry]]:
    return lambda eqn, known, scope: _inner(eqn, eqn.params[param], known, scope)


def _scan(eqn: JaxprEqn, known: Known, scope: str) -> Iterator[Entry]:
    return _times(
        _charges(eqn.params["jaxpr"].jaxpr, _known_constants(eqn.params["jaxpr"]), scope), eqn.params["length"]
    )


def _cond(eqn: JaxprEqn, known: Known, scope: str) -> Iterator[Entry]:
    """The dearest branch: which one runs depends on the data."""
    branches = [list(_charges(branch.jaxpr, _known_constants(branch), scope)) for branch in eqn.params["branches"]]
    return iter(max(branches, key=lambda entries: sum(flops * calls for _, _, flops, calls in entries)))


def _while(eqn: JaxprEqn, known: Known, scope: str) -> Iterator[Entry]:
    rounds = _trip_count(eqn, known)
    if rounds is None:
        raise UnmeterableError(
            "`while_loop` with a number of rounds that depends on the data can't be metered yet: "
            "use fori_loop or scan with a fixed length"
        )
    yield from _times(_charges(eqn.params["cond_jaxpr"].jaxpr, {}, scope), rounds + 1)
    yield from _times(_charges(eqn.params["body_jaxpr"].jaxpr, {}, scope), rounds)


def _linear_solve(eqn: JaxprEqn, known: Known, scope: str) -> Iterator[Entry]:
    """Only the solver runs forward; the transposed one serves differentiation."""
    solve = eqn.params["jaxprs"].solve
    return _charges(solve.jaxpr, _known_constants(solve), scope)


_STRUCTURES: dict[str, Callable[[JaxprEqn, Known, str], Iterator[Entry]]] = {
    "jit": _call("jaxpr"),
    "pjit": _call("jaxpr"),
    "closed_call": _call("call_jaxpr"),
    "core_call": _call("call_jaxpr"),
    "remat2": _call("jaxpr"),
    "checkpoint": _call("jaxpr"),
    "custom_jvp_call": _call("call_jaxpr"),
    "custom_vjp_call": _call("call_jaxpr"),
    "custom_vjp_call_jaxpr": _call("fun_jaxpr"),
    "scan": _scan,
    "cond": _cond,
    "while": _while,
    "custom_linear_solve": _linear_solve,
}


def _known_constants(program: ClosedJaxpr) -> Known:
    pairs = zip(program.jaxpr.constvars, program.consts, strict=True)
    return {var: int(value) for var, value in pairs if _is_whole_scalar(var.aval)}


def _is_whole_scalar(aval: Any) -> bool:
    return getattr(aval, "shape", None) == () and getattr(getattr(aval, "dtype", None), "kind", "") in "iu"


def _value(operand: Var | Literal, known: Known) -> int | None:
    if isinstance(operand, Literal):
        return int(operand.val) if _is_whole_scalar(operand.aval) else None
    return known.get(operand)


def _trip_count(eqn: JaxprEqn, known: Known) -> int | None:
    """Rounds of a counting loop whose start, step and limit the program text gives, else None."""
    condition, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
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
