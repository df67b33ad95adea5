"""What the savings of matrix_core's lean chain cost in accuracy at phase2's shape, and what they save.

    python benchmarks/cheaper.py                   # 1024x16, two networks of no suite: the change of the answer
    python benchmarks/cheaper.py 2.5 shared=5:384,8:224     # one choice: thinned beyond 2.5 σ, tiers by age and columns

No truth is needed: the change is the mean square difference from the chain with all neurons and no shared bases. An error
adds to the chain's own (about 1.8e-8) if the two are independent. The cost is metered with six levels of Strassen; the
answers are computed with dense products, which are faster here. About three minutes per choice on two quiet cores.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from estimators.matrix_core import CORE_SHRINK, RADIAL, TERMS, THINNED, MatrixCore
from estimators.parts.cumulant_chain import propagate
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sources import Third
from estimators.parts.strassen import Product, Strassen
from estimators.parts.thinning import Thinning
from estimators.parts.tiers import Plan, TieredSources
from whest.dataset.sources import FreshDataset
from whest.metering import meter

WIDTH, DEPTH, SEED, N_NETWORKS, BUDGET = 1024, 16, 5150, 2, 2**41
Choice = tuple[float | None, Plan]
"""Beyond how many σ neurons are left out, and the tiers."""
CHOICES: dict[str, Choice] = {
    "all": (None, ()),
    "thinned 2.5": (THINNED, ()),
    "thinned 2.5, 384@5 224@8": (THINNED, ((5, 384), (8, 224))),
    "thinned 3": (3.0, ()),
    "thinned 2.5, 448@4 320@6 224@9": (THINNED, ((4, 448), (6, 320), (9, 224))),
    "thinned 2.5, 384@4 256@6 160@9": (THINNED, ((4, 384), (6, 256), (9, 160))),
}


def means(weights: jax.Array, choice: Choice, product: Product) -> jax.Array:
    beyond, plan = choice
    lean = LeanSources(None if beyond is None else Thinning(WIDTH, beyond))
    third: Third = TieredSources(plan, lean) if plan else lean
    core = MatrixCore(1 - CORE_SHRINK / WIDTH, False, RADIAL)
    return propagate(weights, core, TERMS, RADIAL, product, third)


def asked(words: list[str]) -> dict[str, Choice]:
    """The choice of the command line beside the whole chain."""
    beyond = float(words[0]) if words[0] != "none" else None
    tiers = [pair.split(":") for word in words[1:] for pair in word.removeprefix("shared=").split(",")]
    return {"all": CHOICES["all"], " ".join(words): (beyond, tuple((int(age), int(rank)) for age, rank in tiers))}


def main() -> None:
    choices = asked(sys.argv[1:]) if len(sys.argv) > 1 else CHOICES
    dataset = FreshDataset(width=WIDTH, depth=DEPTH, seed=SEED, n_mlps=N_NETWORKS).load()
    nets = [jnp.asarray(dataset.mlp(row).weights) for row in dataset.rows]
    shape = jax.ShapeDtypeStruct(nets[0].shape, nets[0].dtype)
    whole: list[np.ndarray] = []
    print(f"| {WIDTH}x{DEPTH}, {N_NETWORKS} networks | C/B | mean square change |\n|---|---|---|")
    for label, choice in choices.items():
        cost = meter(lambda w, c=choice: means(w, c, Strassen(6, halves=True)))(shape).flops / BUDGET
        answer = jax.jit(lambda w, c=choice: means(w, c, Strassen(0))[-1])
        found = [np.asarray(answer(net), np.float64) for net in nets]
        whole = whole or found
        changes = " ".join(f"{np.mean((x - y) ** 2):.2g}" for x, y in zip(found, whole, strict=True))
        print(f"| {label} | {cost:.4f} | {changes} |", flush=True)


if __name__ == "__main__":
    main()
