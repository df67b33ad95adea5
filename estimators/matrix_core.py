"""Third-cumulant propagation with a matrix for the fourth cumulants, and the expansion to the next order.

It extends `third_cumulant_plus`. A full symmetric matrix B models the fourth cumulants of the activations,
    κ_ijkl(h) = ⅙·(B_ij δ_kl + 5 like it),   so for z = W·h, with D = W·B·Wᵀ and G = W·Wᵀ:
    κ_iiii = D_ii G_ii,  κ_iijj = (D_ii G_jj + G_ii D_jj + 4D_ij G_ij)/6,  κ_iiij = (D_ii G_ij + G_ii D_ij)/2.
The B nearest to the true tensor has its partial traces ρ_jk = Σ_i κ_iijk(h): B_jk = 6/(n+4)·ρ_jk off the diagonal, and
6/(n+4)·ρ_jj − 3/((n+2)(n+4))·tr ρ on it. ρ follows from known values of the layer, since
    κ(h_i,h_i,h_j,h_k) = κ(h_i²,h_j,h_k) − 2m_i κ(h_i,h_j,h_k) − 2C_ij C_ik;
With e_i, f_i the mean first and second derivatives of h_i² − 2m_i h_i, off the diagonal and for i ≠ j, k
    ρ_jk = κ_jjjk + κ_kkkj + Φ_jΦ_k·Σ_i [e_i κ_ijk + (f_i − 2Φ_i²) S_ij S_ik + f_i (D_ii G_jk + G_ii D_jk)/12]
           + [w(2,1)_j Φ_k S_jk·Σ_i e_i S_ij + (j ↔ k)],
where the first two κ are those of the activations and the others those of the pre-activations. The covariances have
every term of order n^(−3/2) except those with κ_iii² (`TERMS`). κ₄ also adds to κ₃:
κ_ijk += ½w(2,1)_i Φ_jΦ_k κ_iijk + two like it, of which (D_ii + mean(B_ll)·G_ii)·G_jk is kept. (`spread` adds
λ·G_ii S_jk, since off its diagonal B is nearly λ times the covariance. That is no better.) The legs of a new source
have their terms of the next order, and slopes and bends their neuron's κ_iii and κ_iiii (`Terms.legs`, `Terms.gates`).
Two numbers are fitted: the scale of the diagonal, 1 − `core_shrink`/n, and `radial`.

Cost: that of `third_cumulant` and 4 products of 2·width³ FLOPs per hidden layer. `third_in_core`, the sum with κ_ijk,
adds 2 products per source and layer. Lean sources save a third of the whole cost. It wins where `third_cumulant` wins,
by a large factor. Source: this repository. The challenge's participants discussed a matrix core as too expensive.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from estimators.parts.cumulant_chain import hidden, propagate
from estimators.parts.cumulants import Fourth, Relu, Square, Terms, off_diagonal, outer
from estimators.parts.fallback import Affordable, predict_within, price
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sources import Feed, Sources, Third
from estimators.parts.sphere import radial_moment
from estimators.parts.spread import Spread
from estimators.parts.strassen import Product, Strassen
from estimators.parts.thinning import Thinning
from estimators.parts.tiers import TieredSources
from estimators.parts.wick import Vector
from estimators.third_cumulant_plus import CORE_SCALE, ThirdCumulantPlus
from whest.estimator import MLPView

TERMS = Terms(k31=1, skew=1, bend=1, cubic=1, kurtosis=1, twist=1, square_skew=1, mixed=1, gates=1, legs=1)
CORE_SHRINK = 8
"""Fitted at 256×8; see `benchmarks/fit_constants.py`."""
RADIAL = 2
"""Chosen among −½ … 3 on networks of no suite; the optimum is flat. See `benchmarks/corrections.py`."""
THINNED = 2.5
"""Beyond this |α| neurons change the answer by 4 % of its mean square error or less (docs/frontier.md)."""
TIERS = ((6, 5 / 16),)
"""The ages from which lean sources share a basis, and its columns as a share of the width."""
FLOOR = 0.1
"""The smallest multiplier: a cost below this share of the budget gives no better score."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("scale", "b"),
    meta_fields=("third_in_core", "radial", "spread"),
)
@dataclass(frozen=True)
class MatrixCore:
    scale: float | Float[Array, ""]
    third_in_core: bool
    radial: float
    b: Square | None = None
    """None for the input, Gaussian or on the sphere."""
    spread: bool = False

    with_k31: ClassVar[bool] = True

    @property
    def matrix(self) -> Square | None:
        return self.b

    def slices(self, w: Square, gram: Square, product: Product, carried: Square | None) -> Fourth:
        if carried is None:  # the radius gives B = −6·radial/(n+2)·I; the first layer is exact without it
            none = jnp.zeros_like(gram)
            return Fourth(none[0], none, none, -6 * self.radial / (len(gram) + 2) * gram if self.radial else none)
        d, squares = carried, jnp.diagonal(gram)
        weighted = jnp.diagonal(d)
        crossed = outer(weighted, squares)
        k22 = (crossed + crossed.T + 4 * d * gram) / 6
        k31 = 0.5 * (weighted[:, None] * gram + squares[:, None] * d)
        return Fourth(weighted * squares, off_diagonal(k22), off_diagonal(k31), d)

    def diagonal(self, w: Square, product: Product) -> Vector:
        if self.b is None:
            return jnp.zeros_like(w[0])
        return jnp.sum(product(w, self.b) * w, axis=1) * jnp.sum(w * w, axis=1)

    def feed(self, relu: Relu, gram: Square, covariance: Square | None) -> Feed | None:
        if self.b is None or covariance is None or relu.inputs.fourth.core is None:
            return None
        slope, squares = relu.slope, jnp.diagonal(gram)
        curved = jnp.diagonal(relu.inputs.fourth.core) + jnp.mean(jnp.diagonal(self.b)) * squares
        v, gated = 0.25 * relu.bend * curved, outer(slope, slope) * gram
        slices = (2 * v[:, None] * gated + outer(slope * slope * squares, v)) / 3
        if not self.spread:
            return Feed(v, slices)
        return Feed(v, slices, Spread(relu.bend * squares * (likeness(self.b, covariance) / 12), slope))

    def after(self, relu: Relu, third: Third, gram: Square, product: Product) -> "MatrixCore":
        n, outputs = len(gram), relu.outputs
        rho = outputs.k4 + jnp.sum(outputs.k22, axis=1)
        diagonal = 6 / (n + 4) * rho - 3 / ((n + 2) * (n + 4)) * jnp.sum(rho)
        traces = _traces(relu, third if self.third_in_core else None, gram, product)
        return replace(self, b=self.scale * jnp.diag(diagonal) + 6 / (n + 4) * off_diagonal(traces))


