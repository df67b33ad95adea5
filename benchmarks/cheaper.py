"""What the savings of matrix_core's lean chain cost in accuracy at phase2's shape, and what they save.

    python benchmarks/cheaper.py                   # two networks of no suite: the change of the answer
    python benchmarks/cheaper.py suite             # the error on phase2's suite, without the truth's noise
    python benchmarks/cheaper.py spread            # with the spread, which is off by default
    python benchmarks/cheaper.py 2.5 2.5:5@384:8@224    # some choices: thinned beyond 2.5 σ; tiers by age and columns
    python benchmarks/cheaper.py 256x16 n=12 all 2.5 2.5:6@64    # another shape, and more networks

The change needs no truth: it is the mean square difference from the first choice, by default the chain with all neurons
and no shared bases. It adds to the chain's own error (about 1.8e-8) if the two are independent. The cost is metered
with six levels of Strassen. The answers are computed with dense products, which are faster here. One network and choice
takes half a minute on two quiet cores, and compiling another.
"""

import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from training import plus_minus

from estimators.matrix_core import CORE_SHRINK, RADIAL, TERMS, MatrixCore
from estimators.parts.cumulant_chain import propagate
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sources import Third
from estimators.parts.strassen import Product, Strassen
from estimators.parts.thinning import Thinning
from estimators.parts.tiers import Plan, TieredSources
from whest.dataset.sources import FreshDataset, SuiteDataset
from whest.metering import meter

SHAPE, SEED, N_NETWORKS, BUDGET = "1024x16", 5150, 2, 2**41
CHOICES = ("all", "2.5", "2.5:5@384:8@224", "2.25", "2.25:5@384:8@224")
WORDS = ("spread", "suite")


def read(choice: str) -> tuple[float | None, Plan]:
    """Beyond how many σ neurons are left out, and the tiers."""
    beyond, *tiers = choice.split(":")
    pairs = [tier.split("@") for tier in tiers]
    return None if beyond == "all" else float(beyond), tuple((int(age), int(rank)) for age, rank in pairs)


def chain(choice: str, width: int, product: Product) -> Callable[[jax.Array], jax.Array]:
    """The last layer's means."""
    beyond, plan = read(choice)
    lean = LeanSources(None if beyond is None else Thinning(width, beyond))
    third: Third = TieredSources(plan, lean) if plan else lean
    core = MatrixCore(1 - CORE_SHRINK / width, False, RADIAL, spread="spread" in sys.argv)
    return lambda weights: propagate(weights, core, TERMS, RADIAL, product, third)[-1]


def main() -> None:
    words = [word for word in sys.argv[1:] if word not in WORDS]
    width, depth = (int(side) for side in next((word for word in words if "x" in word), SHAPE).split("x"))
    n_mlps = int(next((word[2:] for word in words if word.startswith("n=")), N_NETWORKS))
    choices = [word for word in words if "x" not in word and not word.startswith("n=")] or CHOICES
    is_suite = "suite" in sys.argv
    fresh = FreshDataset(width=width, depth=depth, seed=SEED, n_mlps=n_mlps)
    dataset = SuiteDataset("phase2").load() if is_suite else fresh.load()
    shape = jax.ShapeDtypeStruct((depth, width, width), jnp.float32)
    answers = {choice: jax.jit(chain(choice, width, Strassen(0))) for choice in choices}
    found: dict[str, list[float]] = {choice: [] for choice in choices}
    for row in dataset.rows:
        weights, first = jnp.asarray(dataset.mlp(row).weights), None
        for choice, answer in answers.items():
            means = np.asarray(answer(weights), np.float64)
            first = means if first is None else first
            error = np.mean((means - (row.truth.means[-1] if row.truth else first)) ** 2)
            found[choice].append(float(error) - (row.truth.floor_mse if row.truth else 0))
            print(row.index, choice, found[choice][-1], file=sys.stderr, flush=True)
    kind = "error" if is_suite else "mean square change"
    print(f"| {dataset.name}, {len(dataset.rows)} networks | C/B | {kind} | times C/B |\n|---|---|---|---|")
    for choice, values in found.items():
        cost = meter(chain(choice, width, Strassen(6, halves=True)))(shape).flops / BUDGET
        print(f"| {choice} | {cost:.4f} | {plus_minus(np.array(values))} | {cost * np.mean(values):.3g} |", flush=True)


if __name__ == "__main__":
    main()
