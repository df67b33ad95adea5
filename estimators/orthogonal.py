"""Orthogonal blocks: the rows of random rotations and their negatives, all at the mean radius of a Gaussian input.

A bias-free ReLU network is positively homogeneous, so E[f(x)] = E‖x‖·E[f(u)] with u uniform on the sphere. The 2·width
rows of ±C·Q, with Q a Haar rotation, are a spherical 3-design: degrees 1, 2 and 3 are integrated exactly, and so are
all odd ones. C runs over fixed orthogonal matrices, which are constants of the shape made while tracing. One Haar Q
turns up to `ROWS` of their rows and is folded into the first weights. Each block is then a Haar rotation too, and the
mean is unbiased. This needs one QR instead of one per block (which would cost 3 % of the matmuls at 256×32 and 10 % at
256×8).
`anchors=mean` corrects the deeper layers by the exact means of the first (see `chain`).
Cost: blocks·(2·depth − 1)·2·width³ FLOPs. It is as good as whitened Monte Carlo and needs few random numbers. It works
at any width and from one block on. A Kerdock design is better if the budget pays for a whole one.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field

from estimators.parts.chain import anchored
from estimators.parts.ensemble import Matmul, Sums, pair_sums, repeat
from estimators.parts.sizing import affordable, fall_back
from whest.estimator import MLPView
from whest.truth.designs import haar, mean_radius

ROWS = 8192
"""Rows turned by one rotation, and in memory at the same time (with their negatives)."""


@dataclass(frozen=True)
class Orthogonal:
    budget_fraction: Annotated[float, Field(gt=0, le=1)]
    anchors: Literal["none", "mean"]
    seed: int
    """Another seed draws other rotations for the same MLP."""

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        blocks = affordable(self.sample, mlp, self.budget_fraction * budget)
        return self.sample(mlp.weights, mlp.key, blocks) if blocks else fall_back(mlp, budget)

    def sample(
        self, weights: Float[Array, "depth width width"], key: PRNGKeyArray, blocks: int, matmul: Matmul = jnp.matmul
    ) -> Float[Array, "depth width"]:
        width, layers = weights.shape[1], tuple(weights)
        turns = math.ceil(blocks / max(1, ROWS // width))
        fixed = jnp.asarray(fixed_bases(width)[: blocks // turns * width])
        key = jax.random.fold_in(key, self.seed)

        def turn_sums(index: Array) -> Sums:
            folded = turned_weights(jax.random.fold_in(key, index), layers[0])
            with jax.named_scope("forward"):
                return pair_sums(matmul(fixed, folded), layers[1:], matmul)

        means = jnp.stack(repeat(layers, turns, turn_sums)) / float(2 * turns * len(fixed))
        return anchored(means, weights) if self.anchors == "mean" else means


def turned_weights(
    key: PRNGKeyArray, w: Float[Array, "width width"], size: int | None = None
) -> Float[Array, "n width"]:
    """A Haar rotation scaled to the mean radius, times the first weights. `size` is a dimension above the width."""
    n = size or len(w)
    with jax.named_scope("turn"):
        return (mean_radius(n) * haar(key, n)[:, : len(w)]) @ w


@cache
def fixed_bases(width: int) -> Float[np.ndarray, "row width"]:
    """About `ROWS` rows of orthogonal matrices: cosine transforms with fixed random signs of their columns."""
    place = np.arange(width)
    cosines = np.cos(np.pi * (place + 0.5) * place[:, None] / width) * math.sqrt(2 / width)
    cosines[0] /= math.sqrt(2)
    signs = np.random.default_rng(0).choice([-1, 1], (max(1, ROWS // width), 1, width))
    return (cosines * signs).reshape(-1, width).astype(np.float32)
