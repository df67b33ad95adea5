"""Where the FLOPs of matrix_core's lean chain go: the meter's shares of phase2's budget by part.

    python benchmarks/cost_parts.py                        # the choices below
    python benchmarks/cost_parts.py 2.5 2.5:6@256          # others, written as for cheaper.py

Without tiers a second column counts by hand: the products that the docstrings of `matrix_core`, `lean_sources` and
`thinning` name, each at the price of Strassen's product. Sums over pairs of neurons are left out of it. Nothing is run:
the meter needs shapes alone. A choice takes about 20 s on a quiet core.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from cheaper import BUDGET, chain, read

from estimators.parts.strassen import HALVINGS, Strassen, cheapest
from estimators.parts.thinning import Thinning
from whest.metering import meter

WIDTH, DEPTH, LEVELS = 1024, 16, 6
CHOICES = ("all", "2.5", "2.5:6@320")
PARTS = {
    "carry": "carry A and P",
    "join": "join a tier",
    "slices": "slices κ_iij",
    "expand": "expand a tier",
    "covariance": "W·Wᵀ, W·C·Wᵀ, W·B·Wᵀ",
    "core": "B of the next layer",
    "relu": "moments of the ReLU",
    "fourth": "κ₄ of the layer",
    "birth": "new sources",
    "last": "last layer",
    "": "means",
}
"""By label; a label inside another is its own part, but in the last layer."""


def price(m: int, k: int, n: int) -> float:
    """FLOPs of a product of an m×k by a k×n matrix."""
    products, additions = 1, 0
    for _ in range(cheapest(m, k, n, LEVELS)):
        m, k, n = m // 2, k // 2, n // 2
        additions += products * (4 * m * k + 4 * k * n + 7 * m * n)
        products *= 7
    return additions + products * 2.0 * m * k * n


def symmetric_price(n: int) -> float:
    """Of x·yᵀ by halves: one corner of n/2 rows, two of n/4 and so on, and the blocks on the diagonal."""
    corners = sum(2**i * price(n >> (i + 1), n, n >> (i + 1)) for i in range(HALVINGS))
    return corners + 2**HALVINGS * price(n >> HALVINGS, n, n >> HALVINGS)


def model(choice: str) -> dict[str, float]:
    """The same shares by a count of products; a layer's sources are those of the layers before it."""
    beyond, _ = read(choice)
    thinning = Thinning(WIDTH, math.inf if beyond is None else beyond)
    hubs, alive = ([size(layer) for layer in range(1, DEPTH + 1)] for size in (thinning.hubs, thinning.alive))
    carried = [price(WIDTH, alive[l - 1], 2 * sum(hubs[: l - 1]) + hubs[l - 1]) for l in range(1, DEPTH)]  # noqa: E741
    sliced = [price(hubs[l], 2 * sum(hubs[:l]), alive[l]) for l in range(1, DEPTH - 1)]  # noqa: E741
    square, half = price(WIDTH, WIDTH, WIDTH), symmetric_price(WIDTH)
    flops = {
        "carry": sum(carried[:-1]),
        "slices": sum(sliced),
        "covariance": (DEPTH - 1) * half + 2 * (DEPTH - 2) * (square + half),
        "core": (DEPTH - 1) * half,
        "last": carried[-1] + 2 * square,
    }
    return {label: found / BUDGET for label, found in flops.items()}


def shares(choice: str) -> defaultdict[str, float]:
    shape = jax.ShapeDtypeStruct((DEPTH, WIDTH, WIDTH), jnp.float32)
    found: defaultdict[str, float] = defaultdict(float)
    for charge in meter(chain(choice, WIDTH, Strassen(LEVELS, halves=True)))(shape).charges:
        outer, *_, inner = 2 * charge.namespace.split(".")
        found["last" if outer == "last" else inner] += charge.flops / BUDGET
    return found


def main() -> None:
    choices = sys.argv[1:] or CHOICES
    tables: dict[str, Mapping[str, float]] = {}
    for choice in choices:
        tables[choice] = shares(choice)
        if not read(choice)[1]:
            tables[f"{choice}, by count"] = model(choice)
    print(f"| share of phase2's budget | {' | '.join(tables)} |\n|---|{'---|' * len(tables)}")
    for label, words in PARTS.items():
        cells = (
            f"{table[label]:.4f}" if label in table or "count" not in name else "–" for name, table in tables.items()
        )
        print(f"| {words} | {' | '.join(cells)} |")
    print(f"| together | {' | '.join(f'{sum(table.values()):.4f}' for table in tables.values())} |")


if __name__ == "__main__":
    main()
