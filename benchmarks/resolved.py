"""What *resolved* means for few MLPs: `python benchmarks/resolved.py` prints the table of docs/statistics.md.

Draws come from a fixed seed and NumPy's generator, so the figures are the same on every machine.
"""

import math

import numpy as np
from scipy import optimize, stats

COUNTS = (3, 5, 10, 20, 50)
LEVEL = 0.95
POWER = 0.8
N_TRIALS = 40_000


def reach(n: int) -> float:
    """Half of the interval, in standard errors: Student's t with n − 1 degrees of freedom."""
    return float(stats.t.ppf((1 + LEVEL) / 2, n - 1))


def chance(n: int, effect: float) -> float:
    """The chance that a mean difference of `effect` standard deviations is resolved, if differences are normal."""
    return float(stats.nct.sf(reach(n), n - 1, effect * math.sqrt(n)))


def smallest_effect(n: int) -> float:
    """The mean difference, in standard deviations of one MLP's difference, that is resolved four times in five."""
    return float(optimize.brentq(lambda effect: chance(n, effect) - POWER, 1e-3, 12 / math.sqrt(n)))


def false_alarms(n: int, is_skewed: bool) -> float:
    """How often two estimators of equal mean error are called different."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((N_TRIALS, n))
    # one of two has a log-normal error per MLP, as samplers on hard networks do; its mean is subtracted
    differences = np.exp(drawn) - math.exp(0.5) if is_skewed else drawn
    error = differences.std(axis=1, ddof=1) / math.sqrt(n)
    return float((np.abs(differences.mean(axis=1)) > reach(n) * error).mean())


def rows() -> list[str]:
    return [
        f"| {n} | ± {reach(n):.2f} SE | {smallest_effect(n):.2f} | {100 * false_alarms(n, False):.1f} % "
        f"| {100 * false_alarms(n, True):.1f} % | {100 * 0.5 ** (n - 1):.2g} % |"
        for n in COUNTS
    ]


def main() -> None:
    print(
        "| MLPs | 95 % interval | difference found 4 times in 5 "
        "| false alarms | with skewed errors | all wins by chance |"
    )
    print("|---|---|---|---|---|---|")
    print("\n".join(rows()))


if __name__ == "__main__":
    main()
