"""`truth=plain`: independent Gaussian samples through a compiled forward pass."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt

from whest.mlp import MLP
from whest.truth.moments import MomentSamples
from whest.truth.truth import (
    BLOCK_FLOPS,
    BLOCK_SAMPLES,
    MEASURED_SAMPLES,
    MOST_SAMPLES,
    SampleCount,
    StandardError,
    State,
    Truth,
    is_small_enough,
)


@dataclass(frozen=True)
class Moments:
    """Running float64 sums of activations and of their squares."""

    n_samples: int
    total: Float[np.ndarray, "depth width"]
    total_squares: Float[np.ndarray, "depth width"]
    generator: str = ""
    """The state of NumPy's generator after these samples; empty for JAX samplers."""

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


@dataclass(frozen=True)
class PlainTruth:
    """`n_samples` independent samples, or as many as the standard error needs."""

    name: ClassVar[str] = "plain"
    version: ClassVar[int] = 1

    n_samples: SampleCount
    standard_error: StandardError | None = None
    resample: bool = False
    moments: bool = False
    moment_samples: MomentSamples = 2**18

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
    """Rows of one matmul: enough to keep the machine busy, few enough to stay in the CPU's cache."""
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
    """Sums over chunks first…last-1. Each chunk has its own key, so the size of a block changes nothing."""
    key_chunks = jax.random.wrap_key_data(key)
    depth, width, _ = weights.shape

    def add_chunk(index: int, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        x = jax.random.normal(jax.random.fold_in(key_chunks, index), (rows, width), jnp.float32)
        surplus = index * rows + jnp.arange(rows) >= n_samples
        h = jnp.where(surplus[:, None], 0, x)  # without biases a zero row stays zero and adds nothing to a sum
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
