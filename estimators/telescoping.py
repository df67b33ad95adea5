"""Telescoping control variate: plain Monte Carlo, corrected for the error of the sampled inputs' mean.

With fixed slopes A_l and offsets b_l, every layer's mean is a linear guess plus the sampled mean of its error:
    Ê_l = A_l·(W_lᵀ Ê_{l−1}) + b_l + mean_s[relu(z_l) − A_l·z_l − b_l],   Ê_0 = 0 = E[x].
b_l cancels and mean_s[z_l] = W_lᵀ·mean_s[h_{l−1}], so Ê_l = mean_s[h_l] + A_l·W_lᵀ(Ê_{l−1} − mean_s[h_{l−1}]): the
error of the sampled inputs' mean, carried by the chain (see `chain`). It is unbiased if A does not depend on the
samples; here A = Φ by mean propagation. It removes the degree-1 part of the variance, as ± pairs do at no cost. It is a
reference: `pruned_mc` is better in every round at the same cost.
Cost: plain sampling and 6·width²·depth FLOPs.
"""

from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field

from estimators.parts.chain import carry, mean_slopes
from estimators.parts.ensemble import Matmul, Sums, point_sums, repeat
from estimators.parts.sizing import affordable, fall_back
from whest.estimator import MLPView

BATCH = 8192
"""Samples in memory at the same time."""


@dataclass(frozen=True)
class Telescoping:
    budget_fraction: Annotated[float, Field(gt=0, le=1)]
    seed: int
    """Another seed draws other samples for the same MLP."""

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        n_samples = affordable(self.sample, mlp, self.budget_fraction * budget)
        return self.sample(mlp.weights, mlp.key, n_samples) if n_samples else fall_back(mlp, budget)

    def sample(
        self, weights: Float[Array, "depth width width"], key: PRNGKeyArray, n_samples: int, matmul: Matmul = jnp.matmul
    ) -> Float[Array, "depth width"]:
        batches = -(-n_samples // BATCH)
        rows = n_samples // batches
        key = jax.random.fold_in(key, self.seed)
        width = weights.shape[1]

        def batch_sums(index: Array) -> Sums:
            x = jax.random.normal(jax.random.fold_in(key, index), (rows, width))
            return [x.sum(axis=0), *point_sums(x, tuple(weights), matmul)]

        with jax.named_scope("forward"):
            sums = repeat((weights[0], *weights), batches, batch_sums)  # the inputs count as one more layer
        inputs, *means = [total / (rows * batches) for total in sums]
        with jax.named_scope("chain"):
            return jnp.stack(means) + carry(-inputs, weights, mean_slopes(weights))
