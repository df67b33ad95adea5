"""Kerdock designs: a randomly rotated spherical 5-design of width·(width + 2) points, at the mean radius of a Gaussian
input.

A bias-free ReLU network is positively homogeneous, so E[f(x)] = E‖x‖·E[f(u)] with u uniform on the sphere. The points
are the rows of n/2 + 1 mutually unbiased bases, and their negatives. The bases are H·diag(c_u)/√n for n/2 sign vectors
c_u, and the identity. The points integrate every polynomial up to degree 5 (`whest.truth.designs`). Only the even
degrees from 6 on remain: a third of plain sampling's variance at 256×32. Fewer bases are a 3-design, which is no better
than `orthogonal`. So one whole design is run if the budget allows it, although it costs more than the multiplier's
floor. More designs, or single bases, are run only up to `budget_fraction`. Widths 16, 64, 256 and 1024 have their own
design; another width uses some coordinates of the next larger one.

Savings: layer 1 on a basis is a Walsh–Hadamard transform of the turned weights, and so is z·W₂. So relu(−z)·W₂ =
relu(z)·W₂ − z·W₂ halves the cost of layer 2. `pruned_share` of the neurons of deep layers is left out (see `pruning`).
`anchors=mean` corrects the deeper layers by the exact means of the first (see `chain`). `anchors=cumulants` corrects
them by `matrix_core`'s means of the first eleven: less error at 256×32 for 2 % of the budget
(`benchmarks/fit_anchors.py`). `anchors=covariance` corrects them by its covariance of the eleventh layer too: with C
the chain's and Ĉ the points' covariance, the errors (e, `SPREAD`·(C − Ĉ)) of that layer's moments are carried on by the
derivative of covariance propagation (see `tangent`). SPREAD is below 1 because C errs as well. Held-out networks show
no resolved gain (`benchmarks/second_anchors.py`), so it is not the default.
Cost: n(n + 2)·(depth − 1.5)·2·width² FLOPs per design before pruning. That is all of phase1's budget, .72 of it after
pruning, and .50 with Strassen's product and all of the above.
It wins if networks are too deep for an analytic closure and the budget pays for about one design.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8, PRNGKeyArray
from pydantic import Field

from estimators.matrix_core import CORE_SHRINK, RADIAL, MatrixCoreProp
from estimators.orthogonal import Orthogonal, turned_weights
from estimators.parts.chain import anchored
from estimators.parts.ensemble import Layers, Matmul, Offsets, Squared, Sums, add, pair_sums, repeat
from estimators.parts.pruning import kept, pilot_run, prune
from estimators.parts.sizing import affordable, fall_back, price
from estimators.parts.strassen import Strassen, multiply, symmetric_product
from estimators.parts.tangent import carry_moments
from whest.estimator import MLPView
from whest.truth.designs import design_size, kerdock_signs, walsh_hadamard

ROWS = 4096
"""Rows in memory at the same time, without their negatives."""
ANCHORED, BELIEVED, FADING = 11, 15, 10
"""The first ANCHORED layers are corrected by cumulants. The weight of each layer's own correction is
min(1, (BELIEVED − layer)/FADING); `benchmarks/fit_anchors.py` chose these numbers."""
SPREAD = 0.4
"""With anchors=covariance: the weight of the difference of the last of these layers' covariances;
`benchmarks/second_anchors.py` chose it."""
SQUARE_HALVINGS = 3
"""Of the points' covariance only blocks on its diagonal and one of each pair beside it are summed."""
CUMULANTS_FROM = 128
"""The smallest width at which third cumulants are worth their cost."""
CHAIN = MatrixCoreProp(RADIAL, CORE_SHRINK, "lean", False, 5, None, False)


