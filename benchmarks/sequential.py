"""Compare until decided, simulated: does the interval hold at every look, and how many MLPs does a decision take?

    python benchmarks/sequential.py        # about two CPU minutes

Each row is 1,000 comparisons of up to 1,000 MLPs. *Covered*: the share whose 95 % interval holds the true mean at every
number of MLPs. *Wrong*: the share that ends with the worse one named better (for a null: with any decision). *MLPs* is
the mean number until a decision, and beside it what a test of a fixed number needs to find the same difference 80 % and
99 % of the time, if the true difference and spread were known before. Skewed: MLPs differ by factors (σ = 0.6 in
logs) and each side's score by a factor of its own (σ = 0.4), as in tests/scoring. The last two rows are differences of
one long tail, whose mean is 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from whest.scoring.sequential import Scale, Sequence

N_TRIES, MAX_MLPS, LEVEL = 1000, 1000, 0.95
Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Setting:
    label: str
    draw: Draw
    mean: float
    """The true mean of the differences, or of the log-ratios."""
    deviation: float
    scale: Scale = "difference"


def normal(effect: float) -> Setting:
    zeros = np.zeros(MAX_MLPS)
    return Setting(f"normal, {effect:g} σ", lambda rng: (rng.normal(effect, 1, MAX_MLPS), zeros), effect, 1.0)


def skewed(ratio: float, scale: Scale = "difference") -> Setting:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        hardness = rng.lognormal(0, 0.6, MAX_MLPS)
        return ratio * hardness * rng.lognormal(0, 0.4, MAX_MLPS), hardness * rng.lognormal(0, 0.4, MAX_MLPS)

    label = f"skewed, ratio {ratio:g}"
    if scale == "log":
        return Setting(f"{label}, scale=log", draw, math.log(ratio), 0.4 * math.sqrt(2), scale)
    mean = math.exp((0.6**2 + 0.4**2) / 2)
    square = math.exp(2 * 0.6**2) * ((ratio**2 + 1) * math.exp(2 * 0.4**2) - 2 * ratio * math.exp(0.4**2))
    return Setting(label, draw, (ratio - 1) * mean, math.sqrt(square - ((ratio - 1) * mean) ** 2))


def tail(label: str, draw: Callable[[np.random.Generator], np.ndarray], mean: float) -> Setting:
    return Setting(label, lambda rng: (draw(rng), np.full(MAX_MLPS, mean)), 0.0, 1.0)


SETTINGS = (
    *map(normal, (0.0, 0.2, 0.5, 1.0)),
    *map(skewed, (1.0, 1.1, 1.5, 3.0)),
    *(skewed(ratio, "log") for ratio in (1.0, 1.1, 1.5, 3.0)),
    tail("exponential", lambda rng: rng.exponential(1, MAX_MLPS), 1.0),
    tail("log-normal, σ = 1", lambda rng: rng.lognormal(0, 1, MAX_MLPS), math.exp(0.5)),
)


def simulate(setting: Setting, rng: np.random.Generator) -> tuple[bool, int | None, bool]:
    """Whether the interval always held, the number of MLPs at the decision, whether the decision was wrong."""
    sequence, held, at, wrong = Sequence(LEVEL, setting.scale), True, None, False
    for a, b in zip(*setting.draw(rng), strict=True):
        sequence.add(float(a), float(b))
        interval = sequence.interval
        if interval is None:
            continue
        held = held and setting.mean in interval
        if at is None and 0 not in interval:
            at, wrong = sequence.n, sequence.mean * setting.mean <= 0
    return held, at, wrong


def fixed_n(effect: float, power: float) -> str:
    """The cases that a t test needs for an effect in standard deviations."""
    if effect == 0:
        return "–"
    n = 2
    while stats.nct.sf(stats.t.ppf((1 + LEVEL) / 2, n - 1), n - 1, abs(effect) * math.sqrt(n)) < power:
        n += 1
    return str(n)


def main() -> None:
    print("| differences | covered | decided | wrong | MLPs | fixed, 80 % | fixed, 99 % |")
    print("|---|---|---|---|---|---|---|")
    for place, setting in enumerate(SETTINGS):
        rng = np.random.default_rng([20260525, place])
        held, at, wrong = zip(*(simulate(setting, rng) for _ in range(N_TRIES)), strict=True)
        numbers = [n for n in at if n is not None]
        effect = setting.mean / setting.deviation
        mean = f"{np.mean([n or MAX_MLPS for n in at]):.0f}" if setting.mean else "–"
        print(
            f"| {setting.label} | {np.mean(held):.1%} | {len(numbers) / N_TRIES:.1%} | {np.mean(wrong):.1%} | {mean} "
            f"| {fixed_n(effect, 0.8)} | {fixed_n(effect, 0.99)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
