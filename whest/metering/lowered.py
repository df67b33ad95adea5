"""XLA's figure for one operation, lowered alone and not optimised, each operand an argument of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from whest.metering.internals import Primitive

Aval = Any

BLIND = ("stablehlo.while", "custom_call", "stablehlo.case", "stablehlo.if")
"""What XLA counts once or not at all: loops, calls into libraries, branches."""


@dataclass(frozen=True)
class Figure:
    """FLOPs and transcendentals together, or why XLA has no figure."""

    flops: float
    unknown: str | None = None


def lowered_figure(primitive: Primitive, inputs: Sequence[Aval], params: Mapping[str, Any]) -> Figure:
    """What XLA's cost analysis says about one operation on operands of these shapes."""

    def call(*arguments: jax.Array) -> Any:
        return primitive.bind(*arguments, **primitive.get_bind_params(dict(params)))

    try:
        arguments = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in inputs]
        lowered = jax.jit(call, keep_unused=True).trace(*arguments).lower(lowering_platforms=("cpu",))
    except Exception as error:
        return Figure(0.0, f"XLA does not lower it alone ({str(error).splitlines()[0] if str(error) else error!r})")
    blind = _blind(lowered)
    if blind is not None:
        return Figure(0.0, f"it lowers to a {blind.removeprefix('stablehlo.')} whose cost XLA doesn't know")
    analysis = lowered.cost_analysis() or {}
    flops, transcendentals = float(analysis.get("flops", 0.0)), float(analysis.get("transcendentals", 0.0))
    if min(flops, transcendentals) < 0:
        return Figure(0.0, "XLA's figure is below zero")
    return Figure(flops + transcendentals)


def _blind(lowered: Any) -> str | None:
    text = lowered.as_text()
    return next((name for name in BLIND if name in text), None)
