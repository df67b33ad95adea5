"""Plain Monte Carlo: push N Gaussian inputs through the network and average.

    mean_l ≈ (1/N) Σ_s h_l(x_s),  x_s ~ N(0, I);  the MSE is the neurons' variance / N.

`budget_fraction` of the budget pays for the N samples. Above the multiplier's floor, a sampler's score does not change
with N (twice the samples, half the error, twice the multiplier). So a tenth of the budget is enough.
Cost: N·depth·(2·width² + 2·width) FLOPs and N·width random normals. It is a reference: `pruned_mc` is better in every
round.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field

from whest.estimator import MLPView
from whest.metering import meter

CHUNK = 4096
"""Samples in memory at the same time."""


@dataclass(frozen=True)
class MonteCarlo:
    budget_fraction: Annotated[float, Field(gt=0, le=1)]
    seed: int
    """Another seed draws other samples for the same MLP."""

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        n_samples = self._affordable(mlp, budget * self.budget_fraction)
        return mean_activations(mlp.weights, mlp.key, self.seed, n_samples)

    def _affordable(self, mlp: MLPView, budget: float) -> int:
        """The most samples whose metered cost is within the budget. The cost of the matmuls gives an upper bound."""

        def flops(n_samples: int) -> int:
            price = meter(lambda weights, key: mean_activations(weights, key, self.seed, n_samples))
            return price(mlp.weights, mlp.key).flops

        bound = int(budget // (2 * mlp.depth * mlp.width**2)) + 1
        return max(0, bisect_right(range(bound + 1), budget, key=flops) - 1)


def mean_activations(
    weights: Float[Array, "depth width width"], key: PRNGKeyArray, seed: int, n_samples: int
) -> Float[Array, "depth width"]:
    """Mean activations over n_samples inputs, drawn in chunks; zeros if n_samples is 0."""
    depth, width, _ = weights.shape
    total = jnp.zeros((depth, width))
    if n_samples == 0:
        return total
    key = jax.random.fold_in(key, seed)

    def chunk_sum(key_chunk: PRNGKeyArray, rows: int) -> Float[Array, "depth width"]:
        h = jax.random.normal(key_chunk, (rows, width))
        sums = []
        for w in weights:
            h = jax.nn.relu(h @ w)
            sums.append(h.sum(axis=0))
        return jnp.stack(sums)

    whole, rest = divmod(n_samples, CHUNK)
    if whole:
        total = jax.lax.fori_loop(0, whole, lambda i, t: t + chunk_sum(jax.random.fold_in(key, i), CHUNK), total)
    if rest:
        total = total + chunk_sum(jax.random.fold_in(key, whole), rest)
    return total / float(n_samples)
