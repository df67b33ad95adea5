"""Oracle interventions: give an estimator the true moments of one layer and see which error is left.

An estimator that carries a mean and a covariance from layer to layer may have a method
`predict_from(weights, mean, covariance)`: the means of the layers of `weights`, whose input has these moments. With the
true mean and covariance of layer l, and the weights after it, what is left of the final MSE was made after layer l. The
rest came from the moments that the estimator had at layer l. The last layer has nothing after it, and nothing is left.

The true covariances are sampled, so their noise is in what is left too: more `truth.moment_samples` make it smaller.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float

from whest.document import Json
from whest.notation import figure
from whest.page import Section, Table
from whest.truth.truth import Truth

WHAT_IS_LEFT = (
    "The final-layer MSE if the estimator starts from the true mean and covariance of a layer's activations. What is "
    "left was made after that layer; the truth's own noise is in it."
)


@runtime_checkable
class FromMoments(Protocol):
    """The optional method of an estimator for oracle interventions. It is never part of a score."""

    def predict_from(
        self,
        weights: Float[Array, "deeper width width"],
        mean: Float[Array, " width"],
        covariance: Float[Array, "width width"],
    ) -> Float[Array, "deeper width"]: ...


@dataclass(frozen=True)
class Replaced:
    """The final MSE of every MLP, with the true moments of each layer but the last."""

    n_moment_samples: int
    left: Float[np.ndarray, "mlp layer"]
    whole: Float[np.ndarray, " mlp"]

    @property
    def shares(self) -> list[tuple[float, float | None]]:
        """What is left of the error by layer, as a share of the whole, with its standard error over MLPs."""
        return [_ratio(left, self.whole) for left in self.left.T]

    def words(self) -> str:
        return "  ".join(f"{layer}: {share:.1%}" for layer, (share, _) in enumerate(self.shares, start=1))

    def section(self) -> Section:
        rows = [
            (layer, figure(float(left.mean())), f"{share:.2%}" + ("" if error is None else f" ± {error:.2%}"))
            for layer, (left, (share, error)) in enumerate(zip(self.left.T, self.shares, strict=True), start=1)
        ]
        return Section("With true moments", [Table(("true moments of layer", "MSE left", "share"), rows, WHAT_IS_LEFT)])

    def to_json(self) -> Json:
        return {
            "n_moment_samples": self.n_moment_samples,
            "by_layer": [
                {"layer": layer, "mse_left": float(left.mean()), "share": share, "share_se": error}
                for layer, (left, (share, error)) in enumerate(zip(self.left.T, self.shares, strict=True), start=1)
            ],
        }


def what_is_left(
    estimator: FromMoments, networks: Sequence[tuple[np.ndarray, Truth]], mses: Sequence[float]
) -> Replaced:
    """Run the estimator from every layer's true moments. Each truth needs moments with covariances."""
    run: Callable[..., Any] = jax.jit(estimator.predict_from)
    rows, n_samples = [], 0
    for weights, truth in networks:
        assert truth.moments is not None
        covariances = truth.moments.covariances
        assert covariances is not None
        n_samples = truth.moments.n_samples
        final = truth.means[-1].astype(np.float64)
        left = []
        for layer in range(len(weights) - 1):
            answer = np.asarray(run(weights[layer + 1 :], truth.means[layer], covariances[layer]), np.float64)[-1]
            left.append(float(np.mean(np.square(answer - final))))
        rows.append(left)
    return Replaced(n_samples, np.array(rows), np.array(mses))


def _ratio(part: np.ndarray, whole: np.ndarray) -> tuple[float, float | None]:
    """A ratio of means, and its standard error by the delta method."""
    if not whole.mean():
        return 0.0, None
    ratio = float(part.mean() / whole.mean())
    if part.size < 2:
        return ratio, None
    spread = float(np.std(part - ratio * whole, ddof=1))
    return ratio, spread / math.sqrt(part.size) / float(whole.mean())
