"""A sampler drawn towards an analytic answer, as far as the two of them disagree by no more than sampling noise.

With S the means of orthogonal blocks (see `orthogonal`), A those of covariance propagation and s = ⟨S, A⟩/⟨A, A⟩,
layer by layer
    estimate = S − w·(S − s·A),   w = min(1, v/d²),   d² = mean_j (S_j − s·A_j)²,
where v is the sampler's own variance, read off the spread of its blocks. d² is v and the analytic error together, so
that w is the weight of least error (James and Stein's estimator, shrunk to the line through A); nothing is fitted.
The scale s takes out what is common to all neurons in A's error, the most of it.
Source: C. Stein 1956, W. James and C. Stein 1961.
Cost: 4·width³·depth FLOPs for A, the rest of `budget_fraction` for blocks. It is meant for where sampling noise and
the closure's error are of a size; the README's table says how it does.
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
"""Rows of the blocks whose mean counts as one answer; the spread between groups is the sampler's variance."""
FEWEST = 4
"""Groups that such a spread is read off at least."""


class Sampled(NamedTuple):
    means: Float[Array, "depth width"]
    variances: Float[Array, " depth"]
    """Of the means, averaged over neurons."""


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
        """Means over size + FEWEST − 1 groups of blocks, each turned on its own, and their variances."""
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
