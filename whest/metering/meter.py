"""The meter: how many FLOPs a JAX program costs, as its author wrote it.

The program's jaxpr is walked and every primitive charged its price (`whest.metering.prices`): a loop's body times its
trip count, a branch by the dearest. So the same mathematics costs the same as a Python loop, `scan`, `fori_loop` or
`map`. `jax.named_scope` labels say where the FLOPs went.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from whest.cost import Charge as Charge
from whest.cost import Cost as Cost
from whest.errors import UnmeterableError
from whest.metering.jaxprs import Path, call_arguments, check_shapes, label_of, sub_programs
from whest.metering.prices import price

METER_VERSION = 1
"""Part of the protocol hash: raised whenever a price or a rule changes."""

Known = Mapping[Var, int]
"""Scalars whose value is fixed in the program text, which is what makes a `while` loop's length countable."""


@dataclass(frozen=True)
class Entry:
    """One equation's price, before equal ones are added up."""

    namespace: str
    operation: str
    flops: float
    calls: int


@dataclass(frozen=True)
class Estimate:
    """A program's cost as far as its text tells: exact, but for the rounds of `while` loops that depend on the data."""

    entries: tuple[Entry, ...]
    """Every such loop counted with zero rounds."""
    loops: Mapping[Path, tuple[Entry, ...]]
    """What one more round costs, for each such loop, in the order they stand."""

    def cost(self, rounds: Sequence[int] = ()) -> Cost:
        """The cost once the loops' rounds are known; a lower bound without them."""
        entries = list(self.entries)
        for n, body in zip(rounds, self.loops.values(), strict=False):
            entries += _times(body, int(n))
        return _total(entries)


def meter(
    function: Callable[..., Any], *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
) -> Callable[..., Cost]:
    """`meter(f)(*args)` is what `f(*args)` costs; only shapes and dtypes of the arguments matter, nothing is run.

    Arguments are arrays, numbers, `jax.ShapeDtypeStruct`s or pytrees of them. What is none of these (a string, a
    function, a dtype) is taken as it is; numbers that a shape or a branch depends on are to be named static, as for
    `jax.jit`. A jitted function brings its own static arguments along.
    """
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
    places = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)

    def measure(*args: Any, **kwargs: Any) -> Cost:
        if hasattr(function, "trace") and not (names or places):
            return cost_of(function.trace(*args, **kwargs).jaxpr)
        held = {place % len(args) for place in places if -len(args) <= place < len(args)}
        return cost_of(_traced(function, args, kwargs, held, names))

    return measure


def _traced(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], held: set[int], names: set[str]
) -> ClosedJaxpr:
    """The program of a call, with arguments that aren't data kept out of it."""
    free = [None if place in held else value for place, value in enumerate(args)]
    leaves, tree = jax.tree.flatten((free, {name: value for name, value in kwargs.items() if name not in names}))
    data = [place for place, leaf in enumerate(leaves) if _is_data(leaf)]

    def call(*given: Any) -> Any:
        filled = list(leaves)
        for place, value in zip(data, given, strict=True):
            filled[place] = value
        positional, named = jax.tree.unflatten(tree, filled)
        whole = (args[place] if place in held else value for place, value in enumerate(positional))
        return function(*whole, **named, **{name: kwargs[name] for name in names & kwargs.keys()})

    try:
        return jax.make_jaxpr(call)(*(leaves[place] for place in data))
    except TypeError as error:
        if any(isinstance(leaves[place], int | float) for place in data):
            error.add_note("A number that a shape or a branch depends on must be static: meter(f, static_argnums=1).")
        raise


def _is_data(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float | complex) or (hasattr(leaf, "shape") and hasattr(leaf, "dtype"))


def cost_of(program: ClosedJaxpr) -> Cost:
    """The cost of a traced program whose text tells all of it."""
    estimate = estimate_cost(program)
    if estimate.loops:
        raise UnmeterableError(
            "a `while_loop` with a number of rounds that depends on the data has no cost before it runs: "
            "use fori_loop or scan with a fixed length"
        )
    return estimate.cost()


