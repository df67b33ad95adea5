"""Classes of neurons: dead, borderline or on, from the true means alone.

With z a neuron's input and m = E[max(z, 0)] its true mean, E[z] follows from the means of the layer before, and
E[max(−z, 0)] = m − E[z]. The share m / (m + E[max(−z, 0)]) is 0 for a dead neuron and 1 for one that is always on.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int

Kind = Literal["dead", "borderline", "on"]
KINDS: tuple[Kind, ...] = ("dead", "borderline", "on")
EDGE = 0.01
"""Below this share a neuron is dead, above one minus this it is on. For Gaussian z, on means: mean over 1.75 σ."""
MEANING = (
    "Which neurons the error comes from. With z a neuron's input before the ReLU, the share of E[max(z, 0)] in E[|z|] "
    f"is below {EDGE:.0%} for a dead neuron and above {1 - EDGE:.0%} for one that is on."
)


def input_means(
    weights: Float[np.ndarray, "depth width width"], means: Float[np.ndarray, "depth width"]
) -> Float[np.ndarray, "depth width"]:
    """E[z] of every neuron: the true means of the layer before, times the weights. The first layer's are 0."""
    before = np.concatenate([np.zeros_like(means[:1]), means[:-1]])
    return np.einsum("li,lij->lj", before, weights, dtype=np.float64)


def classes_of(
    weights: Float[np.ndarray, "depth width width"], means: Float[np.ndarray, "depth width"]
) -> Int[np.ndarray, "depth width"]:
    """The class of every neuron of one MLP."""
    return classify(means, input_means(weights, means))


def classify(means: Float[np.ndarray, "..."], inputs: Float[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """The class of every neuron, as a place in `KINDS`."""
    up = np.maximum(means.astype(np.float64), 0)
    down = np.maximum(up - inputs, 0)
    whole = up + down
    share = np.divide(up, whole, out=np.zeros_like(up), where=whole > 0)
    return np.where(share < EDGE, 0, np.where(share > 1 - EDGE, 2, 1))
