"""The meter: how many FLOPs a JAX program costs, as its author wrote it.

The program's jaxpr is walked and every primitive charged its price (`whest.metering.prices`): a loop's body times its
trip count, a branch by the dearest. So the same mathematics costs the same as a Python loop, `scan`, `fori_loop` or
`map`. `jax.named_scope` labels say where the FLOPs went.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from whest.cost import Charge as Charge
from whest.cost import Cost as Cost
from whest.errors import UnmeterableError
from whest.metering.elementwise import choices
from whest.metering.internals import ClosedJaxpr, JaxprEqn, scan_of, while_of
from whest.metering.jaxprs import Path, check_programs, kind, label_of, refuse_foreign, sub_programs
from whest.metering.lists import DEFAULT, PEER_RELEASES, chosen
from whest.metering.parameters import check_params
from whest.metering.prices import price
from whest.metering.signatures import Remembered, check_equation, check_literals
from whest.metering.trips import Known, counters, known_constants, passed_on, settled, trip_count

METER_VERSION = 3
"""Part of the protocol hash: raised whenever a price or a rule changes."""

LONGEST_COUNTED = 256
"""The longest `scan` that is walked round by round, where a loop inside it runs as long as a counter says."""

Place = tuple[str, str]
"""Namespace and operation."""

Tally = Mapping[Place, tuple[float, int]]
"""FLOPs and calls of each operation in each namespace."""


@dataclass(frozen=True)
class Estimate:
    """A program's cost as far as its text tells: exact, but for the rounds of `while` loops that depend on the data."""

    tally: Tally
    """Every such loop counted with zero rounds."""
    loops: Mapping[Path, Tally]
    """What one more round costs, for each such loop, in the order they stand."""

    def cost(self, rounds: Sequence[int] = ()) -> Cost:
        """The cost once the loops' rounds are known; a lower bound without them."""
        if any(flops == math.inf for flops, _ in self.total(rounds).values()):
            raise UnmeterableError("the loops multiply to more FLOPs than a number can hold")
        charges = (Charge(*place, round(flops), calls) for place, (flops, calls) in self.total(rounds).items())
        return Cost(tuple(sorted(charges, key=lambda charge: -charge.flops)))

    def total(self, rounds: Sequence[int] = ()) -> Tally:
        looped = zip(self.loops.values(), map(int, rounds), strict=False)
        return added([(self.tally, 1), *looped])


def added(parts: Iterable[tuple[Tally, int]]) -> Tally:
    """Tallies added up, each so many times."""
    total: dict[Place, tuple[float, int]] = {}
    for tally, times in parts:
        for place, (flops, calls) in tally.items():
            before = total.get(place, (0.0, 0))
            total[place] = before[0] + flops * times, before[1] + calls * times
    return total


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
            return _by_chosen_list(function.trace(*args, **kwargs).jaxpr)
        held = {place % len(args) for place in places if -len(args) <= place < len(args)}
        return _by_chosen_list(_traced(function, args, kwargs, held, names))

    return measure


def _by_chosen_list(program: ClosedJaxpr) -> Cost:
    if chosen() == DEFAULT:
        return cost_of(program)
    if chosen() in PEER_RELEASES:
        from whest.metering.peer import peer_estimate  # it builds on this module

        cost_of(program)  # refuses what has no cost before it runs
        return peer_estimate(program, chosen()).cost()
    from whest.metering.xla import count  # it builds on this module

    return count(program).cost()


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
    return walked(program, TABLE)


def walked(program: ClosedJaxpr, pricing: "Pricing") -> Estimate:
    """A program's equations charged one after the other."""
    walk = _Walk(pricing)
    try:
        return Estimate(walk.program(program, (), ""), walk.loops)
    except RecursionError:
        raise UnmeterableError("the program's loops and calls are nested too deep to be metered") from None


@dataclass(frozen=True)
class Pricing:
    """How a walk charges an equation, and a choice among so many branches."""

    equation: Callable[[JaxprEqn], float]
    choice: Callable[[int], float]


def _price_of(eqn: JaxprEqn) -> float:
    """The table's price of an equation that is what it says it is."""
    check_equation(eqn)
    return price(eqn.primitive, [var.aval for var in eqn.invars], [var.aval for var in eqn.outvars], eqn.params)


TABLE = Pricing(Remembered(_price_of), choices)


