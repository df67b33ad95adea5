"""Whitened antithetic Monte Carlo: Gaussian points, transformed so that their mean and covariance are exact.

Draw X (pairs × width), factor its Gram matrix XᵀX/pairs = RᵀR and use the ensemble ±X·R⁻¹. R⁻¹ is folded into the
first weights. The ensemble's mean is 0 and its covariance I. So polynomials of degree 1 and 2, and all odd ones, are
integrated exactly, and the means scaled by E[χ_pairs]/√pairs are unbiased: about half the variance of plain sampling at
256×32. `anchors` does the same for the activations of layer 1, whose moments are known in closed form:
    mean   shift them to the mean σ/√(2π)
    full   map them affinely to that mean and to the arc-cosine covariance; this fits width²/2 numbers, so it helps only
           for ensembles far larger than that
Source: moment matching (e.g. Glasserman 2004, §4.5); the mirror relu(−z) = relu(z) − z halves the first layer.
Cost: pairs·(2·depth − 1)·2·width² FLOPs, the cost of one more layer for the Gram matrix, and 160·width per pair for the
normals. It is a reference and the base of `pruned_mc`, which is as good for less in every round. It spends a tenth of
the budget, the multiplier's floor, because above it a sampler's score does not change.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray
from pydantic import Field

from estimators.parts.bivariate import arc_cosine_covariance
from estimators.parts.chain import first_means
from estimators.parts.ensemble import Layers, Matmul, Sums, point_sums, repeat
from estimators.parts.sizing import affordable, fall_back
from whest.estimator import MLPView
from whest.truth.designs import mean_radius

Anchors = Literal["none", "mean", "full"]
BATCH = 8192
"""Pairs that are whitened together, and in memory at the same time."""
JITTER = 1e-6
"""Added to the diagonal, relative to the mean variance: a covariance with dead neurons needs it for its factor."""


@dataclass(frozen=True)
class WhitenedMonteCarlo:
    budget_fraction: Annotated[float, Field(gt=0, le=1)]
    anchors: Anchors
    seed: int
    """Another seed draws other samples for the same MLP."""

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        size = affordable(self.sample, mlp, self.budget_fraction * budget)
        return self.sample(mlp.weights, mlp.key, size) if size else fall_back(mlp, budget)

    def sample(
        self, weights: Float[Array, "depth width width"], key: PRNGKeyArray, size: int, matmul: Matmul = jnp.matmul
    ) -> Float[Array, "depth width"]:
        """Means over 2·width + size − 1 pairs: with fewer, the inverse of the Gram matrix is too noisy."""
        pairs = 2 * weights.shape[1] + size - 1
        batches = math.ceil(pairs / BATCH)
        rows = pairs // batches
        layers = tuple(weights)
        key = jax.random.fold_in(key, self.seed)

        def batch_sums(index: Array) -> Sums:
            return whitened_sums(layers, jax.random.fold_in(key, index), rows, self.anchors, matmul)

        return jnp.stack(repeat(layers, batches, batch_sums)) * (mean_norm_ratio(rows) / (2 * rows * batches))


def whitened_sums(layers: Layers, key: PRNGKeyArray, pairs: int, anchors: Anchors, matmul: Matmul) -> Sums:
    """Activation sums over one whitened ensemble of ± pairs."""
    with jax.named_scope("draw"):
        x = jax.random.normal(key, (pairs, layers[0].shape[0]))
    with jax.named_scope("whiten"):
        folded = fold_whitening(x, layers[0])
    with jax.named_scope("forward"):
        z = matmul(x, folded)
        on = jax.nn.relu(z)
        h = jnp.concatenate([on, on - z])
    with jax.named_scope("anchor"):
        h = anchor(h, layers[0], anchors)
    with jax.named_scope("forward"):
        return [h.sum(axis=0), *point_sums(h, layers[1:], matmul)]


def fold_whitening(x: Float[Array, "pair width"], w: Float[Array, "width to"]) -> Float[Array, "width to"]:
    """R⁻¹·W, with RᵀR = XᵀX/pairs, so that X·(R⁻¹W) is the whitened points times W."""
    root = jnp.linalg.cholesky(x.T @ x / len(x))  # lower: Rᵀ
    return solve_triangular(root, w, trans="T", lower=True)


def anchor(h: Float[Array, "row width"], w: Float[Array, "width width"], anchors: Anchors) -> Float[Array, "row width"]:
    """Layer 1's activations, transformed to their known moments."""
    if anchors == "none":
        return h
    exact = first_means(w) / mean_norm_ratio(len(h) // 2)  # `sample` multiplies by the ratio
    mean = h.mean(axis=0)
    if anchors == "mean":
        return h + (exact - mean)
    centred = h - mean
    sampled, known = _root(centred.T @ centred / len(h)), _root(arc_cosine_covariance(w.T @ w))
    return centred @ solve_triangular(sampled, known.T, trans="T", lower=True) + exact  # L⁻ᵀKᵀ: LLᵀ becomes KKᵀ


def mean_norm_ratio(pairs: int) -> float:
    """E‖x‖ of a Gaussian over that of a whitened point: E[χ_pairs]/√pairs.

    X·R⁻¹ is uniform on the Stiefel manifold, so a row's squared norm is pairs·Beta(width/2, (pairs − width)/2).
    """
    return mean_radius(pairs) / math.sqrt(pairs)


def _root(covariance: Float[Array, "width width"]) -> Float[Array, "width width"]:
    n = len(covariance)
    return jnp.linalg.cholesky(covariance + JITTER * jnp.trace(covariance) / n * jnp.eye(n))
