"""Mean propagation: a mean and a variance for each neuron, as if neurons were independent.

    μ ← Wᵀμ,  σ² ← (W∘W)ᵀσ²,  then the moments of the rectified Gaussian (see `gaussian`).

The first layer is exact; deeper ones ignore the covariance between neurons. Cost: 5·width²·depth FLOPs.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.fallback import Affordable, predict_within
from estimators.parts.gaussian import rectify
from estimators.zeros import Zeros
from whest.estimator import MLPView


@dataclass(frozen=True)
class MeanProp:
    name: ClassVar[str] = "mean_prop"

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return predict_within(budget, self, mlp.weights)

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]:
        n = weights.shape[1]
        return self.propagate(weights, jnp.zeros(n), jnp.ones(n))

    def propagate(
        self, weights: Float[Array, "depth width width"], mean: Float[Array, " width"], variance: Float[Array, " width"]
    ) -> Float[Array, "depth width"]:
        means = []
        for w in weights:
            with jax.named_scope("propagate"):
                mean, variance = mean @ w, variance @ (w * w)
            with jax.named_scope("rectify"):
                mean, variance, _ = rectify(mean, variance)
            means.append(mean)
        return jnp.stack(means)

    def predict_from(
        self,
        weights: Float[Array, "depth width width"],
        mean: Float[Array, " width"],
        covariance: Float[Array, "width width"],
    ) -> Float[Array, "depth width"]:
        """The layers after one with these moments, for `job=explain`."""
        return self.propagate(weights, mean, jnp.diagonal(covariance))

    def cheaper(self) -> Affordable:
        return Zeros()
