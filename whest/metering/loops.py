"""Counting the rounds of `while` loops that depend on the data: the program is run with a counter for each of them.

Only the parts of a program that contain such a loop are rebuilt, with the counters carried through; everything else
is the author's program, operation for operation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from whest.metering.internals import ClosedJaxpr, JaxprEqn, Literal, context_of, scan_of, while_of
from whest.metering.jaxprs import Path, call_arguments, sub_programs

Counters = UInt32[Array, " loop"]

MOST_ROUNDS = np.uint32(2**32 - 1)
"""A counter stops here instead of wrapping around to zero."""


def count_rounds(program: ClosedJaxpr, loops: Sequence[Path]) -> Callable[..., tuple[list[Array], Counters]]:
    """The program as a function of its arguments that also returns how often each of the loops went round."""
    places = {path: index for index, path in enumerate(loops)}

    def run(*args: Array) -> tuple[list[Array], Counters]:
        return _evaluate(program, args, (), places, jnp.zeros(len(loops), jnp.uint32))

    return run


def _evaluate(
    program: ClosedJaxpr, args: Sequence[Any], path: Path, places: dict[Path, int], counters: Counters
) -> tuple[list[Any], Counters]:
    jaxpr = program.jaxpr
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *args], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for index, eqn in enumerate(jaxpr.eqns):
        here = (*path, index)
        operands = [read(atom) for atom in eqn.invars]
        if any(loop[: len(here)] == here for loop in places):
            results, counters = _rebuild(eqn, operands, here, places, counters)
        else:
            with context_of(eqn):
                answer = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
            results = list(answer) if eqn.primitive.multiple_results else [answer]
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars], counters


def _rebuild(
    eqn: JaxprEqn, operands: list[Any], path: Path, places: dict[Path, int], counters: Counters
) -> tuple[list[Any], Counters]:
    """The same control flow with the counters in its hands."""
    inner = sub_programs(eqn)
    assert inner is not None
    name = eqn.primitive.name

    def call(which: int, args: Sequence[Any], before: Counters) -> tuple[list[Any], Counters]:
        return _evaluate(inner[which], args, (*path, which), places, before)

    if name == "while":
        return _while(eqn, operands, call, places.get(path), counters)
    if name == "scan":
        return _scan(eqn, operands, call, counters)
    if name == "cond":
        which, *args = operands
        branches = [_branch(call, index) for index in range(len(inner))]
        results, counters = jax.lax.switch(which, branches, args, counters)
        return list(results), counters
    return call(0, call_arguments(eqn, operands), counters)


def _branch(call: Callable[..., Any], index: int) -> Callable[[list[Any], Counters], Any]:
    return lambda args, counters: call(index, args, counters)


def _while(
    eqn: JaxprEqn, operands: list[Any], call: Callable[..., Any], place: int | None, counters: Counters
) -> tuple[list[Any], Counters]:
    loop = while_of(eqn)
    n_test, n_body = loop.n_test, loop.n_body
    for_test, for_body = operands[:n_test], operands[n_test : n_test + n_body]

    def test(carried: list[Any], before: Counters) -> tuple[Any, Counters]:
        (goes_on,), after = call(0, [*for_test, *carried], before)
        return goes_on, after

    def body(state: tuple[Any, list[Any], Counters]) -> tuple[Any, list[Any], Counters]:
        """One round, then the next test: a test may hold loops of its own, whose rounds count as well."""
        lanes, old, before = state
        new, after = call(1, [*for_body, *old], before)
        carried = [_keep_finished(lanes, *pair) for pair in zip(new, old, strict=True)]
        if place is not None:
            after = after.at[place].set(jnp.where(after[place] == MOST_ROUNDS, after[place], after[place] + 1))
        goes_on, after = test(carried, after)
        return goes_on, carried, after

    start = operands[n_test + n_body :]
    goes_on, counters = test(start, counters)
    _, carried, counters = jax.lax.while_loop(lambda state: state[0].any(), body, (goes_on, start, counters))
    return carried, counters


def _keep_finished(goes_on: Array, new: Array, old: Array) -> Array:
    """Under vmap a loop runs until its last lane is done; the lanes that were done before keep what they had."""
    if goes_on.ndim == 0:
        return new
    lanes = goes_on.reshape(goes_on.shape + (1,) * (new.ndim - goes_on.ndim))
    return jnp.where(lanes, new, old)


def _scan(
    eqn: JaxprEqn, operands: list[Any], call: Callable[..., Any], counters: Counters
) -> tuple[list[Any], Counters]:
    scan = scan_of(eqn)
    n_consts, n_carried = scan.n_consts, scan.n_carry
    consts, carried = operands[:n_consts], operands[n_consts : n_consts + n_carried]

    def body(state: tuple[list[Any], Counters], slices: list[Any]) -> tuple[tuple[list[Any], Counters], list[Any]]:
        results, after = call(0, [*consts, *state[0], *slices], state[1])
        return (results[:n_carried], after), results[n_carried:]

    (carried, counters), stacked = jax.lax.scan(
        body,
        (carried, counters),
        operands[n_consts + n_carried :],
        length=scan.length,
        reverse=scan.reverse,
    )
    return [*carried, *stacked], counters
