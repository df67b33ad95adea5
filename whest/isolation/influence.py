"""What reaches what in a program: whether its answer depends on its first input, and how it uses its constants.

Three marks flow from equation to equation. GIVEN: it depends on the first input, the weights. BROUGHT: it depends on a
constant of the program, and on nothing that was given. CHOICE: a truth value that depends on what was given, or that
value as a number. A table of answers must be entered by something that was given: that is what is looked for.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whest.metering.internals import ClosedJaxpr, JaxprEqn, Literal, scan_of, while_of
from whest.metering.jaxprs import call_arguments, kind, sub_programs

GIVEN, BROUGHT, CHOICE = 1, 2, 4
LOOKUPS = {"gather": 1, "dynamic_slice": 1}
"""Operations that read at a place, and the first operand that says where."""
CARRIERS = frozenset(
    "convert_element_type broadcast_in_dim reshape transpose squeeze copy rev slice concatenate and or not "
    "reduce_and reduce_or reduce_max reduce_min stop_gradient mul select_n argmax argmin".split()
)
"""Operations through which a choice stays a choice."""


@dataclass(frozen=True)
class Finding:
    """A use of a constant that a table of answers would have."""

    rule: str
    what: str
    n_values: int
    """Numbers of the table."""


class Influence:
    """The marks of a program's variables, found by walking it until nothing changes."""

    def __init__(self, program: ClosedJaxpr) -> None:
        self.lookups: dict[str, Finding] = {}
        n_inputs = len(program.jaxpr.invars)
        self.outputs = self._program(program, [GIVEN, *[0] * n_inputs][:n_inputs])

    def _program(self, program: ClosedJaxpr, marks: Sequence[int]) -> list[int]:
        known: dict[Any, int] = dict(zip(program.jaxpr.invars, marks, strict=True))
        known |= dict.fromkeys(program.jaxpr.constvars, BROUGHT)
        for eqn in program.jaxpr.eqns:
            operands = [self._mark(atom, known) for atom in eqn.invars]
            known |= dict(zip(eqn.outvars, self._results(eqn, operands), strict=True))
        return [self._mark(atom, known) for atom in program.jaxpr.outvars]

    def _mark(self, atom: Any, known: dict[Any, int]) -> int:
        if isinstance(atom, Literal):
            return BROUGHT if kind(atom.aval)[0] else 0
        return known[atom]

    def _results(self, eqn: JaxprEqn, operands: list[int]) -> list[int]:
        inner = sub_programs(eqn)
        if inner is None:
            self._note(eqn, operands)
            return [_joined(eqn, operands)] * len(eqn.outvars)
        name = eqn.primitive.name
        if name == "cond":
            self._note(eqn, operands)
            branches = [self._program(branch, operands[1:]) for branch in inner]
            chosen = GIVEN if operands[0] & (GIVEN | CHOICE) else 0
            return [_or(marks) | chosen for marks in zip(*branches, strict=True)]
        if name == "scan":
            scan = scan_of(eqn)
            return self._loop(inner[0], operands, scan.n_consts, scan.n_carry)
        if name == "while":
            loop = while_of(eqn)
            marks = operands[loop.n_test :]
            tested = self._program(loop.test, [*operands[: loop.n_test], *marks[loop.n_body :]])
            found = self._loop(loop.body, marks, loop.n_body, len(marks) - loop.n_body)
            return [mark | (GIVEN if tested[0] & GIVEN else 0) for mark in found]
        return self._program(inner[0], list(call_arguments(eqn, operands)))

    def _loop(self, body: ClosedJaxpr, operands: list[int], n_consts: int, n_carry: int) -> list[int]:
        """The carried marks only grow, so this ends."""
        consts, carry, rest = (
            operands[:n_consts],
            operands[n_consts : n_consts + n_carry],
            operands[n_consts + n_carry :],
        )
        while True:
            found = self._program(body, [*consts, *carry, *rest])
            grown = [a | b for a, b in zip(carry, found[:n_carry], strict=True)]
            if grown == carry:
                return [*grown, *found[n_carry:]]
            carry = grown

    def _note(self, eqn: JaxprEqn, operands: list[int]) -> None:
        """Whether a table that was brought is entered by what was given."""
        name = eqn.primitive.name
        tables = [
            math.prod(kind(atom.aval)[0])
            for atom, mark in zip(eqn.invars, operands, strict=True)
            if mark == BROUGHT and _letter(atom) == "f"
        ]
        if not tables:
            return
        if name in LOOKUPS and operands[0] == BROUGHT and _or(operands[LOOKUPS[name] :]) & GIVEN:
            self._keep(Finding("lookup", f"{name} reads a constant at a place that the weights decide", tables[0]))
        if name in ("select_n", "dot_general", "mul", "cond") and any(mark & CHOICE for mark in operands):
            self._keep(Finding("choice", f"{name} takes or leaves a constant as the weights decide", max(tables)))

    def _keep(self, finding: Finding) -> None:
        before = self.lookups.get(finding.what)
        if before is None or before.n_values < finding.n_values:
            self.lookups[finding.what] = finding


def _joined(eqn: JaxprEqn, operands: Sequence[int]) -> int:
    marks = _or(operands)
    is_given = marks & GIVEN
    is_choice = is_given and _letter(eqn.outvars[0]) == "b"
    if is_choice or (marks & CHOICE and eqn.primitive.name in CARRIERS and not _mixed(operands)):
        return GIVEN | CHOICE
    return GIVEN if is_given else marks & BROUGHT


def _letter(atom: Any) -> str:
    """f for floating point, b for truth values."""
    return str(getattr(kind(atom.aval)[1], "kind", ""))


def _mixed(operands: Sequence[int]) -> bool:
    """Whether a choice meets something given that is none: the product is a figure, as in a ReLU."""
    return any(mark & GIVEN and not mark & CHOICE for mark in operands)


def _or(marks: Sequence[int]) -> int:
    total = 0
    for mark in marks:
        total |= mark
    return total


def findings_of(influence: Influence) -> list[Finding]:
    found = list(influence.lookups.values())
    if not any(mark & GIVEN for mark in influence.outputs):
        found.append(Finding("blind", "the answer does not depend on the weights", 0))
    return found