def estimate_cost(program: ClosedJaxpr) -> Estimate:
    """The cost of a traced program, data-dependent loops told apart."""
    check_shapes(program)
    loops: dict[Path, tuple[Entry, ...]] = {}
    entries = _Walk(loops).program(program, (), "")
    return Estimate(tuple(entries), loops)


def _total(entries: Iterable[Entry]) -> Cost:
    flops: dict[tuple[str, str], float] = defaultdict(float)
    calls: dict[tuple[str, str], int] = defaultdict(int)
    for entry in entries:
        flops[entry.namespace, entry.operation] += entry.flops * entry.calls
        calls[entry.namespace, entry.operation] += entry.calls
    charges = (Charge(*place, round(flops[place]), calls[place]) for place in flops)
    return Cost(tuple(sorted(charges, key=lambda charge: -charge.flops)))


def _times(entries: Iterable[Entry], n: int) -> list[Entry]:
    return [replace(entry, calls=entry.calls * n) for entry in entries]


class _Walk:
    """One walk over a program; the data-dependent loops it meets are collected on the way."""

    def __init__(self, loops: dict[Path, tuple[Entry, ...]]) -> None:
        self._loops = loops

    def program(self, program: ClosedJaxpr, path: Path, scope: str, known: Known | None = None) -> list[Entry]:
        known = {**_known_constants(program), **(known or {})}
        entries: list[Entry] = []
        for index, eqn in enumerate(program.jaxpr.eqns):
            entries += self._equation(eqn, (*path, index), _join(scope, label_of(eqn)), known)
        return entries

    def _equation(self, eqn: JaxprEqn, path: Path, scope: str, known: Known) -> list[Entry]:
        inner = sub_programs(eqn)
        name = eqn.primitive.name
        if inner is None:
            inputs = [var.aval for var in eqn.invars]
            outputs = [var.aval for var in eqn.outvars]
            return [Entry(scope, name, price(eqn.primitive, inputs, outputs, eqn.params), 1)]
        if name == "scan":
            length = eqn.params["length"]
            if type(length) is not int or length < 0:
                raise UnmeterableError(f"`scan` with length {length!r}: a length is a whole number from 0")
            return _times(self.program(inner[0], (*path, 0), scope), length)
        if name == "cond":
            return self._cond(inner, path, scope)
        if name == "while":
            return self._while(eqn, path, scope, known)
        return self.program(inner[0], (*path, 0), scope, _passed_on(eqn, inner[0], known))

    def _cond(self, branches: Sequence[ClosedJaxpr], path: Path, scope: str) -> list[Entry]:
        """The dearest branch: which one runs depends on the data."""
        walked = [self.program(branch, (*path, i), scope) for i, branch in enumerate(branches)]
        return max(walked, key=lambda entries: sum(entry.flops * entry.calls for entry in entries))

    def _while(self, eqn: JaxprEqn, path: Path, scope: str, known: Known) -> list[Entry]:
        rounds = _trip_count(eqn, known)
        if rounds is None:
            self._loops[path] = ()  # holds this loop's place before those inside it
        test = self.program(eqn.params["cond_jaxpr"], (*path, 0), scope)
        body = self.program(eqn.params["body_jaxpr"], (*path, 1), scope)
        if eqn.params["cond_jaxpr"].out_avals[0].shape:  # under vmap finished lanes are held by a select
            body.append(Entry(scope, "select_n", sum(map(_size, eqn.outvars)), 1))
        if rounds is None:
            self._loops[path] = (*test, *body)
            return test
        return _times(test, rounds + 1) + _times(body, rounds)


def _size(var: Any) -> int:
    return math.prod(var.aval.shape)


def _join(*scopes: str) -> str:
    return ".".join(scope for scope in scopes if scope)


def _passed_on(eqn: JaxprEqn, program: ClosedJaxpr, known: Known) -> Known:
    """Which of a called program's arguments have a known value."""
    pairs = zip(program.jaxpr.invars, call_arguments(eqn, eqn.invars), strict=True)
    values = {var: _value(operand, known) for var, operand in pairs}
    return {var: value for var, value in values.items() if value is not None}


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
