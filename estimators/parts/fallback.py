"""What an estimator does where the budget is too small for it: the next cheaper method that fits, down to zeros.

Every method here knows its next cheaper one; the first whose metered cost is within the budget answers, inside
`jax.named_scope("fallback.<name>")`, so that a report's namespaces say who did. The meter reads shapes alone, so the
choice is made while tracing and costs nothing; a price is remembered for its method and shape.
"""

from functools import cache
from typing import Protocol

import jax
from jaxtyping import Array, Float

from whest.metering import meter


class Affordable(Protocol):
    """A method with a price and, unless it is free, a cheaper one to fall back to. Frozen, so that it can be a key."""

    @property
    def name(self) -> str: ...

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]: ...

    def cheaper(self) -> "Affordable | None": ...

    def __hash__(self) -> int: ...


def predict_within(
    budget: int, method: Affordable, weights: Float[Array, "depth width width"]
) -> Float[Array, "depth width"]:
    """The answer of the first method, from this one down, that the budget allows."""
    if affordable(budget, method, weights.shape, str(weights.dtype)) is method:
        return method.means(weights)
    return fall_back(budget, method, weights)


def fall_back(
    budget: int, method: Affordable, weights: Float[Array, "depth width width"]
) -> Float[Array, "depth width"]:
    """The same, said in the report even where it is the first method itself: it stands in for another."""
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
