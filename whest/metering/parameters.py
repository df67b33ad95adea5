"""Closed parameters: an operation may carry plain data and the programs that the meter walks, and nothing else.

A program, a function or an unknown object among the parameters could be run without being counted, so it is refused
whatever the operation's name.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import jax
import numpy as np
from jax import lax

from whest.errors import UnmeterableError
from whest.metering.internals import SCAN_PARTS, JaxprEqn
from whest.metering.jaxprs import CALLS
from whest.metering.randomness import generators
from whest.metering.regions import REGIONS

WALKED: dict[str, frozenset[str]] = {
    **{name: frozenset(places) for name, places in CALLS.items()},
    **{name: frozenset(place for pair in pairs for place in pair if place) for name, pairs in REGIONS.items()},
    "scan": frozenset({"jaxpr"}) | SCAN_PARTS,
    "while": frozenset({"cond_jaxpr", "body_jaxpr"}),
    "cond": frozenset({"branches"}),
    "custom_linear_solve": frozenset({"jaxprs"}),
    **dict.fromkeys(("select_and_scatter_add", "select_and_gather_add"), frozenset({"select_prim"})),
}
"""Parameters whose programs, or whose choice, the meter reads itself."""

UNUSED: dict[str, frozenset[str]] = {
    "custom_jvp_call": frozenset({"jvp_jaxpr_fun", "jvp_jaxpr_thunk", "jvp"}),
    "custom_vjp_call": frozenset({"fwd_jaxpr_thunk", "bwd", "out_trees"}),
    "remat2": frozenset({"policy"}),
    "checkpoint": frozenset({"policy"}),
    "reduce": frozenset({"computation"}),
}
"""Functions that serve differentiation or batching: a traced program has been through both and never calls them."""

RECORDS = (lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers, lax.ConvDimensionNumbers,
           lax.RaggedDotDimensionNumbers, lax.Tolerance)  # fmt: skip
"""JAX's own records of plain numbers."""

PLACES = (jax.sharding.Sharding, jax.sharding.Mesh, jax.sharding.AbstractMesh, jax.Device, jax.memory.Space)
"""Where an array lives."""

UNNAMED = frozenset(("UnspecifiedValue", "ArrayCopySemantics", "Layout", "Format", "AutoLayout", "_ScalarMeta"))
"""Types of JAX for "anywhere", "as it is" and `jnp.float32` that have no public name."""


def check_parameters(eqn: JaxprEqn) -> None:
    """Refuse an equation that carries what the meter can't read."""
    check_params(eqn.primitive.name, eqn.params)


def check_params(name: str, params: Mapping[str, Any]) -> None:
    exempt = WALKED.get(name, frozenset()) | UNUSED.get(name, frozenset())
    for key, value in params.items():
        if is_algorithm(value):
            raise UnmeterableError(
                f"`{name}` with {key}={value} computes in another type, or several times over, and has no price: "
                "convert the operands, or leave it out"
            )
        if key not in exempt and not is_plain(value):
            raise UnmeterableError(
                f"`{name}` can't be metered: its parameter {key} holds a {type(value).__name__}, "
                "which the meter doesn't walk. Only numbers, names, dtypes and shapes are allowed there"
            )


def is_algorithm(value: Any) -> bool:
    """How a product is to be computed: in float64 behind float32 operands, or as a sum of several products."""
    if isinstance(value, lax.DotAlgorithm | lax.DotAlgorithmPreset):  # the first is a tuple
        return value != lax.DotAlgorithmPreset.DEFAULT
    return isinstance(value, tuple | list) and any(map(is_algorithm, value))


def is_plain(value: Any) -> bool:
    """Data that can't be run."""
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return True
    if isinstance(value, RECORDS) or any(value is implementation for implementation in generators().values()):
        return True
    if isinstance(value, Enum):
        return _is_jaxs(value)
    if type(value) in (tuple, list, frozenset, set) or (isinstance(value, tuple) and _is_jaxs(value)):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(map(is_plain, value.values()))
    return _is_plain_number_or_place(value)


def _is_plain_number_or_place(value: Any) -> bool:
    """NumPy's numbers and dtypes, devices and memories, the dtype of random keys."""
    if isinstance(value, np.generic | np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return True
    if isinstance(value, PLACES) and _is_jaxs(value):
        return True
    if type(value).__name__ in UNNAMED and _is_jaxs(value):
        return True
    known = generators().values()
    return _is_jaxs(value) and any(getattr(value, "_impl", None) == i for i in known)  # the dtype of keys


def _is_jaxs(value: Any) -> bool:
    """A class of JAX's own, not a subclass that somebody wrote."""
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
