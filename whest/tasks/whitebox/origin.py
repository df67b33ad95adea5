"""Where an error comes from: the layer that made it, carried to the last layer through mean slopes.

With e_l the error of the predicted means at layer l, W_l its weights and s_l the mean slope of its ReLUs, an error of
the layer before arrives as s_l ⊙ (W_lᵀ e_{l−1}), to first order. What is left, o_l = e_l − s_l ⊙ (W_lᵀ e_{l−1}), was
made at layer l itself. Carried on to the last layer, the o_l add up to e_L exactly. The share of layer l in the final
MSE is ⟨carried o_l, e_L⟩ / ⟨e_L, e_L⟩; shares add up to 1, and one below 0 means that the layer's error undoes others'.

The mean slope of a neuron is P(z > 0). It follows from E[z] and the true mean m = E[max(z, 0)] for a Gaussian z: with
t = E[z]/σ, m/E[z] = Φ(t) + φ(t)/t fixes t, and P(z > 0) = Φ(t).
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from whest.tasks.whitebox.neurons import KINDS, classify, input_means

Means = Float[np.ndarray, "depth width"]
FARTHEST = 8.0
"""|t| at most: beyond it the slope is 0 or 1."""
N_HALVINGS = 50


@dataclass(frozen=True)
class Explained:
    """One MLP: the shares of its final MSE, by layer of origin and by class of neuron."""

    name: str
    mse: float
    floor: float
    by_layer: tuple[float, ...]
    by_kind: dict[str, float]
    n_by_kind: dict[str, int]


def explain_mlp(
    name: str, weights: Float[np.ndarray, "depth width width"], predicted: Means, truth: Means, floor: float
) -> Explained:
    errors = predicted.astype(np.float64) - truth.astype(np.float64)
    inputs = input_means(weights, truth)
    last = errors[-1]
    whole = float(last @ last)
    carried = carried_origins(errors, weights, mean_slopes(truth, inputs))
    kinds = classify(truth[-1], inputs[-1])
    squares = np.square(last)
    scale = whole or 1.0
    return Explained(
        name,
        whole / last.size,
        floor,
        tuple(float(part @ last) / scale for part in carried),
        {kind: float(squares[kinds == i].sum()) / scale for i, kind in enumerate(KINDS)},
        {kind: int((kinds == i).sum()) for i, kind in enumerate(KINDS)},
    )


def carried_origins(errors: Means, weights: Float[np.ndarray, "depth width width"], slopes: Means) -> Means:
    """What each layer's own error has become at the last layer. The rows add up to the last layer's error."""
    depth = len(errors)
    parts = np.zeros_like(errors)
    for layer in range(depth):
        arrived = slopes[layer] * (parts[:layer] @ weights[layer].astype(np.float64))
        parts[:layer] = arrived
        parts[layer] = errors[layer] - arrived.sum(axis=0)
    return parts


def mean_slopes(means: Means, inputs: Means) -> Means:
    """P(z > 0) of every neuron, for a Gaussian z with the mean E[z] and E[max(z, 0)] = m."""
    up = np.maximum(means.astype(np.float64), 0)
    whole = 2 * up - inputs  # E|z| = E[max(z, 0)] + E[max(−z, 0)]
    share = np.divide(inputs, whole, out=np.zeros_like(up), where=whole > 0)  # E[z]/E|z| rises with t
    share = np.clip(np.where(whole > 0, share, -1.0), -1, 1)
    low, high = np.full_like(share, -FARTHEST), np.full_like(share, FARTHEST)
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        is_below = _share(middle) < share
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return _cdf((low + high) / 2)


def _share(t: np.ndarray) -> np.ndarray:
    """E[z]/E|z| of a Gaussian with mean t and variance 1."""
    density = np.exp(-np.square(t) / 2) / math.sqrt(2 * math.pi)
    return t / (t * (2 * _cdf(t) - 1) + 2 * density)


def _cdf(t: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    found: np.ndarray = ndtr(t)
    return found
