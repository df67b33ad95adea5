"""Where the FLOPs of matrix_core's lean chain go: the meter's shares of phase2's budget by part.

    python benchmarks/cost_parts.py                        # the choices below
    python benchmarks/cost_parts.py 2.5 2.5:6@256          # others, written as for cheaper.py

Nothing is run: the meter needs shapes alone. A choice takes about 20 s on a quiet core.
"""

import sys
from collections import defaultdict

import jax
import jax.numpy as jnp
from cheaper import BUDGET, chain

from estimators.parts.strassen import Strassen
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


def shares(choice: str) -> defaultdict[str, float]:
    shape = jax.ShapeDtypeStruct((DEPTH, WIDTH, WIDTH), jnp.float32)
    found: defaultdict[str, float] = defaultdict(float)
    for charge in meter(chain(choice, WIDTH, Strassen(LEVELS, halves=True)))(shape).charges:
        outer, *_, inner = 2 * charge.namespace.split(".")
        found["last" if outer == "last" else inner] += charge.flops / BUDGET
    return found


def main() -> None:
    choices = sys.argv[1:] or CHOICES
    tables = {choice: shares(choice) for choice in choices}
    print(f"| share of phase2's budget | {' | '.join(choices)} |\n|---|{'---|' * len(choices)}")
    for label, words in PARTS.items():
        print(f"| {words} | {' | '.join(f'{tables[choice][label]:.4f}' for choice in choices)} |")
    print(f"| together | {' | '.join(f'{sum(table.values()):.4f}' for table in tables.values())} |")


if __name__ == "__main__":
    main()
