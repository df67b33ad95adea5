"""Covariance propagation by the Hermite series of the Gaussian covariance, cut after `terms` terms.

    C'_ij = Σ_{k=1…terms} S_ijᵏ/k!·w(k,1)_i·w(k,1)_j,  w(1,1) = Φ,  w(k,1) = (−1)ᵏ·σ^(1−k)·He_{k−2}(α)·φ

One term is `cov_prop`'s gain form, infinitely many are its exact form (see `bivariate`). At a width of 256 correlations
are small, and four terms are as good as all. Source: Mehler's expansion. Cost: 4·width³ FLOPs per layer, and 4·width²
per term.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from jaxtyping import Array, Float
from pydantic import Field

from estimators.cov_prop import CovarianceProp, propagate_covariance
from estimators.parts.bivariate import hermite_covariance
from estimators.parts.cumulants import Square
from estimators.parts.fallback import Affordable, predict_within
from estimators.parts.wick import Vector
from whest.estimator import MLPView


@dataclass(frozen=True)
class HermiteCovariance:
    terms: Annotated[int, Field(ge=1, le=20)]
    sphere: bool

    name: ClassVar[str] = "hermite_cov"

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return predict_within(budget, self, mlp.weights)

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]:
        return propagate_covariance(weights, self._closure, self.sphere)

    def predict_from(
        self, weights: Float[Array, "depth width width"], mean: Vector, covariance: Square
    ) -> Float[Array, "depth width"]:
        """The layers after one with these moments, for `job=explain`."""
        return propagate_covariance(weights, self._closure, self.sphere, (mean, covariance))

    def cheaper(self) -> Affordable:
        return CovarianceProp(sphere=self.sphere)

    def _closure(self, mean: Vector, covariance: Square, gain: Vector, is_first: bool) -> Square:
        return hermite_covariance(mean, covariance, self.terms)
