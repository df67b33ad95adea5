"""Reading a jaxpr: which programs an equation contains, with which operands, under which labels."""

import re
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

from jax.extend.core import ClosedJaxpr, JaxprEqn, Primitive

from whest.errors import UnmeterableError

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
    name, params = eqn.primitive.name, eqn.params
    if inner is None:
        return []
    if name == "scan":
        return [(inner[0], *_scanned(params, operands, results))]
    if name == "while":
        n_test, n_body = params["cond_nconsts"], params["body_nconsts"]
        carried = operands[n_test + n_body :]
        test = (inner[0], operands[:n_test] + carried, None)
        return [test, (inner[1], operands[n_test : n_test + n_body] + carried, results)]
    if name == "cond":
        return [(branch, operands[1:], results) for branch in inner]
    return [(inner[0], list(call_arguments(eqn, operands)), results)]


def _scanned(params: Any, operands: list[Kind], results: list[Kind]) -> tuple[list[Kind], list[Kind]]:
    """What a `scan`'s body is given each round and gives back, from the whole arrays outside."""
    length, n_carried = params["length"], params["num_carry"]
    whole = params["num_consts"] + n_carried
    stacks = operands[whole:] + results[n_carried:]
    if any(shape is None or not shape or shape[0] != length for shape, _ in stacks):
        raise UnmeterableError("the program is inconsistent: a `scan` goes over arrays of another length than its own")
    given = operands[:whole] + [(shape[1:], dtype) for shape, dtype in operands[whole:]]
    return given, results[:n_carried] + [(shape[1:], dtype) for shape, dtype in results[n_carried:]]


def sub_programs(eqn: JaxprEqn) -> tuple[ClosedJaxpr, ...] | None:
    """The programs an equation contains, in the order the meter visits them; None for a plain operation."""
    params, name = eqn.params, eqn.primitive.name
    if name in CALLS:
        inner = params[CALLS[name]]
        return (inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ()),)
    if name == "scan":
        return (params["jaxpr"],)
    if name == "while":
        return params["cond_jaxpr"], params["body_jaxpr"]
    if name == "cond":
        return tuple(params["branches"])
    if name == "custom_linear_solve":
        return (params["jaxprs"].solve,)  # only the solver runs forward; the transposed one serves differentiation
    return None


def called_program(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The program of an equation that does nothing but call it, else None."""
    is_call = eqn.primitive.name in CALLS or eqn.primitive.name == "custom_linear_solve"
    inner = sub_programs(eqn) if is_call else None
    return None if inner is None else inner[0]


def call_arguments(eqn: JaxprEqn, operands: Sequence[T]) -> Sequence[T]:
    """Which of a calling equation's operands its program takes."""
    if eqn.primitive.name != "custom_linear_solve":
        return operands
    lengths = eqn.params["const_lengths"]
    first, after = lengths.matvec + lengths.vecmat, sum(lengths)
    return [*operands[first : first + lengths.solve], *operands[after:]]


CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "composite": "jaxpr",
}
"""Operations that call one program once with their own operands, and the parameter that holds it."""


def label_of(eqn: JaxprEqn) -> str:
    """The author's own labels; JAX's notes of its transformations (`vmap`, `ij,jk->ik`) are left out."""
    if not eqn.source_info.name_stack.stack:
        return ""
    scopes = [entry.name for entry in eqn.source_info.name_stack.stack if type(entry).__name__ == "Scope"]
    return ".".join(name.replace("/", ".") for name in scopes if _LABEL.fullmatch(name))


_OF_JAX: set[Primitive] = set()


def refuse_foreign(primitive: Primitive) -> None:
    """Refuse an operation that none of JAX's own modules defines. Its name says nothing: anybody can choose one."""
    if primitive not in _OF_JAX:
        modules = [module for name, module in list(sys.modules.items()) if name.startswith("jax.")]
        _OF_JAX.update(value for module in modules for value in vars(module).values() if isinstance(value, Primitive))
    if primitive not in _OF_JAX:
        raise UnmeterableError(
            f"`{primitive.name}` is not an operation of JAX: its cost can't be metered. "
            "Write it with operations that are counted (docs/meter.md lists them)"
        )
