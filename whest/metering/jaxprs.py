"""Reading a jaxpr: which programs an equation contains, with which operands, under which labels."""

import re
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

from whest.errors import UnmeterableError
from whest.host import page
from whest.metering.internals import (
    ClosedJaxpr,
    JaxprEqn,
    Primitive,
    branches_of,
    closed,
    scan_of,
    scopes_of,
    while_of,
    written_out,
)

_LABEL = re.compile(r"[\w./ -]+")

T = TypeVar("T")

Kind = tuple[Any, Any]
"""Shape and dtype; a token has neither."""

Path = tuple[int, ...]
"""Where an equation stands: its index, then the index of a sub-program, then an equation's index there, and so on."""


def check_programs(eqn: JaxprEqn) -> None:
    """Refuse an equation whose programs declare other shapes than they are given or than it says they give back."""
    name = eqn.primitive.name
    operands, results = [kind(var.aval) for var in eqn.invars], [kind(var.aval) for var in eqn.outvars]
    for inner, given, taken in _joints(eqn, operands, results):
        if [kind(aval) for aval in inner.in_avals] != list(given):
            raise UnmeterableError(f"the program is inconsistent: a part of `{name}` is given other shapes")
        if taken is not None and [kind(aval) for aval in inner.out_avals] != list(taken):
            raise UnmeterableError(f"the program is inconsistent: a part of `{name}` gives back other shapes")


def kind(aval: Any) -> Kind:
    return getattr(aval, "shape", None), getattr(aval, "dtype", None)


Joint = tuple[ClosedJaxpr, Sequence[Kind], Sequence[Kind] | None]


def _joints(eqn: JaxprEqn, operands: list[Kind], results: list[Kind]) -> list[Joint]:
    """Each program an equation contains, with the shapes of what it is given and of what is taken from it."""
    inner = sub_programs(eqn)
    name = eqn.primitive.name
    if inner is None:
        return []
    if name == "scan":
        return [(inner[0], *_scanned(eqn, operands, results))]
    if name == "while":
        loop = while_of(eqn)
        n_test, n_body = loop.n_test, loop.n_body
        carried = operands[n_test + n_body :]
        test = (inner[0], operands[:n_test] + carried, None)
        return [test, (inner[1], operands[n_test : n_test + n_body] + carried, results)]
    if name == "cond":
        return [(branch, operands[1:], results) for branch in inner]
    return [(inner[0], list(call_arguments(eqn, operands)), results)]


def _scanned(eqn: JaxprEqn, operands: list[Kind], results: list[Kind]) -> tuple[list[Kind], list[Kind]]:
    """What a `scan`'s body is given each round and gives back, from the whole arrays outside."""
    scan = scan_of(eqn)
    n_carried, whole = scan.n_carry, scan.n_consts + scan.n_carry
    stacks = operands[whole:] + results[n_carried:]
    if any(shape is None or not shape or shape[0] != scan.length for shape, _ in stacks):
        raise UnmeterableError("the program is inconsistent: a `scan` goes over arrays of another length than its own")
    given = operands[:whole] + [(shape[1:], dtype) for shape, dtype in operands[whole:]]
    return given, results[:n_carried] + [(shape[1:], dtype) for shape, dtype in results[n_carried:]]


def sub_programs(eqn: JaxprEqn) -> tuple[ClosedJaxpr, ...] | None:
    """The programs an equation contains, in the order the meter visits them; None for a plain operation."""
    name = eqn.primitive.name
    if name in CALLS:
        return (closed(next(eqn.params[place] for place in CALLS[name] if place in eqn.params)),)
    if name == "scan":
        return (scan_of(eqn).body,)
    if name == "while":
        loop = while_of(eqn)
        return loop.test, loop.body
    if name == "cond":
        return branches_of(eqn)
    if name == "custom_linear_solve":  # only the solver runs forward; the transposed one serves differentiation
        return (closed(eqn.params["jaxprs"].solve),)
    words = written_out(eqn)
    return None if words is None else (words,)


def called_program(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The program of an equation that does nothing but call it, else None."""
    inner = None if eqn.primitive.name in ("scan", "while", "cond") else sub_programs(eqn)
    return None if inner is None else inner[0]


def call_arguments(eqn: JaxprEqn, operands: Sequence[T]) -> Sequence[T]:
    """Which of a calling equation's operands its program takes."""
    if eqn.primitive.name != "custom_linear_solve":
        return operands
    lengths = eqn.params["const_lengths"]
    first, after = lengths.matvec + lengths.vecmat, sum(lengths)
    return [*operands[first : first + lengths.solve], *operands[after:]]


CALLS: dict[str, tuple[str, ...]] = {
    "jit": ("jaxpr",),
    "pjit": ("jaxpr",),
    "closed_call": ("call_jaxpr",),
    "core_call": ("call_jaxpr",),
    "eval_jaxpr": ("call_jaxpr",),
    "remat2": ("jaxpr",),
    "checkpoint": ("jaxpr",),
    "custom_jvp_call": ("call_jaxpr",),
    "custom_vjp_call": ("call_jaxpr",),
    "composite": ("jaxpr", "call_jaxpr"),
}
"""Operations that call one program once with their own operands, and the names of the parameter that holds it."""


def label_of(eqn: JaxprEqn) -> str:
    """The author's own labels; JAX's notes of its transformations (`vmap`, `ij,jk->ik`) are left out."""
    return ".".join(name.replace("/", ".") for name in scopes_of(eqn) if _LABEL.fullmatch(name))


_OF_JAX: set[Primitive] = set()


def refuse_foreign(primitive: Primitive) -> None:
    """Refuse an operation that none of JAX's own modules defines. Its name says nothing: anybody can choose one."""
    if primitive not in _OF_JAX:
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("jax.")]
        _OF_JAX.update(value for module in modules for value in vars(module).values() if isinstance(value, Primitive))
    if primitive not in _OF_JAX:
        raise UnmeterableError(
            f"`{primitive.name}` is not an operation of JAX: its cost can't be metered. "
            f"Write it with operations that are counted ({page('meter.md')} lists them)"
        )
