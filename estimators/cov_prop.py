"""Covariance propagation: the full covariance goes through each ReLU as if the ReLU's inputs were jointly Gaussian.

    S = WᵀCW,  C'_ii = Var[relu Z_i],  and off the diagonal
    form=gain    C'_ij = Φ_i Φ_j S_ij, with Φ_i the probability that neuron i is on: the Hermite series' first term
    form=exact   C'_ij = Cov(relu Z_i, relu Z_j), see `bivariate`; the first layer in closed form

with Z ~ N(μ, S). The remaining error comes mostly from the joint non-Gaussianity, which no second-order method sees. So
the exact form is only a few percent better. `sphere` removes the input's radius (see `sphere`), exactly and at no cost.
`output_scale` multiplies the last layer: the error is mostly one common factor, which can be fitted for a shape on
other networks. Cost: 4·width³ FLOPs per layer, and about 100·width² more in the exact form. It is the best of the cheap
analytic methods at every budget above its cost; `third_cumulant` is better if the budget allows it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from pydantic import Field

from estimators.mean_prop import MeanProp
from estimators.parts.bivariate import arc_cosine_covariance, exact_covariance
from estimators.parts.cumulants import Square
from estimators.parts.fallback import Affordable, predict_within
from estimators.parts.gaussian import rectify
from estimators.parts.sphere import on_sphere, radial_moment
from estimators.parts.wick import Vector
from whest.estimator import MLPView

Closure = Callable[[Vector, Square, Vector, bool], Square]
"""(mean, covariance, gain, is first layer) of the inputs -> covariance of the activations, off the diagonal."""


@dataclass(frozen=True)
class CovarianceProp:
    form: Literal["gain", "exact"] = "gain"
    sphere: bool = False
    output_scale: Annotated[float, Field(gt=0)] = 1.0
    """Multiplies the last layer's means."""

    name: ClassVar[str] = "cov_prop"

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return predict_within(budget, self, mlp.weights)

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]:
        return self._scaled(propagate_covariance(weights, self._closure, self.sphere))

    def predict_from(
        self, weights: Float[Array, "depth width width"], mean: Vector, covariance: Square
    ) -> Float[Array, "depth width"]:
        """The layers after one with these moments, for `job=explain`."""
        return self._scaled(propagate_covariance(weights, self._closure, self.sphere, (mean, covariance)))

    @property
    def _closure(self) -> Closure:
        return gain_form if self.form == "gain" else exact_form

    def _scaled(self, means: Float[Array, "depth width"]) -> Float[Array, "depth width"]:
        return means if self.output_scale == 1 else means.at[-1].multiply(self.output_scale)

    def cheaper(self) -> Affordable:
        return MeanProp()


def gain_form(mean: Vector, covariance: Square, gain: Vector, is_first: bool) -> Square:
    return covariance * gain[:, None] * gain


def exact_form(mean: Vector, covariance: Square, gain: Vector, is_first: bool) -> Square:
    return arc_cosine_covariance(covariance) if is_first else exact_covariance(mean, covariance)


def propagate_covariance(
    weights: Float[Array, "depth width width"],
    closure: Closure,
    sphere: bool,
    start: tuple[Vector, Square] | None = None,
) -> Float[Array, "depth width"]:
    """`start` has the moments of the input, for a Gaussian x; without it the input is x itself."""
    n = weights.shape[1]
    mean: Vector = jnp.zeros(n, weights.dtype)
    covariance: Square | None = None
    diagonal = np.eye(n, dtype=bool)
    radius = radial_moment(n, 1)
    if start is not None:
        mean, covariance = start
        if sphere:
            mean, covariance = mean / radius, on_sphere(covariance, mean, mean, (1, 1))
    means = []
    for w in weights:
        with jax.named_scope("propagate"):
            mean, is_first = mean @ w, covariance is None
            covariance = w.T @ (w if covariance is None else covariance @ w)  # Cov x = I
        with jax.named_scope("rectify"):
            inputs = mean
            mean, variance, gain = rectify(inputs, jnp.diagonal(covariance))
            covariance = jnp.where(diagonal, variance, closure(inputs, covariance, gain, is_first))
            if sphere and is_first:
                covariance = on_sphere(covariance, mean, mean, (1, 1))
                mean = mean / radius
        means.append(radius * mean if sphere else mean)
    return jnp.stack(means)
