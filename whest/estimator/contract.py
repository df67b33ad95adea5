"""The contract: the inputs of an estimator and the method it must have."""

from dataclasses import dataclass
from typing import Protocol

import jax
from jaxtyping import Array, Float, PRNGKeyArray, UInt32


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MLPView:
    """The network as an estimator sees it: the weights, but not the truth. In traced mode the arrays are tracers."""

    weights: Float[Array, "depth width width"]
    seed: UInt32[Array, ""]
    key: PRNGKeyArray
    name: str = ""

    @property
    def depth(self) -> int:
        return self.weights.shape[0]

    @property
    def width(self) -> int:
        return self.weights.shape[1]


@dataclass(frozen=True)
class SetupContext:
    """The argument of `setup`: the rules of the run, and nothing about its MLPs."""

    width: int
    depth: int
    flop_budget: int
    lam: float
    wall_time_limit_s: float | None
    residual_wall_time_limit_s: float | None
    seed: int
    scratch_dir: str
    submission_dir: str | None


class Estimator(Protocol):
    def predict(self, mlp: MLPView, budget: int) -> Float[Array, "depth width"]: ...
