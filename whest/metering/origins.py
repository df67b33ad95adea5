"""Where a program's values come from: constants, random draws, or data. The peer's price list depends on it.

The peer bills a random number as one operation, and what NumPy makes from shapes alone not at all. A JAX program says
both in many equations. They are recognised by what flows where, never by a name, which anybody can choose.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from whest.metering.internals import ClosedJaxpr, JaxprEqn, Literal, Var, scan_of, while_of
from whest.metering.jaxprs import call_arguments, kind, sub_programs

DATA, CONSTANT, PLATFORM = "data", "constant", "platform"

STEPS = {
    ("bits", "shift_right_logical"): "shifted",
    ("shifted", "or"): "mantissa",
    ("mantissa", "bitcast_convert_type"): "near one",
    ("near one", "sub"): "unit",
    ("unit", "mul"): "scaled",
    ("scaled", "add"): "moved",
    ("moved", "max"): "uniform",
    ("uniform", "erf_inv"): "normal",
    ("normal", "mul"): DATA,
}
"""How JAX makes a uniform number from random bits, and a normal one from that. Other operands are lone numbers."""

DRAWING = frozenset("random_bits random_split random_fold_in random_seed threefry2x32 rng_bit_generator".split())


@dataclass
class Sources:
    """What was found about each equation, by its identity; an equation that is met twice must agree with itself."""

    roles: dict[int, str | None] = field(default_factory=dict)

    def of(self, eqn: JaxprEqn) -> str | None:
        """`constant`, `elsewhere` (a branch of another platform), a step of a draw by what it makes, or None."""
        return self.roles.get(id(eqn))

    def _note(self, eqn: JaxprEqn, role: str | None) -> None:
        if self.roles.setdefault(id(eqn), role) != role:
            self.roles[id(eqn)] = None

    def program(self, program: ClosedJaxpr, given: Sequence[str], is_elsewhere: bool = False) -> list[str]:
        """Follow the values through a program; the states of its results."""
        states: dict[Var, str] = dict.fromkeys(program.jaxpr.constvars, CONSTANT)
        states.update(zip(program.jaxpr.invars, given, strict=True))

        def state(atom: Any) -> str:
            return CONSTANT if isinstance(atom, Literal) else states[atom]

        for eqn in program.jaxpr.eqns:
            operands = [state(atom) for atom in eqn.invars]
            results = self._called(eqn, operands, is_elsewhere) or self._plain(eqn, operands, is_elsewhere)
            states.update(zip(eqn.outvars, results, strict=True))
        return [state(atom) for atom in program.jaxpr.outvars]

    def _plain(self, eqn: JaxprEqn, operands: list[str], is_elsewhere: bool) -> list[str]:
        name = eqn.primitive.name
        if name == "platform_index":
            self._note(eqn, CONSTANT)
            return [PLATFORM]
        if is_elsewhere:
            self._note(eqn, "elsewhere")
            return [DATA] * len(eqn.outvars)
        if name not in DRAWING and all(it == CONSTANT for it in operands):
            self._note(eqn, CONSTANT)
            return [CONSTANT] * len(eqn.outvars)
        step = _step(eqn, operands)
        self._note(eqn, step and (f"draws {step}" if step != DATA else "draws normal's scale"))
        return [("bits" if name == "random_bits" else step) or DATA] * len(eqn.outvars)

    def _called(self, eqn: JaxprEqn, operands: list[str], is_elsewhere: bool) -> list[str] | None:
        """The states of an equation that contains programs; nothing is known of what a loop carries."""
        inner, name = sub_programs(eqn), eqn.primitive.name
        if inner is None:
            return None
        if name == "cond":
            known = operands[0] == PLATFORM
            for i, branch in enumerate(inner):  # the last branch is that of any platform without one of its own
                self.program(branch, operands[1:], is_elsewhere or (known and i < len(inner) - 1))
            return [DATA] * len(eqn.outvars)
        if name == "scan":
            self.program(inner[0], _held(inner[0], operands[: scan_of(eqn).n_consts]), is_elsewhere)
            return [DATA] * len(eqn.outvars)
        if name == "while":
            loop = while_of(eqn)
            fixed = operands[: loop.n_test], operands[loop.n_test : loop.n_test + loop.n_body]
            for program, held in zip(inner, fixed, strict=True):
                self.program(program, _held(program, held), is_elsewhere)
            return [DATA] * len(eqn.outvars)
        return self.program(inner[0], list(call_arguments(eqn, operands)), is_elsewhere)


def _held(program: ClosedJaxpr, held: Sequence[str]) -> list[str]:
    return [*held, *[DATA] * (len(program.jaxpr.invars) - len(held))]


def _step(eqn: JaxprEqn, operands: Sequence[str]) -> str | None:
    """The next state of a draw, if this equation is its next step."""
    moving = [place for place, state in enumerate(operands) if (state, eqn.primitive.name) in STEPS]
    if len(moving) != 1:
        return None
    others = [kind(atom.aval)[0] for place, atom in enumerate(eqn.invars) if place != moving[0]]
    if any(prod(shape) != 1 for shape in others):
        return None
    return STEPS[operands[moving[0]], eqn.primitive.name]


def sources_of(program: ClosedJaxpr) -> Sources:
    """Where the values of a whole program come from; its arguments are data."""
    sources = Sources()
    sources.program(program, [DATA] * len(program.jaxpr.invars))
    return sources
