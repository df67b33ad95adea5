"""Truth: every neuron's mean activation under Gaussian input, by sampling, with its error bar.

Samples are streamed in blocks and summed in float64, so memory stays flat whatever their number. A sampler yields its
running `Moments`; whoever consumes the stream may show progress, stop early or keep what there is.
"""

import functools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt
from pydantic import Field

from whest.mlp import MLP

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


@dataclass(frozen=True)
class Moments:
    """Running float64 sums of activations and of their squares."""

    n_samples: int
    total: Float[np.ndarray, "depth width"]
    total_squares: Float[np.ndarray, "depth width"]
    generator: str = ""
    """The state of the generator that draws on from here, where there is one."""

    @classmethod
    def begin(cls, mlp: MLP, state: State | None) -> "Moments":
        if state is None:
            zeros = np.zeros((mlp.depth, mlp.width))
            return cls(0, zeros, zeros)
        return cls(int(state["n_samples"]), state["total"], state["total_squares"], str(state["generator"]))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.n_samples + other.n_samples,
            self.total + other.total,
            self.total_squares + other.total_squares,
            other.generator,
        )

    @property
    def is_measured(self) -> bool:
        return self.n_samples >= MEASURED_SAMPLES

    def state(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def truth(self) -> Truth:
        n = self.n_samples
        means = self.total / n
        variance = np.maximum(self.total_squares / n - means**2, 0)
        errors = np.sqrt(variance / (n - 1))
        rounded = means.astype(np.float32)
        final_variance = self.total_squares[-1] / n - rounded[-1].astype(np.float64) ** 2
        return Truth(rounded, errors.astype(np.float32), float(np.mean(final_variance)), n)


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


@dataclass(frozen=True)
class PlainTruth:
    """Independent Gaussian samples through a jitted forward pass."""

    name: ClassVar[str] = "plain"
    version: ClassVar[int] = 1

    n_samples: SampleCount
    standard_error: StandardError | None = None
    resample: bool = False

    def stream(self, mlp: MLP, state: State | None = None) -> Iterator[Moments]:
        wanted = self.n_samples if self.standard_error is None else MOST_SAMPLES
        rows = rows_per_chunk(mlp.width, wanted)
        chunks = max(1, min(BLOCK_SAMPLES, BLOCK_FLOPS // (2 * mlp.width**2 * mlp.depth)) // rows)
        weights, key = jnp.asarray(mlp.weights), jnp.asarray(mlp.key_samples)
        n_chunks = -(-wanted // rows)
        moments = Moments.begin(mlp, state)
        if state is not None:
            yield moments
        while moments.n_samples < wanted and not is_small_enough(moments, self.standard_error):
            first = moments.n_samples // rows
            last = min(first + chunks, n_chunks)
            with jax.enable_x64(True):
                total, squares = _chunk_sums(weights, key, first, last, wanted, rows=rows)
            drawn = min(last * rows, wanted) - first * rows
            moments = moments + Moments(drawn, np.asarray(total), np.asarray(squares))
            yield moments


def rows_per_chunk(width: int, n_samples: int) -> int:
    """Rows of one matmul: enough to keep the machine busy, small enough to stay in cache."""
    return min(n_samples, max(1024, 2**20 // width))


@functools.partial(jax.jit, static_argnames="rows")
def _chunk_sums(
    weights: Float[Array, "depth width width"],
    key: UInt[Array, "2"],
    first: int,
    last: int,
    n_samples: int,
    *,
    rows: int,
) -> tuple[Float[Array, "depth width"], Float[Array, "depth width"]]:
    """Sums over chunks first…last-1. Each chunk has its own key, so how chunks are dispatched changes nothing."""
    key_chunks = jax.random.wrap_key_data(key)
    depth, width, _ = weights.shape

    def add_chunk(index: int, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        x = jax.random.normal(jax.random.fold_in(key_chunks, index), (rows, width), jnp.float32)
        surplus = index * rows + jnp.arange(rows) >= n_samples
        h = jnp.where(surplus[:, None], 0, x)  # without biases a zero row stays zero: it adds nothing to any sum
        total, squares = [], []
        for w in weights:
            h = jax.nn.relu(jnp.matmul(h, w, precision="highest"))
            wide = h.astype(jnp.float64)
            total.append(wide.sum(0))
            squares.append((wide * wide).sum(0))
        return sums[0] + jnp.stack(total), sums[1] + jnp.stack(squares)

    zeros = jnp.zeros((depth, width), jnp.float64)
    total, squares = jax.lax.fori_loop(first, last, add_chunk, (zeros, zeros))
    return total, squares


@dataclass(frozen=True)
class ReferenceTruth:
    """The reference's own stream: NumPy normals, its chunk sizes and dtypes; reproduces its CPU bake to 1e-7."""

    name: ClassVar[str] = "reference"
    version: ClassVar[int] = 1

    n_samples: SampleCount
    standard_error: StandardError | None = None
    resample: bool = False

    def stream(self, mlp: MLP, state: State | None = None) -> Iterator[Moments]:
        wanted = self.n_samples if self.standard_error is None else MOST_SAMPLES
        generator = np.random.default_rng(mlp.sample_stream)
        rows = max(1024, min(16384, 2**20 // mlp.width))
        moments = Moments.begin(mlp, state)
        if moments.generator:
            generator.bit_generator.state = json.loads(moments.generator)
            yield moments
        while moments.n_samples < wanted and not is_small_enough(moments, self.standard_error):
            drawn = min(rows, wanted - moments.n_samples)
            h = generator.standard_normal((drawn, mlp.width), dtype=np.float32)
            total, squares = [], []
            for w in mlp.weights:
                h = np.maximum(h @ w, np.float32(0))
                wide = h.astype(np.float64)
                total.append(wide.sum(0))
                squares.append(np.square(wide).sum(0))
            drawing_on = json.dumps(generator.bit_generator.state)
            moments = moments + Moments(drawn, np.stack(total), np.stack(squares), drawing_on)
            yield moments
