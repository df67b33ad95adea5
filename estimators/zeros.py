"""Predict zero for every neuron.

What knowing nothing scores, and what a failed estimator is scored as: the MSE is the mean square of the truth.
Cost: nothing.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from whest.estimator import MLPView


@dataclass(frozen=True)
class Zeros:
    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return jnp.zeros((mlp.depth, mlp.width))