class _Walk:
    """One walk over a program; the data-dependent loops it meets are collected on the way."""

    def __init__(self, pricing: Pricing) -> None:
        self._pricing = pricing
        self._depth = 0
        """Loops around the equation at hand."""
        self.loops: dict[Path, Tally] = {}

    def program(self, program: ClosedJaxpr, path: Path, scope: str, known: Known | None = None) -> Tally:
        known = {**known_constants(program), **(known or {})}
        total: dict[Place, tuple[float, int]] = {}
        for index, eqn in enumerate(program.jaxpr.eqns):
            refuse_foreign(eqn.primitive)
            label = label_of(eqn)
            here = _join(scope, label) if label else scope
            inner = sub_programs(eqn)
            if inner is None:
                check_literals(eqn)
                place = here, eqn.primitive.name
                flops, calls = total.get(place, (0.0, 0))
                total[place] = flops + self._plain(eqn), calls + 1
                known.update(settled(eqn, known))
                continue
            for place, (flops, calls) in self._control(eqn, inner, (*path, index), here, known).items():
                before = total.get(place, (0.0, 0))
                total[place] = before[0] + flops, before[1] + calls
        return total

    def _plain(self, eqn: JaxprEqn) -> float:
        """A lone number's conversion is free outside loops: tracing folds it or not as it happens to be written."""
        flops = self._pricing.equation(eqn)
        is_lone = eqn.primitive.name == "convert_element_type" and not kind(eqn.outvars[0].aval)[0]
        return 0.0 if is_lone and not self._depth else flops

    def _inside_loop(self, program: ClosedJaxpr, path: Path, scope: str, known: Known | None = None) -> Tally:
        self._depth += 1
        try:
            return self.program(program, path, scope, known)
        finally:
            self._depth -= 1

    def _control(self, eqn: JaxprEqn, inner: Sequence[ClosedJaxpr], path: Path, scope: str, known: Known) -> Tally:
        """An equation that runs programs: by its rounds, or the dearest branch."""
        check_params(eqn.primitive.name, eqn.params)
        check_programs(eqn)
        if eqn.primitive.name == "scan":
            return self._scan(eqn, inner[0], (*path, 0), scope, known)
        if eqn.primitive.name == "cond":
            return self._cond(inner, path, scope)
        if eqn.primitive.name == "while":
            return self._while(eqn, path, scope, known)
        return self.program(inner[0], (*path, 0), scope, passed_on(eqn, inner[0], known))

    def _scan(self, eqn: JaxprEqn, body: ClosedJaxpr, path: Path, scope: str, known: Known) -> Tally:
        """The body times the length; round by round if only a counter of the scan tells how long a loop inside runs."""
        length = scan_of(eqn).length
        if type(length) is not int or length < 0:
            raise UnmeterableError(f"`scan` with length {length!r}: a length is a whole number from 0")
        before = dict(self.loops)
        alike = added([(self._inside_loop(body, path, scope), length)])
        at = counters(eqn, known) if len(self.loops) > len(before) and length <= LONGEST_COUNTED else None
        if at is None:
            return alike
        unknown, self.loops = self.loops, dict(before)
        by_round = added([(self._inside_loop(body, path, scope, at(number)), 1) for number in range(length)])
        if len(self.loops) == len(before):
            return by_round
        self.loops = unknown
        return alike

    def _cond(self, branches: Sequence[ClosedJaxpr], path: Path, scope: str) -> Tally:
        """The bits of the choice and the dearest branch: which one runs depends on the data."""
        walked = [self.program(branch, (*path, i), scope) for i, branch in enumerate(branches)]
        dearest = max(walked, key=lambda tally: sum(flops for flops, _ in tally.values()))
        return added([({(scope, "cond"): (self._pricing.choice(len(branches)), 1)}, 1), (dearest, 1)])

    def _while(self, eqn: JaxprEqn, path: Path, scope: str, known: Known) -> Tally:
        rounds = trip_count(eqn, known)
        if rounds is None:
            self.loops[path] = {}  # holds this loop's place before those inside it
        loop = while_of(eqn)
        test = self._inside_loop(loop.test, (*path, 0), scope)
        body = self._inside_loop(loop.body, (*path, 1), scope)
        lanes = math.prod(loop.test.out_avals[0].shape)
        if loop.test.out_avals[0].shape:  # under vmap: does any lane go on? finished ones are held
            test = added([(test, 1), ({(scope, "reduce_or"): (lanes - 1, 1)}, 1)])
            body = added([(body, 1), ({(scope, "select_n"): (sum(map(_size, eqn.outvars)), 1)}, 1)])
        if rounds is None:
            self.loops[path] = added([(test, 1), (body, 1)])
            return test
        return added([(test, rounds + 1), (body, rounds)])


def _size(var: Any) -> int:
    return math.prod(var.aval.shape)


def _join(*scopes: str) -> str:
    return ".".join(scope for scope in scopes if scope)
