"""Third-cumulant propagation with one number per neuron for the fourth cumulants, and two more terms of the expansion.

It is `third_cumulant` with three changes:
    κ_ijkl(h) = ⅙·(g_i δ_ij δ_kl + 5 like it): the best such tensor has g = s·[6/(n+4)·ρ − 3/((n+2)(n+4))·Σρ], where
    ρ_i = Σ_j κ_iijj(h) and s is a fitted scale. With D = W·diag(g)·Wᵀ, a layer's pre-activations then have
    κ_iiii = D_ii G_ii, κ_iijj = (D_ii G_jj + G_ii D_jj + 4D_ij G_ij)/6 and κ_iiij = (D_ii G_ij + G_ii D_ij)/2;
    the covariances gain their κ_iiij terms, and their S·κ_iii terms.

Cost: that of `third_cumulant` and one product of 2·width³ FLOPs per hidden layer. It wins where `third_cumulant` wins.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from estimators.parts.cumulant_chain import propagate
from estimators.parts.cumulants import Fourth, Relu, Square, Terms, off_diagonal, outer
from estimators.parts.fallback import Affordable, predict_within
from estimators.parts.sources import Third
from estimators.parts.strassen import Product, Strassen
from estimators.parts.wick import Vector
from estimators.third_cumulant import ThirdCumulant
from whest.estimator import MLPView

TERMS = Terms(k31=1.0, skew=1.0)
"""The κ_iiij and S·κ_iii terms, with the weights of the expansion."""
CORE_SCALE = 0.95
"""The scale s above, fitted once at 256×8."""


@dataclass(frozen=True)
class DiagonalCore:
    scale: float | Float[Array, ""]
    g: Vector | None = None
    """None for a Gaussian input, whose fourth cumulants are zero."""

    with_k31: ClassVar[bool] = False

    matrix: ClassVar[Square | None] = None

    def slices(self, w: Square, gram: Square, product: Product, carried: Square | None = None) -> Fourth:
        if self.g is None:
            return Fourth(jnp.zeros_like(gram[0]), jnp.zeros_like(gram), jnp.zeros_like(gram))
        d, squares = product(w * self.g, w.T), jnp.diagonal(gram)
        weighted = jnp.diagonal(d)
        crossed = outer(weighted, squares)
        k22 = (crossed + crossed.T + 4 * d * gram) / 6
        k31 = 0.5 * (weighted[:, None] * gram + squares[:, None] * d)
        return Fourth(weighted * squares, off_diagonal(k22), off_diagonal(k31))

    def diagonal(self, w: Square, product: Product) -> Vector:
        if self.g is None:
            return jnp.zeros_like(w[0])
        squared = w * w
        return (squared @ self.g) * jnp.sum(squared, axis=1)

    def feed(self, relu: Relu, gram: Square, covariance: Square | None) -> None:
        return None

    def after(self, relu: Relu, third: Third, gram: Square, product: Product) -> "DiagonalCore":
        n, outputs = len(gram), relu.outputs
        rho = outputs.k4 + jnp.sum(outputs.k22, axis=1)
        return replace(self, g=self.scale * (6 / (n + 4) * rho - 3 / ((n + 2) * (n + 4)) * jnp.sum(rho)))


@dataclass(frozen=True)
class ThirdCumulantPlus:
    sphere: bool
    core_scale: Annotated[float, Field(ge=0, le=2)]
    strassen_levels: Annotated[int, Field(ge=0, le=4)]

    name: ClassVar[str] = "third_cumulant_plus"

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return predict_within(budget, self, mlp.weights)

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]:
        product = Strassen(self.strassen_levels)
        return propagate(weights, DiagonalCore(self.core_scale), TERMS, float(self.sphere), product)

    def cheaper(self) -> Affordable:
        return ThirdCumulant(self.sphere, self.strassen_levels)
