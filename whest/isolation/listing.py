"""A program that came as plain data, as a list: operations, shapes, scopes and FLOPs, and what its constants are for.

Shapes are not in a document; they follow from building the program. So this runs in a worker, as everything does that
builds a stranger's program.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import numpy as np

from whest.errors import UnmeterableError, WhestError
from whest.isolation.channel import Message
from whest.isolation.influence import Influence, findings_of
from whest.isolation.messages import Answer, Arrays, write_cost
from whest.isolation.portable import read_aval, read_program
from whest.metering.internals import ClosedJaxpr, JaxprEqn, Literal, scan_of
from whest.metering.jaxprs import kind, label_of, sub_programs
from whest.metering.trips import Known, known_constants, passed_on, trip_count
from whest.metering.walk import TABLE, estimate_cost

MOST_ROWS = 20_000
"""Of a listing; further operations are counted alone."""


@dataclass(frozen=True)
class Row:
    """One operation. `rounds` is how often it runs; None inside a loop whose rounds depend on the data."""

    depth: int
    operation: str
    scope: str
    operands: str
    results: str
    flops: float | None
    """Of all its rounds, or of one where their number is not known; None for a loop, which has none of its own."""
    rounds: int | None


@dataclass
class Listing:
    """The rows of a program."""

    rows: list[Row] = field(default_factory=list)
    n_operations: int = 0
    n_loops: int = 0
    """Around the operation at hand."""

    def add(self, row: Row) -> None:
        self.n_operations += 1
        if len(self.rows) < MOST_ROWS:
            self.rows.append(row)

    def program(
        self, program: ClosedJaxpr, rounds: int | None, depth: int = 0, scope: str = "", known: Known | None = None
    ) -> float:
        """List a program; the FLOPs of its rows."""
        known, total = {**known_constants(program), **(known or {})}, 0.0
        for eqn in program.jaxpr.eqns:
            here = ".".join(name for name in (scope, label_of(eqn)) if name)
            inner = sub_programs(eqn)
            if inner is None:
                total += self._plain(eqn, rounds, depth, here)
            else:
                total += self._control(eqn, inner, rounds, depth, here, known)
        return total

    def _plain(self, eqn: JaxprEqn, rounds: int | None, depth: int, scope: str) -> float:
        is_lone = eqn.primitive.name == "convert_element_type" and not kind(eqn.outvars[0].aval)[0]
        is_free = is_lone and not self.n_loops  # as the meter has it
        flops = 0.0 if is_free else TABLE.equation(eqn) * (1 if rounds is None else rounds)
        self.add(Row(depth, eqn.primitive.name, scope, shapes(eqn.invars), shapes(eqn.outvars), flops, rounds))
        return flops

    def _control(
        self,
        eqn: JaxprEqn,
        inner: Sequence[ClosedJaxpr],
        rounds: int | None,
        depth: int,
        scope: str,
        known: Known,
    ) -> float:
        name = eqn.primitive.name
        if name not in ("scan", "while", "cond"):
            return self.program(inner[0], rounds, depth, scope, passed_on(eqn, inner[0], known))
        times = scan_of(eqn).length if name == "scan" else trip_count(eqn, known) if name == "while" else 1
        within = None if rounds is None or times is None else rounds * times
        flops = TABLE.choice(len(inner)) * (1 if rounds is None else rounds) if name == "cond" else None
        self.add(Row(depth, name, scope, shapes(eqn.invars), shapes(eqn.outvars), flops, within))
        if name == "cond":
            return (flops or 0.0) + self._branches(inner, rounds, depth, scope)
        self.n_loops += 1
        tests, body = inner[:-1], inner[-1]  # a test runs once more than its body
        once_more = None if rounds is None or within is None else within + rounds
        total = sum(self.program(test, once_more, depth + 1, scope) for test in tests)
        total += self.program(body, within, depth + 1, scope)
        self.n_loops -= 1
        return total

    def _branches(self, branches: Sequence[ClosedJaxpr], rounds: int | None, depth: int, scope: str) -> float:
        """All are listed; the dearest is paid for."""
        costs = []
        for number, branch in enumerate(branches):
            self.add(Row(depth, f"branch {number}", scope, "", "", None, rounds))
            costs.append(self.program(branch, rounds, depth + 1, scope))
        return max(costs)


def shapes(atoms: Sequence[Any]) -> str:
    """`f32[8,256] 2.0`: kinds and shapes, and the value of a lone number."""
    return " ".join(map(_shape, atoms))


def _shape(atom: Any) -> str:
    if isinstance(atom, Literal) and not kind(atom.aval)[0]:
        return str(atom.val)[:20]
    return str(atom.aval.str_short(short_dtypes=True))


def listing_answers(message: Message, arrays: Arrays) -> Answer:
    """The worker's side: each program listed, metered, and asked what its constants are for."""
    answers = {}
    for name, (document, place) in message["programs"].items():
        try:
            answers[name] = _listed(document, arrays[slice(*place)])
        except WhestError as error:
            answers[name] = {"failure": str(error)[:2000]}
        except Exception as error:  # JAX or the meter stumbles over a document in as many ways as it has values
            answers[name] = {"failure": f"{type(error).__name__}: {error}"[:2000]}
    return {"programs": answers}, []


def _listed(document: Any, arrays: Sequence[np.ndarray]) -> Message:
    function = read_program(document, arrays)
    program = jax.make_jaxpr(function)(*map(read_aval, document["program"]["shapes"]))
    estimate = estimate_cost(program)
    listing = Listing()
    listing.program(program, 1)
    if len(estimate.loops) > 10_000:
        raise UnmeterableError("it has more than 10,000 loops whose rounds depend on the data")
    return {
        "inputs": [_shape(var) for var in program.jaxpr.invars],
        "outputs": [_shape(var) for var in program.jaxpr.outvars],
        "cost": write_cost(estimate.cost()),
        "n_open_loops": len(estimate.loops),
        "n_operations": listing.n_operations,
        "rows": [list(asdict(row).values()) for row in listing.rows],
        "findings": [asdict(finding) for finding in findings_of(Influence(program))],
    }