@dataclass(frozen=True)
class Kerdock:
    budget_fraction: Annotated[float, Field(gt=0, le=1)]
    whole_design_fraction: Annotated[float, Field(ge=0, le=1)]
    """The first whole design may cost this share of the budget."""
    pruned_share: Annotated[float, Field(ge=0, lt=1)]
    """The share of neurons that is left out in very deep layers."""
    anchors: Literal["none", "mean", "cumulants", "covariance"]
    strassen_levels: Annotated[int, Field(ge=0, le=8)]
    """Strassen levels of the products of the deeper layers."""
    seed: int
    """Another seed draws other rotations for the same MLP."""

    @property
    def matmul(self) -> Matmul:
        return partial(multiply, levels=self.strassen_levels)

    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        if design_size(mlp.width) is None:
            return self._orthogonal(mlp, budget)
        whole = price(self.designs, mlp, 1)
        if whole <= self.budget_fraction * budget:
            return self.designs(mlp.weights, mlp.key, affordable(self.designs, mlp, self.budget_fraction * budget))
        if whole <= self.whole_design_fraction * budget:
            return self.designs(mlp.weights, mlp.key, 1)
        bases = affordable(self.bases, mlp, self.budget_fraction * budget)
        return self.bases(mlp.weights, mlp.key, bases) if bases else self._orthogonal(mlp, budget)

    def _orthogonal(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]:
        """The answer if there is no design, or if the budget does not pay for one basis."""
        anchors: Literal["none", "mean"] = "none" if self.anchors == "none" else "mean"
        sampler = Orthogonal(self.budget_fraction, anchors, self.seed)
        blocks = affordable(sampler.sample, mlp, self.budget_fraction * budget)
        if not blocks:
            return fall_back(mlp, budget)
        with jax.named_scope("fallback.orthogonal"):
            return sampler.sample(mlp.weights, mlp.key, blocks)

    def designs(
        self, weights: Float[Array, "depth width width"], key: PRNGKeyArray, designs: int
    ) -> Float[Array, "depth width"]:
        """Means over `designs` whole designs, each with its own rotation."""
        n = _size(weights)
        return self._means(weights, key, designs, jnp.asarray(kerdock_signs(n)))

    def bases(
        self, weights: Float[Array, "depth width width"], key: PRNGKeyArray, bases: int
    ) -> Float[Array, "depth width"]:
        """Means over some bases of one design, the identity first."""
        n = _size(weights)
        return self._means(weights, key, 1, jnp.asarray(kerdock_signs(n))[: bases - 1])

    def _means(
        self, weights: Float[Array, "depth width width"], key: PRNGKeyArray, turns: int, signs: Array
    ) -> Float[Array, "depth width"]:
        depth, width, _ = weights.shape
        if self.anchors == "none":
            return self.sampled(weights, key, turns, signs)[0]
        if self.anchors == "mean" or width < CUMULANTS_FROM:
            return anchored(self.sampled(weights, key, turns, signs)[0], weights)
        is_second = self.anchors == "covariance" and depth > ANCHORED
        means, second = self.sampled(weights, key, turns, signs, ANCHORED if is_second else None)
        with jax.named_scope("cumulants"):
            if second is None:
                return self.corrected(means, weights, CHAIN.means(weights[:ANCHORED]), None)
            known, covariances = CHAIN.moments(weights[:ANCHORED])
        return self.corrected(means, weights, known, (covariances[-1], second))

    def sampled(
        self,
        weights: Float[Array, "depth width width"],
        key: PRNGKeyArray,
        turns: int,
        signs: Array,
        layer: int | None = None,
    ) -> tuple[Float[Array, "depth width"], Float[Array, "width width"] | None]:
        """Mean activations over the points of `turns` designs, and E[hhᵀ] of one layer if it is given."""
        layers = tuple(weights)
        key = jax.random.fold_in(key, self.seed)
        halves = partial(symmetric_product, levels=self.strassen_levels, halvings=SQUARE_HALVINGS)
        squared = None if layer is None else Squared(layer - 1, lambda h: halves(h.T, h.T))

        def turn_sums(index: Array) -> Sums:
            folded = turned_weights(jax.random.fold_in(key, index), layers[0], signs.shape[1])
            return self._design_sums(folded, layers, signs, squared)

        points = 2 * turns * signs.shape[1] * (len(signs) + 1)
        sums = repeat(layers, turns, turn_sums, squared=squared)
        means = jnp.stack(sums[: len(layers)]) / float(points)
        return means, None if squared is None else sums[-1] / float(points)

    def corrected(
        self,
        means: Float[Array, "depth width"],
        weights: Float[Array, "depth width width"],
        known: Float[Array, "known width"],
        spreads: tuple[Float[Array, "width width"], Float[Array, "width width"]] | None,
        share: float = SPREAD,
    ) -> Float[Array, "depth width"]:
        """Sampled means, corrected by the known means of the first layers.

        `spreads` are, for the last of these, the known covariance and the sampled E[hhᵀ].
        """
        shares = [min(1.0, (BELIEVED - layer) / FADING) for layer in range(1, len(known) + 1)]
        if spreads is None:
            return anchored(means, weights, known, shares)
        (covariance, second), mean = spreads, means[len(known) - 1]
        missing = share * (covariance - (second - mean[:, None] * mean))
        rest, product = weights[len(known) :], Strassen(self.strassen_levels, halves=True)

        def deeper(error: Float[Array, " width"]) -> Float[Array, "deeper width"]:
            return carry_moments((error, missing), (known[-1], covariance), rest, product)

        return anchored(means, weights, known, shares, deeper)

    def _design_sums(
        self, folded: Float[Array, "n width"], layers: Layers, signs: Array, squared: Squared | None
    ) -> Sums:
        """The identity goes through the whole network as a pilot; the other bases go through the pruned network."""
        width, deeper = layers[0].shape[0], squared and squared.after(1)
        with jax.named_scope("pilot"):
            pilot = pilot_run(jax.nn.relu(jnp.concatenate([folded, -folded])), layers[1:], self.matmul, deeper)
            first = jnp.abs(folded).sum(axis=0)
        with jax.named_scope("prune"):
            sizes = kept(width, len(layers), self.pruned_share)
            means = [total / float(2 * len(folded)) for total in pilot.sums[: len(sizes) - 1]]
            pruned = prune(layers[1:], pilot.alphas, sizes[1:], means)
        with jax.named_scope("forward"):
            sums = transformed_sums(folded, pruned.layers, signs, self.matmul, squared, pruned.offsets)
        points = float(2 * signs.size)
        restored = [sums[0], *pruned.restore(sums[1:], width, points, deeper)]
        return add([first, *pilot.sums], restored)


