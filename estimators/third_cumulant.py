"""Third-cumulant propagation with one number for the fourth cumulants: covariance propagation, two orders further.

It is the chain of `cumulant_chain`. The activations' fourth cumulants are modelled as those of an isotropic vector,
    κ_ijkl(h) = c/3·(δ_ij δ_kl + δ_ik δ_jl + δ_il δ_jk),   c = 3/(n(n+2))·Σ_ij κ_iijj(h),
so with G = W·Wᵀ a layer's pre-activations have κ_iiii = c·G_ii², κ_iijj = c/3·(G_ii G_jj + 2G_ij²). With
`metric=average` the mean of G over He's weights, 2·I, stands for G, as in ARC's own form; that is 6–8 % worse at 256×8.

Source: "simple" cumulant propagation (ARC, 36 terms) in the source form of the challenge's participants, with the exact
metric G and the sphere. Cost at depth L: [3L(L−1)/2 − (L−1)] products to carry sources, 3(L−1)(L−2)/2 for their slices,
2(L−1) for S and L−2 for G, of 2·width³ FLOPs each: 160 at L = 8, 704 at L = 16. It wins if this is within a tenth of
the budget and width/depth is large, because its error grows with depth/width. Below a width of about 128 the expansion
isn't reliable. At 1024×16 it costs more than the multiplier's floor, so Strassen's product improves the score.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from estimators.cov_prop import CovarianceProp
from estimators.parts.cumulant_chain import propagate
from estimators.parts.cumulants import Fourth, Relu, Square, Terms, off_diagonal, outer
from estimators.parts.fallback import Affordable, predict_within
from estimators.parts.sources import Third
from estimators.parts.strassen import Product, Strassen
from estimators.parts.wick import Vector
from whest.estimator import MLPView

MEAN_SQUARE = 2
"""E[G_ii]: the mean square norm of a neuron's weights."""


@dataclass(frozen=True)
class ScalarCore:
    c: Float[Array, ""] | None = None
    """None for a Gaussian input, whose fourth cumulants are zero."""
    metric: Literal["exact", "average"] = "exact"

    with_k31: ClassVar[bool] = False

    matrix: ClassVar[Square | None] = None

    def slices(self, w: Square, gram: Square, product: Product, carried: Square | None = None) -> Fourth:
        if self.c is None:
            return Fourth(jnp.zeros_like(gram[0]), jnp.zeros_like(gram))
        if self.metric == "average":
            gram = MEAN_SQUARE * jnp.eye(len(gram), dtype=gram.dtype)
        squares = jnp.diagonal(gram)
        k22 = self.c / 3 * off_diagonal(outer(squares, squares) + 2 * gram * gram)
        return Fourth(self.c * squares * squares, k22)

    def diagonal(self, w: Square, product: Product) -> Vector:
        if self.c is None:
            return jnp.zeros_like(w[0])
        squares = jnp.full_like(w[0], MEAN_SQUARE) if self.metric == "average" else jnp.sum(w * w, axis=1)
        return self.c * jnp.square(squares)

    def feed(self, relu: Relu, gram: Square, covariance: Square | None) -> None:
        return None

    def after(self, relu: Relu, third: Third, gram: Square, product: Product) -> "ScalarCore":
        n, outputs = len(gram), relu.outputs
        return replace(self, c=3 / (n * (n + 2)) * (jnp.sum(outputs.k22) + jnp.sum(outputs.k4)))


@dataclass(frozen=True)
class ThirdCumulant:
    sphere: bool
    """Propagate the moments of an input on the sphere: a quarter less error at 256×8."""
    strassen_levels: Annotated[int, Field(ge=0, le=4)]
    metric: Literal["exact", "average"] = "exact"
    """What carries the fourth cumulants through a layer: W·Wᵀ, or its mean 2·I as in ARC's form."""

    name: ClassVar[str] = "third_cumulant"

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return predict_within(budget, self, mlp.weights)

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]:
        product = Strassen(self.strassen_levels)
        return propagate(weights, ScalarCore(metric=self.metric), Terms(), float(self.sphere), product)

    def cheaper(self) -> Affordable:
        return CovarianceProp()
