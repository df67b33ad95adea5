"""What the savings of matrix_core's lean chain cost in accuracy at phase2's shape, and what they save.

    python benchmarks/cheaper.py                   # two networks of no suite: the change of the answer
    python benchmarks/cheaper.py suite             # the error on phase2's suite, without the truth's noise
    python benchmarks/cheaper.py spread            # with the spread, which is off by default
    python benchmarks/cheaper.py 2.5 2.5:5@384:8@224    # some choices: thinned beyond 2.5 σ; tiers by age and columns
    python benchmarks/cheaper.py 256x16 n=12 all 2.5 2.5:6@64    # another shape, and more networks
    python benchmarks/cheaper.py confirm 12        # the error of phase2's adopted changes on 12 networks of no suite
    python benchmarks/cheaper.py confirm suite     # the same on phase2's suite

The change needs no truth: it is the mean square difference from the first choice, by default the chain with all neurons
and no shared bases. It adds to the chain's own error (about 1.8e-8) if the two are independent. The cost is metered
with six levels of Strassen. The answers are computed with dense products, which are faster here. One network and choice
takes half a minute on two quiet cores, and compiling another.

`confirm` compares the adopted forms, each with the one before it, on networks that served no choice. Truth and answers
are kept in outputs/, so it goes on where it was stopped; `samples=` is the size of the truth. The truth's own noise t
adds 2·√(d·T·d)/n to a paired difference of n neurons, with d the change of the answer and T the covariance of t. T is
taken as that of the activations, scaled to t's variance. A quiet core draws 1e4 samples per second.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from training import Network, each_network, plus_minus

from estimators.matrix_core import CORE_SHRINK, RADIAL, TERMS, MatrixCore
from estimators.parts.cumulant_chain import propagate
from estimators.parts.cumulants import Terms
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sources import Third
from estimators.parts.strassen import Product, Strassen
from estimators.parts.thinning import Thinning
from estimators.parts.tiers import Plan, TieredSources
from whest.dataset.sources import FreshDataset, SuiteDataset
from whest.files import read_arrays, write_arrays
from whest.metering import meter
from whest.truth.mixed import MixedTruth

SHAPE, SEED, N_NETWORKS, BUDGET = "1024x16", 5150, 2, 2**41
CHOICES = ("all", "2.5", "2.5:5@384:8@224", "2.25", "2.25:5@384:8@224")
WORDS = ("spread", "suite")
CONFIRM_SEED, CONFIRM_SAMPLES, NOISE_SAMPLES = 8191, 330_000, 4096
KEPT = Path("outputs/confirm")
HEADINGS = (
    "C/B",
    "raw MSE",
    "mean square change",
    "paired change",
    "truth's part of ±",
    "from the first row",
    "times C/B",
)


class Form(NamedTuple):
    """A form of phase2's lean chain."""

    choice: str
    legs: bool = True
    radial: float = RADIAL

    def answer(self, width: int, product: Product) -> Callable[[jax.Array], jax.Array]:
        terms = TERMS if self.legs else TERMS._replace(gates=None, legs=None)
        return chain(self.choice, width, product, terms, self.radial)


ADOPTED = {
    "corrected": Form("all"),
    "+ thinned at 2.5": Form("2.5"),
    "+ shared, 320 columns from age 6": Form("2.5:6@320"),
}
FORMS = {
    "plain expansion, on the sphere": Form("all", legs=False, radial=1),
    "+ legs and gates": Form("all", radial=1),
    f"+ radius to the power {RADIAL}: corrected": Form("all"),
    **{name: form for name, form in ADOPTED.items() if name.startswith("+")},
}
"""Each row has the change that its name says, after those above."""


def read(choice: str) -> tuple[float | None, Plan]:
    """Beyond how many σ neurons are left out, and the tiers."""
    beyond, *tiers = choice.split(":")
    pairs = [tier.split("@") for tier in tiers]
    return None if beyond == "all" else float(beyond), tuple((int(age), int(rank)) for age, rank in pairs)


def chain(
    choice: str, width: int, product: Product, terms: Terms = TERMS, radial: float = RADIAL
) -> Callable[[jax.Array], jax.Array]:
    """The last layer's means."""
    beyond, plan = read(choice)
    lean = LeanSources(None if beyond is None else Thinning(width, beyond))
    third: Third = TieredSources(plan, lean) if plan else lean
    core = MatrixCore(1 - CORE_SHRINK / width, False, radial, spread="spread" in sys.argv)
    return lambda weights: propagate(weights, core, terms, radial, product, third)[-1]


