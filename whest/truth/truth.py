"""Truth: every neuron's mean activation under Gaussian input, by sampling, with its error bar.

Samples are streamed in blocks and summed in float64, so memory stays flat whatever their number. A sampler yields its
running `Moments`; whoever consumes the stream may show progress, stop early or keep what there is.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

import numpy as np
from jaxtyping import Float
from pydantic import Field

from whest.errors import ConfigError
from whest.mlp import MLP


def refuse_two_aims(overrides: Sequence[str]) -> None:
    """A number of samples and an error bar can't both say when to stop."""
    aims = [o for o in overrides if o.lstrip("+~").startswith(("truth.n_samples=", "truth.standard_error="))]
    if len(aims) > 1 and not any(aim.endswith("=null") for aim in aims):
        raise ConfigError(f"{' and '.join(aims)} contradict each other: give one of them")


def refuse_idle_truth(brings_truth: bool, overrides: Sequence[str]) -> None:
    """A truth setting that would do nothing is a mistake worth a word."""
    idle = [override for override in overrides if override.lstrip("+~").startswith(("truth=", "truth."))]
    if brings_truth and idle:
        raise ConfigError(
            f"{idle[0]} has no effect: the dataset brings its own truth. Add truth.resample=true to draw it anew, "
            "or choose dataset=fresh"
        )


MOST_SAMPLES = 10**12

SampleCount = Annotated[int, Field(ge=2, le=MOST_SAMPLES)]

StandardError = Annotated[float, Field(ge=1e-6, le=1)]
"""Root mean square over the final layer. Below a millionth float32 itself would be what limits."""

MEASURED_SAMPLES = 1000
"""Independent samples behind an error bar that sampling may stop for."""

State = Mapping[str, np.ndarray]
"""What a stream goes on from after a stop."""

BLOCK_SAMPLES = 2**18

BLOCK_FLOPS = 2**38
"""Work between two looks at the clock, both at most: one to three seconds on two cores, so a progress bar moves."""


@dataclass(frozen=True)
class Truth:
    """Sampled means with their standard errors."""

    means: Float[np.ndarray, "depth width"]
    standard_errors: Float[np.ndarray, "depth width"]
    """NaN where a dataset from elsewhere brings none."""
    avg_variance: float
    """Variance of one sample, averaged over the final layer."""
    n_samples: int
    n_replicates: int | None = None
    """Independent replicates behind the standard errors, where samples aren't independent themselves."""

    @property
    def floor_mse(self) -> float:
        """What sampling noise in the final layer's truth adds to every MSE."""
        if np.isnan(self.standard_errors[-1]).any():  # independent samples then, as the reference draws them
            return self.avg_variance / self.n_samples
        return float(np.mean(np.square(self.standard_errors[-1], dtype=np.float64)))


class Running(Protocol):
    """What has been drawn so far."""

    @property
    def n_samples(self) -> int: ...

    @property
    def is_measured(self) -> bool:
        """Whether there is enough to speak of an error."""
        ...

    def truth(self) -> Truth: ...

    def state(self) -> dict[str, np.ndarray]: ...


def is_small_enough(running: Running, standard_error: float | None) -> bool:
    """Whether the final layer's error bar is what was asked for, where one was."""
    return standard_error is not None and running.is_measured and running.truth().floor_mse <= standard_error**2


def expected_samples(sampler: "TruthSampler", running: Running) -> int | None:
    """How many there will be in the end: the variance of a mean falls with their number."""
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
        """What has been drawn after each block, from the beginning, or from a state (and with it first) on."""
        ...


def describe_sampler(sampler: TruthSampler) -> dict[str, object]:
    """Everything the numbers it draws depend on, the network aside."""
    asked = {"n_samples": sampler.n_samples} if sampler.standard_error is None else {}
    return {"sampler": sampler.name, "version": sampler.version, **asked, "standard_error": sampler.standard_error}
