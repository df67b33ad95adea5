"""Reading a jaxpr: which programs an equation contains, with which operands, under which labels."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from jax.extend.core import ClosedJaxpr, JaxprEqn, check_jaxpr

from whest.errors import UnmeterableError

_LABEL = re.compile(r"[\w./ -]+")

T = TypeVar("T")

Path = tuple[int, ...]
"""Where an equation stands: its index, then the index of a sub-program, then an equation's index there, and so on."""


def check_shapes(program: ClosedJaxpr) -> None:
    """Refuse a program whose parts declare other shapes than they are given: priced as one, it would run as another."""
    try:
        check_jaxpr(program.jaxpr)
    except Exception as error:
        raise UnmeterableError(f"the program is inconsistent: {str(error).splitlines()[0]}") from None
    for eqn in program.jaxpr.eqns:
        for inner, given in _given(eqn):
            if [_kind(aval) for aval in inner.in_avals] != given:
                raise UnmeterableError(
                    f"the program is inconsistent: a part of `{eqn.primitive.name}` is given other shapes"
                )
            check_shapes(inner)


def _kind(aval: Any) -> tuple[Any, ...]:
    return tuple(aval.shape), str(aval.dtype)


def _given(eqn: JaxprEqn) -> list[tuple[ClosedJaxpr, list[tuple[Any, ...]]]]:
    """Each program an equation contains, with the shapes of what it is really given."""
    inner = sub_programs(eqn)
    operands = [_kind(var.aval) for var in eqn.invars]
    name, params = eqn.primitive.name, eqn.params
    if inner is None:
        return []
    if name == "scan":
        whole = params["num_consts"] + params["num_carry"]
        slices = [(shape[1:], dtype) for shape, dtype in operands[whole:]]
        return [(inner[0], operands[:whole] + slices)]
    if name == "while":
        n_test, n_body = params["cond_nconsts"], params["body_nconsts"]
        carried = operands[n_test + n_body :]
        return [(inner[0], operands[:n_test] + carried), (inner[1], operands[n_test : n_test + n_body] + carried)]
    if name == "cond":
        return [(branch, operands[1:]) for branch in inner]
    return [(inner[0], list(call_arguments(eqn, operands)))]


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
}
"""Operations that call one program once with their own operands, and the parameter that holds it."""


def label_of(eqn: JaxprEqn) -> str:
    """The author's own labels; JAX's notes of its transformations (`vmap`, `ij,jk->ik`) are left out."""
    scopes = [entry.name for entry in eqn.source_info.name_stack.stack if type(entry).__name__ == "Scope"]
    return ".".join(name.replace("/", ".") for name in scopes if _LABEL.fullmatch(name))