def _traces(relu: Relu, third: Third | None, gram: Square, product: Product) -> Square:
    """ρ_jk off the diagonal. The terms i = j and i = k are subtracted only where they matter."""
    wick, (s, _, k21, fourth), outputs = relu.wick, relu.inputs, relu.outputs
    assert outputs.k31 is not None, "with_k31 is set, so joint_moments computes it"
    assert fourth.core is not None, "slices computes it"
    gain, bend, mean, d = relu.slope, relu.bend, outputs.mean, fourth.core
    e, f = wick(1, 2) - 2 * mean * gain, wick(2, 2) - 2 * mean * bend
    pairs = product.symmetric(s * (f - 2 * gain * gain), s)
    contracted = None if third is None else third.contracted(e, product)
    if contracted is not None:
        pairs = pairs + contracted - e[:, None] * k21 - e * k21.T
    pairs = pairs + (jnp.sum(f * jnp.diagonal(d)) * gram + jnp.sum(f * jnp.diagonal(gram)) * d) / 12
    edge = outputs.k31 + s * outer(bend * (s @ e), gain) - s * s * outer(bend, gain * e)
    return outer(gain, gain) * pairs + edge + edge.T


def likeness(b: Square, covariance: Square) -> Float[Array, ""]:
    """λ: the multiple of the covariance that is nearest to B, off the diagonal."""
    c = off_diagonal(covariance)
    return jnp.sum(b * c) / jnp.sum(c * c)


