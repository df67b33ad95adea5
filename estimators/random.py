"""Predict uniform random values in [0, 1).

With truth t of mean m, the expected MSE is E[t²] − m + 1/3. Cost: one random number per neuron.
"""

from dataclasses import dataclass

import jax
from jaxtyping import Array, Float

from whest.estimator import MLPView


@dataclass(frozen=True)
class Random:
    seed: int
    """Another seed draws other values for the same MLP."""

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return jax.random.uniform(jax.random.fold_in(mlp.key, self.seed), (mlp.depth, mlp.width))