def transformed_sums(
    folded: Float[Array, "n width"],
    deeper: Layers,
    signs: Int8[Array, "basis n"],
    matmul: Matmul,
    squared: Squared | None = None,
    offsets: Offsets = (),
) -> Sums:
    """Sums over ± the bases with these signs, about `ROWS` rows at a time. The first layer isn't pruned."""
    second = matmul(folded, deeper[0]) if deeper else None
    together = max(1, min(len(signs), ROWS // signs.shape[1]))
    whole = len(signs) // together * together
    follow = partial(pair_sums, deeper=deeper, matmul=matmul, squared=squared, offsets=offsets)
    some = partial(_some_sums, folded=folded, second=second, follow=follow)
    groups = signs[:whole].reshape(-1, together, signs.shape[1])
    layers = [folded, *deeper]
    sums = repeat(layers, len(groups), some, groups, squared)
    return add(sums, some(signs[whole:])) if whole < len(signs) else sums


def _some_sums(signs: Int8[Array, "some n"], folded: Array, second: Array | None, follow: Callable[..., Sums]) -> Sums:
    turn = signs.astype(folded.dtype)[:, :, None] / math.sqrt(signs.shape[1])
    z = walsh_hadamard(turn * folded).reshape(-1, folded.shape[1])
    z_next = None if second is None else walsh_hadamard(turn * second).reshape(-1, second.shape[1])
    return follow(z, z_next=z_next)


def _size(weights: Float[Array, "depth width width"]) -> int:
    n = design_size(weights.shape[1])
    assert n is not None, "predict checks the width first"
    return n