def confirm(words: Sequence[str]) -> None:
    """Each form of the chain against the one before it and the first one; the adopted forms first."""
    is_suite = words[0] == "suite"
    samples = int(next((word[8:] for word in words if word.startswith("samples=")), CONFIRM_SAMPLES))
    nets: Iterable[Network] = suite_networks() if is_suite else fresh_networks(int(words[0]), samples)
    source = "phase2" if is_suite else f"{SHAPE}_{CONFIRM_SEED}"
    jax.config.update("jax_compilation_cache_dir", "outputs/cache/xla")
    for forms in (ADOPTED, FORMS):
        pairs = list(answered(nets, forms, source))
        nets = [net for net, _ in pairs]
        print_pairs(nets, np.array([answers for _, answers in pairs]), forms, source)


def fresh_networks(number: int, samples: int) -> Iterator[Network]:
    width, depth = (int(side) for side in SHAPE.split("x"))
    return each_network(width, depth, CONFIRM_SEED, number, MixedTruth(samples))


def suite_networks() -> Iterator[Network]:
    dataset = SuiteDataset("phase2").load()
    for row in dataset.rows:
        assert row.truth is not None, "a suite has its truth"
        means = row.truth.means[-1].astype(np.float64)
        yield Network(np.asarray(dataset.mlp(row).weights), means, row.truth.floor_mse)


def answered(
    nets: Iterable[Network], forms: Mapping[str, Form], source: str
) -> Iterator[tuple[Network, Float[np.ndarray, "form width"]]]:
    """Each network with the answers of all forms, from disk where they are known."""
    compiled = {form: jax.jit(form.answer(int(SHAPE.split("x")[0]), Strassen(0))) for form in forms.values()}
    for index, net in enumerate(nets):
        path = KEPT / f"{source}_{index}.npz"
        kept = read_arrays(path) or {}
        for name, form in forms.items():
            if str(form) not in kept:
                kept[str(form)] = np.asarray(compiled[form](jnp.asarray(net.weights)), np.float64)
                write_arrays(path, kept)
            print(index, name, f"{net.error(kept[str(form)]):.4g}", file=sys.stderr, flush=True)
        yield net, np.array([kept[str(form)] for form in forms.values()])


def print_pairs(
    nets: Sequence[Network], answers: Float[np.ndarray, "net form width"], forms: Mapping[str, Form], source: str
) -> None:
    """Changes are shares of the first form's error. Their ± is over networks, and has the truth's noise in it."""
    errors = np.array([[net.error(answer) for answer in each] for net, each in zip(nets, answers, strict=True)]).T
    first, floor = errors[0].mean(), np.mean([net.floor for net in nets])
    changes = np.diff(answers, axis=1, prepend=answers[:, :1])
    noises = np.array([truth_noise(each, net) for net, each in zip(nets, changes, strict=True)])
    noise = np.sqrt(np.square(noises).sum(axis=0)) / len(nets) / first
    shape = jax.ShapeDtypeStruct(nets[0].weights.shape, jnp.float32)
    print(f"| {source}, {len(nets)} networks, truth's variance {floor:.2g} | {' | '.join(HEADINGS)} |")
    print("|---|" + "---|" * len(HEADINGS))
    for place, (name, form) in enumerate(forms.items()):
        cost = meter(form.answer(shape.shape[1], Strassen(6, halves=True)))(shape).flops / BUDGET
        above, whole = ((errors[place] - errors[other]) / first for other in (max(place - 1, 0), 0))
        cells = [f"{cost:.4f}", plus_minus(errors[place]), f"{np.square(changes[:, place]).mean():.2g}"]
        cells += [plus_minus(above), f"{noise[place]:.2g}", plus_minus(whole), plus_minus(cost * errors[place])]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def truth_noise(changes: Float[np.ndarray, "form width"], net: Network) -> Float[np.ndarray, " form"]:
    """The standard deviation that the truth's noise gives to the paired differences of these changes."""
    h = jax.random.normal(jax.random.key(CONFIRM_SEED), (NOISE_SAMPLES, net.weights.shape[1]))
    for w in net.weights:
        h = jax.nn.relu(h @ w)
    spread = np.asarray(h - h.mean(axis=0), np.float64)
    along = np.square(spread @ changes.T).mean(axis=0) * net.floor / np.square(spread).mean()
    return 2 * np.sqrt(along) / changes.shape[1]


def main() -> None:
    if sys.argv[1:2] == ["confirm"]:
        confirm(sys.argv[2:])
        return
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
