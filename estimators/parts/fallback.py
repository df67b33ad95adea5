"""The fallback of an estimator that costs more than the budget: the next cheaper method that fits, down to zeros.

Every method here names its next cheaper one. The first method whose metered cost is within the budget answers. It runs
inside `jax.named_scope("fallback.<name>")`, so a report's namespaces show which method answered. The meter reads only
shapes, so the choice is made while tracing and costs nothing. The cost of each method and shape is remembered.
"""

from functools import cache
from typing import Protocol

import jax
from jaxtyping import Array, Float

from whest.metering import meter


class Affordable(Protocol):
    """A method with a cost and, unless it is free, a cheaper method. It is hashable, to be a key of `price`'s cache."""

    @property
    def name(self) -> str: ...

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]: ...

    def cheaper(self) -> "Affordable | None": ...

    def __hash__(self) -> int: ...


def predict_within(
    budget: int, method: Affordable, weights: Float[Array, "depth width width"]
) -> Float[Array, "depth width"]:
    """The answer of `method`, or of the first cheaper one that is within the budget."""
    if affordable(budget, method, weights.shape, str(weights.dtype)) is method:
        return method.means(weights)
    return fall_back(budget, method, weights)


def fall_back(
    budget: int, method: Affordable, weights: Float[Array, "depth width width"]
) -> Float[Array, "depth width"]:
    """Like `predict_within`, but the report always shows a fallback: `method` itself replaces another estimator."""
    chosen = affordable(budget, method, weights.shape, str(weights.dtype))
    with jax.named_scope(f"fallback.{chosen.name}"):
        return chosen.means(weights)


def affordable(budget: int, method: Affordable, shape: tuple[int, ...], dtype: str = "float32") -> Affordable:
    cheaper = method.cheaper()
    while cheaper is not None and price(method, shape, dtype) > budget:
        method, cheaper = cheaper, cheaper.cheaper()
    return method


@cache
def price(method: Affordable, shape: tuple[int, ...], dtype: str = "float32") -> int:
    """Metered FLOPs of one answer."""
    return meter(method.means)(jax.ShapeDtypeStruct(shape, dtype)).flops
