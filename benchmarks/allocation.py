"""What a suite would save if its samples went where the error bars are large: `python benchmarks/allocation.py`.

The noise of a suite's truth is the mean over its MLPs of σᵢ²/nᵢ, with σᵢ² the variance of one sample. To bring it to A
with equal nᵢ, or with equal error bars, takes Σσᵢ²/A samples. The fewest are those with nᵢ ∝ σᵢ: (Σσᵢ)²/(m·A). They
differ by the relative variance of σ over the MLPs.
"""

import numpy as np

from whest.dataset.suite import Suite, shipped_suites


def saved(suite: Suite) -> tuple[float, float]:
    """The spread of σ over the MLPs relative to its mean, and the share of samples that n ∝ σ saves."""
    sigma = np.sqrt([truth.floor_mse * truth.n_samples for truth in suite.truths])
    return float(sigma.std() / sigma.mean()), 1 - float(sigma.sum() ** 2 / (len(sigma) * np.square(sigma).sum()))


if __name__ == "__main__":
    print("| suite | version | MLPs | spread of σ | samples saved by n ∝ σ |\n|---|---|---|---|---|")
    for suite in shipped_suites():
        spread, share = saved(suite)
        print(f"| {suite.round} | {suite.version} | {len(suite.truths)} | {spread:.0%} | {share:.1%} |")
