"""Sampled means, shrunk towards an analytic answer as far as sampling noise explains their difference.

With S the means of orthogonal blocks (see `orthogonal`), A those of covariance propagation and s = ⟨S, A⟩/⟨A, A⟩,
for each layer
    estimate = S − w·(S − s·A),   w = min(1, v/d²),   d² = mean_j (S_j − s·A_j)²,
where v is the sampler's own variance, measured by the spread of its blocks. d² is the sum of v and the analytic error,
so w is the weight with the least error (James and Stein's estimator, shrunk to the line through A). Nothing is fitted.
Most of A's error is one factor common to all neurons; the scale s removes it.
Source: C. Stein 1956, W. James and C. Stein 1961.
Cost: 4·width³·depth FLOPs for A; the rest of `budget_fraction` pays for blocks. It is meant for shapes where the
sampling noise and the closure's error are of similar size. docs/results.md has its scores.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field

from estimators.cov_prop import CovarianceProp
from estimators.orthogonal import fixed_bases, turned_weights
from estimators.parts.chain import anchored
from estimators.parts.ensemble import Matmul, pair_sums
from estimators.parts.fallback import fall_back, price
from estimators.parts.sizing import affordable
from whest.estimator import MLPView

GROUP = 64
"""Rows per group of blocks. The spread between the means of groups gives the sampler's variance."""
FEWEST = 4
"""The fewest groups for this spread."""


class Sampled(NamedTuple):
    means: Float[Array, "depth width"]
    variances: Float[Array, " depth"]
    """Variances of the means, averaged over neurons."""


@dataclass(frozen=True)
class Hybrid:
    budget_fraction: Annotated[float, Field(gt=0, le=1)]
    seed: int
    """Another seed draws other rotations for the same MLP."""

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        core = CovarianceProp()
        left = self.budget_fraction * budget - price(core, mlp.weights.shape) - 16 * mlp.depth * mlp.width  # the blend
        size = affordable(lambda *args: self.sample(*args).means, mlp, left)
        if size == 0:
            return fall_back(budget, core, mlp.weights)
        with jax.named_scope("analytic"):
            known = core.means(mlp.weights)
        return blend(self.sample(mlp.weights, mlp.key, size), known)

    def sample(
        self, weights: Float[Array, "depth width width"], key: PRNGKeyArray, size: int, matmul: Matmul = jnp.matmul
    ) -> Sampled:
        """Means over size + FEWEST − 1 groups of blocks, each with its own rotation, and their variances."""
        width, layers, groups = weights.shape[1], tuple(weights), size + FEWEST - 1
        fixed = jnp.asarray(fixed_bases(width)[: max(1, GROUP // width) * width])
        key = jax.random.fold_in(key, self.seed)

        def group_means(index: Array) -> Float[Array, "depth width"]:
            folded = turned_weights(jax.random.fold_in(key, index), layers[0])
            with jax.named_scope("forward"):
                return jnp.stack(pair_sums(matmul(fixed, folded), layers[1:], matmul)) / (2 * len(fixed))

        def visit(moments: tuple[Array, Array], index: Array) -> tuple[tuple[Array, Array], None]:
            means = group_means(index)
            change = means - moments[0]
            mean = moments[0] + change / (index + 1)  # Welford: no difference of large squares
            return (mean, moments[1] + change * (means - mean)), None

        start = jnp.zeros(weights.shape[:2]), jnp.zeros(weights.shape[:2])
        (means, squares), _ = jax.lax.scan(visit, start, jnp.arange(groups))
        return Sampled(anchored(means, weights), squares.mean(axis=1) / float(groups * (groups - 1)))


def blend(sampled: Sampled, known: Float[Array, "depth width"]) -> Float[Array, "depth width"]:
    """James and Stein's shrinkage of each layer's sampled means to the line through the known ones."""
    with jax.named_scope("blend"):
        scale = jnp.sum(sampled.means * known, axis=1) / jnp.maximum(jnp.sum(known * known, axis=1), 1e-30)
        difference = sampled.means - scale[:, None] * known
        weight = sampled.variances / jnp.maximum(jnp.mean(difference * difference, axis=1), 1e-30)
        return sampled.means - jnp.minimum(weight, 1)[:, None] * difference
