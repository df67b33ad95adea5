"""Truth: every neuron's mean activation under Gaussian input, by sampling, with its error bar.

Samples are streamed in blocks and summed in float64, so memory stays flat whatever their number. A sampler yields its
running `Moments`; whoever consumes the stream may show progress, stop early or keep what there is.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt
from pydantic import Field

from whest.mlp import MLP

SampleCount = Annotated[int, Field(ge=2, le=10**12)]
BLOCK_SAMPLES = 2**16
"""Samples a dispatch: about half a second of work at 256x8 on two cores, so a progress bar moves."""


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

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.n_samples + other.n_samples, self.total + other.total, self.total_squares + other.total_squares
        )

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

    def truth(self) -> Truth: ...


class TruthSampler(Protocol):
    """Draws truth for one MLP. `version` changes whenever the numbers drawn change."""

    name: ClassVar[str]
    version: ClassVar[int]

    @property
    def n_samples(self) -> int: ...

    @property
    def resample(self) -> bool: ...

    def stream(self, mlp: MLP) -> Iterator[Running]:
        """What has been drawn after each block; the last has all `n_samples`, or a little more."""
        ...


@dataclass(frozen=True)
class PlainTruth:
    """Independent Gaussian samples through a jitted forward pass."""

    name: ClassVar[str] = "plain"
    version: ClassVar[int] = 1

    n_samples: SampleCount
    resample: bool = False

    def stream(self, mlp: MLP) -> Iterator[Moments]:
        rows = rows_per_chunk(mlp.width, self.n_samples)
        chunks = max(1, BLOCK_SAMPLES // rows)
        weights, key = jnp.asarray(mlp.weights), jnp.asarray(mlp.key_samples)
        n_chunks = -(-self.n_samples // rows)
        moments = None
        for first in range(0, n_chunks, chunks):
            last = min(first + chunks, n_chunks)
            with jax.enable_x64(True):
                total, squares = _chunk_sums(weights, key, first, last, self.n_samples, rows=rows)
            drawn = min(last * rows, self.n_samples) - first * rows
            block = Moments(drawn, np.asarray(total), np.asarray(squares))
            moments = block if moments is None else moments + block
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
    resample: bool = False

    def stream(self, mlp: MLP) -> Iterator[Moments]:
        generator = np.random.default_rng(mlp.sample_stream)
        rows = max(1024, min(16384, 2**20 // mlp.width))
        zeros = np.zeros((mlp.depth, mlp.width))
        moments = Moments(0, zeros, zeros)
        for first in range(0, self.n_samples, rows):
            drawn = min(rows, self.n_samples - first)
            h = generator.standard_normal((drawn, mlp.width), dtype=np.float32)
            total, squares = [], []
            for w in mlp.weights:
                h = np.maximum(h @ w, np.float32(0))
                wide = h.astype(np.float64)
                total.append(wide.sum(0))
                squares.append(np.square(wide).sum(0))
            moments = moments + Moments(drawn, np.stack(total), np.stack(squares))
            yield moments