@dataclass(frozen=True)
class MatrixCoreProp:
    radial: Annotated[float, Field(ge=0, le=4)]
    """The power of the input's radius that is divided out (see `sphere`)."""
    core_shrink: Annotated[float, Field(ge=0)]
    sources: Literal["auto", "full", "lean"]
    """auto: full if its cost is below the multiplier's floor, else lean."""
    third_in_core: bool | None
    """Whether B uses the third cumulants. None: only with full sources."""
    strassen_levels: Annotated[int, Field(ge=0, le=8)] | None
    """The most Strassen levels of a product. None: 2 with full sources, 6 with lean ones."""
    thinned: Annotated[float, Field(gt=0)] | None
    """Leave neurons with |μ| beyond so many σ out of lean sources (see `thinning`). None: keep all."""
    shared: bool
    """Whether old lean sources share bases (see `tiers`)."""
    spread: bool = False
    """Whether B's likeness to the covariance adds to κ₃ (see `parts.spread`)."""

    name: ClassVar[str] = "matrix_core"

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        return predict_within(budget, self.sized(budget, mlp.weights.shape), mlp.weights)

    def sized(self, budget: int, shape: tuple[int, ...]) -> "MatrixCoreProp":
        """This estimator with `sources=auto` replaced by full or lean."""
        if self.sources != "auto":
            return self
        full = replace(self, sources="full")
        return full if price(full, shape) <= FLOOR * budget else replace(self, sources="lean")

    def means(self, weights: Float[Array, "depth width width"]) -> Float[Array, "depth width"]:
        return propagate(weights, *self._parts(weights.shape))

    def moments(
        self, weights: Float[Array, "depth width width"]
    ) -> tuple[Float[Array, "depth width"], Float[Array, "depth width width"]]:
        """The means and covariances of these layers, for inputs on the sphere of the mean radius.

        The chain has E[hhᵀ] of the Gaussian input, since a₂ = 1; on that sphere it is a₁² times as large.
        """
        width = weights.shape[1]
        means, covariances, _ = hidden(weights, *self._parts(weights.shape))
        turned, scale = radial_moment(width, 1, self.radial) * means, radial_moment(width, 1) ** 2
        seconds = scale * (covariances + means[:, :, None] * means[:, None, :])
        return turned, seconds - turned[:, :, None] * turned[:, None, :]

    def _parts(self, shape: tuple[int, ...]) -> tuple[MatrixCore, Terms, float, Product, Third, bool]:
        depth, width, _ = shape
        is_lean = self.sources == "lean"
        in_core = not is_lean if self.third_in_core is None else self.third_in_core
        levels = (6 if is_lean else 2) if self.strassen_levels is None else self.strassen_levels
        core = MatrixCore(1 - self.core_shrink / width, in_core, self.radial, spread=self.spread)
        thinning = None if self.thinned is None or not is_lean else Thinning(width, self.thinned)
        if thinning is not None and thinning.is_idle(depth):
            thinning = None
        third: Third = LeanSources(thinning) if is_lean else Sources()
        is_shared = is_lean and self.shared
        if isinstance(third, LeanSources) and self.shared:
            third = TieredSources(tuple((age, round(share * width)) for age, share in TIERS), third)
        in_loops = thinning is None and not self.spread and not is_shared
        return core, TERMS, self.radial, Strassen(levels, halves=True), third, in_loops

    def cheaper(self) -> Affordable:
        if self.sources != "lean":
            return replace(self, sources="lean")
        return ThirdCumulantPlus(self.radial > 0, CORE_SCALE, 0)
