"""Figures remembered per signature: an operation on operands of the same shapes, with the same parameters.

A program of tens of thousands of equations has a few hundred signatures. What is checked or priced once per signature
is not done again for the next equation like it.
"""

from collections.abc import Callable
from typing import Any

from whest.errors import UnmeterableError
from whest.metering.internals import Jaxpr, JaxprEqn, Literal, Var, check_jaxpr, no_names
from whest.metering.jaxprs import kind

Signature = tuple[Any, ...]


def signature_of(eqn: JaxprEqn) -> Signature:
    """The operation, its parameters by value, and the shapes and dtypes of what goes in and comes out."""
    inputs = tuple([kind(var.aval) for var in eqn.invars])
    outputs = tuple([kind(var.aval) for var in eqn.outvars])
    return eqn.primitive, inputs, outputs, tuple(eqn.params.items())


class Remembered:
    """A function of an equation, called once per signature."""

    def __init__(self, function: Callable[[JaxprEqn], Any]) -> None:
        self._function = function
        self._known: dict[Signature, Any] = {}

    def __call__(self, eqn: JaxprEqn) -> Any:
        signature = signature_of(eqn)
        try:
            found = self._known.get(signature)
        except TypeError:  # a parameter without a hash, such as a list
            return self._function(eqn)
        if found is None:
            found = self._known[signature] = self._function(eqn)
        return found


def check_literals(eqn: JaxprEqn) -> None:
    """Refuse a number in the text that isn't the lone number it is declared to be."""
    for atom in eqn.invars:
        if type(atom) is Literal and getattr(atom.val, "shape", ()) != kind(atom.aval)[0]:
            raise UnmeterableError(
                f"the program is inconsistent: `{eqn.primitive.name}` is given a number of another shape than declared"
            )


def check_equation(eqn: JaxprEqn) -> None:
    """Refuse an equation whose results have other shapes than its operation gives."""
    operands = list(dict.fromkeys(var for var in eqn.invars if isinstance(var, Var)))
    results = [var for var in eqn.outvars if type(var) is Var]
    alone = Jaxpr([], operands, results, [eqn], eqn.effects, no_names())
    try:
        check_jaxpr(alone)
    except Exception as error:
        raise UnmeterableError(f"the program is inconsistent: {str(error).splitlines()[0]}") from None
