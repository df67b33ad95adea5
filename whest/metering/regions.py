"""Operations that apply a function many times: scatter, reduce and windows. The function is a region of the operation.

The price is the region's own, walked by the table, times the number of applications, so it doesn't depend on the name:
a `scatter-add` whose region draws Gaussians pays for Gaussians.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from whest.errors import UnmeterableError
from whest.metering.elementwise import per_element, size
from whest.metering.internals import ClosedJaxpr, Primitive, closed
from whest.metering.lookups import scatter

Aval = Any

Params = Mapping[str, Any]

REGIONS: dict[str, tuple[tuple[str, str | None], ...]] = {
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
        (("update_jaxpr", "update_consts"),),
    ),
    "reduce": (("jaxpr", None),),
    "reduce_window": (("jaxpr", "consts"),),
    "select_and_scatter": (("select_jaxpr", "select_consts"), ("scatter_jaxpr", "scatter_consts")),
}
"""The parameters that hold an operation's regions, and those that hold the regions' constants."""


def regions_of(name: str, params: Params) -> list[ClosedJaxpr | None]:
    """An operation's regions as programs; None for one that is left out."""
    pairs = [(params[place], params[consts] if consts else ()) for place, consts in REGIONS[name]]
    return [None if program is None else closed(program, consts) for program, consts in pairs]


RegionPrice = Callable[[Sequence[Aval], Sequence[Aval], Params, Sequence[float]], float]


def _scatter(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params, bodies: Sequence[float]) -> float:
    """log2 of the places per piece, then the update function per updated element, at least 1."""
    return scatter(inputs, outputs, params, bodies[0])


def _reduce(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params, bodies: Sequence[float]) -> float:
    """The function once per element: XLA also applies it to the first one and the start value."""
    return size(inputs[0]) * bodies[0]


def _reduce_window(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params, bodies: Sequence[float]) -> float:
    """The function once per place of each window: a window of 1 still applies it to the start value."""
    return size(outputs[0]) * _window(params) * bodies[0]


def _select_and_scatter(
    inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params, bodies: Sequence[float]
) -> float:
    """Choose the place in each window, then put the number there."""
    select, put = bodies
    return size(inputs[1]) * (_window(params) * max(1, select) + max(1, put))


REGION_FORMULAS: dict[str, RegionPrice] = {
    **dict.fromkeys(REGIONS, _scatter),
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
}


def _window(params: Params) -> int:
    return prod(params["window_dimensions"])


REDUCED_BY = {
    **{"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min"},
    **{"reduce_and": "and", "reduce_or": "or", "reduce_xor": "xor", "argmax": "gt", "argmin": "lt"},
}
"""The operation that each reduction repeats."""

SUMMED_BY = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
"""The operation that each prefix operation repeats."""

WINDOWED_BY = {"reduce_window_sum": "add", "reduce_window_max": "max", "reduce_window_min": "min"}
"""The operation that each window reduction repeats."""


def reduction(name: str, inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """The operations that are really made: elements in − elements out."""
    return max(0, size(inputs[0]) - size(outputs[0])) * per_element(REDUCED_BY[name], inputs)


def prefix(name: str, inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return size(inputs[0]) * per_element(SUMMED_BY[name], inputs)


def log_sum_exp(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Maximum, difference, exponential and log1p, added up: 4 real, 122 complex."""
    return size(inputs[0]) * (4 if per_element("mul", inputs) == 1 else 122)


def window(name: str, inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    return size(outputs[0]) * (_window(params) - 1) * per_element(WINDOWED_BY[name], inputs)


def select_and_scatter_add(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """One comparison per further place of each window, then one addition."""
    _check_comparison(params)
    return size(inputs[0]) * _window(params)


def select_and_gather_add(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """A comparison and two choices per further place of each window, and the pairs packed and unpacked."""
    _check_comparison(params)
    packing = 4 * size(inputs[0]) + 5 * size(outputs[0])
    return size(outputs[0]) * (_window(params) - 1) * 3 + packing


def _check_comparison(params: Params) -> None:
    comparison = params["select_prim"]
    if not (isinstance(comparison, Primitive) and comparison.name in ("ge", "gt", "le", "lt")):
        raise UnmeterableError(f"parameter select_prim={comparison!r} is not a comparison (ge, gt, le or lt)")
