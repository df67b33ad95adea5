"""Truth: every neuron's mean activation under Gaussian input, by sampling, with its error bar.

Samples are drawn in blocks and summed in float64, so the memory does not grow with their number. A sampler yields its
running sums after each block. The caller can show progress, stop early or keep the state.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

import numpy as np
from jaxtyping import Float
from pydantic import Field

from whest.errors import ConfigError
from whest.mlp import MLP

if TYPE_CHECKING:
    from whest.truth.moments import LayerMoments

MOST_SAMPLES = 10**12
SampleCount = Annotated[int, Field(ge=2, le=MOST_SAMPLES)]
StandardError = Annotated[float, Field(ge=1e-6, le=1)]
"""Root mean square over the final layer. Below 1e-6 the rounding of float32 would be the limit."""

NOISE_BELOW_ZERO = 6
"""How many error bars a mean of corrected samples may lie below 0."""

MEASURED_SAMPLES = 1000
"""The fewest independent samples whose error bar may stop the sampling."""

State = Mapping[str, np.ndarray]
"""The state from which a stopped stream can continue."""

BLOCK_SAMPLES = 2**18
BLOCK_FLOPS = 2**38
"""The most samples and FLOPs per block: one to three seconds on two cores, so that a progress bar moves."""


@dataclass(frozen=True)
class Truth:
    """Sampled means with their standard errors."""

    means: Float[np.ndarray, "depth width"]
    standard_errors: Float[np.ndarray, "depth width"]
    """NaN if a dataset has none, as those of WhestBench."""
    avg_variance: float
    """Variance of one sample, averaged over the final layer."""
    n_samples: int
    n_replicates: int | None = None
    """The number of independent replicates from which the errors come; None if the samples are independent."""
    moments: "LayerMoments | None" = None
    """Of `truth.moments=true`, or of a dataset that has them."""

    @property
    def floor_mse(self) -> float:
        """The noise of the final layer's truth, which is added to every MSE."""
        if np.isnan(self.standard_errors[-1]).any():  # the reference's samples are independent
            return self.avg_variance / self.n_samples
        return float(np.mean(np.square(self.standard_errors[-1], dtype=np.float64)))

    @property
    def is_possible(self) -> bool:
        """Whether a ReLU can have these means: none is below 0, or not by more than its noise.

        Replicates are corrected by a control variate, which is right on average. So the sampled mean of a neuron that
        is almost never on can be below 0. Two replicates that happen to agree have a very small error bar: the layer's
        error bar and that of plain sampling bound it from below. Plain samples are never below 0.
        """
        if self.n_replicates is None:
            return bool((self.means >= 0).all())
        errors = np.nan_to_num(self.standard_errors.astype(np.float64))
        layer = np.sqrt(np.mean(np.square(errors), axis=1, keepdims=True))
        plain = math.sqrt(max(self.avg_variance, 0.0) / self.n_samples)
        return bool((self.means >= -NOISE_BELOW_ZERO * np.maximum(np.maximum(errors, layer), plain)).all())


class Running(Protocol):
    """The running sums of a sampler."""

    @property
    def n_samples(self) -> int: ...

    @property
    def is_measured(self) -> bool:
        """Whether there are enough samples for an error bar."""
        ...

    def truth(self) -> Truth: ...

    def state(self) -> dict[str, np.ndarray]: ...


def is_small_enough(running: Running, standard_error: float | None) -> bool:
    """Whether the final layer's error bar is as small as wanted; False if no error bar was set."""
    return standard_error is not None and running.is_measured and running.truth().floor_mse <= standard_error**2


def expected_samples(sampler: "TruthSampler", running: Running) -> int | None:
    """The expected number of samples at the end: the variance of a mean is inversely proportional to it."""
    if sampler.standard_error is None:
        return max(sampler.n_samples, running.n_samples)
    if not running.is_measured:
        return None
    return math.ceil(running.n_samples * max(1.0, running.truth().floor_mse / sampler.standard_error**2))


class TruthSampler(Protocol):
    """Draws truth for one MLP. `version` changes whenever the numbers drawn change."""

    name: ClassVar[str]
    version: ClassVar[int]

    @property
    def n_samples(self) -> int: ...

    @property
    def standard_error(self) -> float | None:
        """Sample until the final layer's error bar is this small, instead of `n_samples`."""
        ...

    @property
    def resample(self) -> bool: ...

    def stream(self, mlp: MLP, state: State | None = None) -> Iterator[Running]:
        """Yield the running sums after each block. With a state, yield it first and continue from it."""
        ...


def describe_sampler(sampler: TruthSampler) -> dict[str, object]:
    """Everything that determines the drawn numbers, except the network."""
    asked = {"n_samples": sampler.n_samples} if sampler.standard_error is None else {}
    return {"sampler": sampler.name, "version": sampler.version, **asked, "standard_error": sampler.standard_error}


def refuse_two_aims(overrides: Sequence[str]) -> None:
    """Refuse a number of samples together with an error bar: only one of them can end the sampling."""
    aims = [o for o in overrides if o.lstrip("+~").startswith(("truth.n_samples=", "truth.standard_error="))]
    if len(aims) > 1 and not any(aim.endswith("=null") for aim in aims):
        raise ConfigError(f"{' and '.join(aims)} contradict each other: give one of them")


def refuse_idle_truth(brings_truth: bool, overrides: Sequence[str]) -> None:
    """Refuse a truth setting that has no effect, because the user expects one."""
    words = (override.lstrip("+~") for override in overrides)
    idle = [word for word in words if word.startswith(("truth=", "truth.")) and not word.startswith("truth.moment")]
    if brings_truth and idle:
        raise ConfigError(
            f"{idle[0]} has no effect: the dataset has its own truth. Add truth.resample=true to draw it again, "
            "or choose dataset=fresh"
        )
