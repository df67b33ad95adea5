"""`truth.moments=true`: moments of every layer's activations beyond the mean, with error bars.

Independent samples are drawn in batches. Each batch gives Fisher's k-statistics, which are unbiased for any size of the
batch; their average over batches is the estimate, and their spread is its standard error. With d the deviations of n
samples from their own mean and S_ij = Σ d_i d_j:

    variances            k_ii    = S_ii/(n−1)
    covariances          k_ij    = S_ij/(n−1)
    covariance_squares   Σ_ij C_ij², from S, its trace and Σ|d|⁴ (Himeno and Yamada, 2014)
    third_cumulants      k_iii   = n·Σ d_i³/((n−1)(n−2))
    third_traces         Σ_j κ_ijj, with d_i·|d|² in place of d_i³
    fourth_cumulants     k_iiii  = n·((n+1)·Σ d_i⁴ − 3(n−1)/n·S_ii²)/((n−1)(n−2)(n−3))
    fourth_traces        Σ_ij κ_iijj, with |d|⁴ in place of d_i⁴ and (tr S)² + 2·Σ S_ij² in place of 3·S_ii²
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt
from pydantic import Field

from whest.mlp import MLP
from whest.truth.truth import BLOCK_FLOPS, BLOCK_SAMPLES, State

MOMENTS_VERSION = 1
"""Rises whenever the numbers drawn change."""

COVARIANCE_BYTES = 2**25
"""Whole covariances are kept up to this size per MLP: 2 MB at 256x8, 8 MB at 256x32. 1024x16 would take 64 MB."""

BATCHES = 16
"""The fewest batches: an error bar is their spread."""

STREAM = np.uint32(2**32 - 2)
"""The index of the key: samplers of the means count theirs from 0, and a pilot has the last."""

MomentSamples = Annotated[int, Field(ge=4 * BATCHES, le=10**9)]
NEURONS = ("variances", "third_cumulants", "third_traces", "fourth_cumulants")
LAYERS = ("covariance_squares", "fourth_traces")
Stats = dict[str, np.ndarray]


def keeps_covariances(width: int, depth: int) -> bool:
    return 4 * depth * width**2 <= COVARIANCE_BYTES


def moment_shapes(width: int, depth: int) -> dict[str, tuple[int, ...]]:
    """The arrays of an MLP's moments by name, as they are stored. `…_se` is the standard error."""
    neurons = {name + end: (depth, width) for name in NEURONS for end in ("", "_se")}
    layers = {name + end: (depth,) for name in LAYERS for end in ("", "_se")}
    whole = {"covariances": (depth, width, width), "covariances_se": (depth,)}
    return neurons | layers | (whole if keeps_covariances(width, depth) else {})


@dataclass(frozen=True)
class LayerMoments:
    """Moments of the activations of every layer. All arrays are float32."""

    n_samples: int
    arrays: Mapping[str, np.ndarray]
    """By the names of `moment_shapes`. `covariances_se` is the root mean square over the entries of a layer."""

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def covariances(self) -> Float[np.ndarray, "depth width width"] | None:
        """None where they would take more than COVARIANCE_BYTES: the summary is left."""
        return self.arrays.get("covariances")

    def to_bytes(self) -> bytes:
        """For digests: the number of samples, and the arrays in the order of their names."""
        parts = [np.ascontiguousarray(self.arrays[name], "<f4").tobytes() for name in sorted(self.arrays)]
        return b"".join([self.n_samples.to_bytes(8, "little"), *parts])


@dataclass(frozen=True)
class RunningMoments:
    """Running float64 sums over batches: of each statistic, and of its square."""

    rows: int
    n_batches: int
    total: Stats
    squares: Stats

    @property
    def n_samples(self) -> int:
        return self.rows * self.n_batches

    def state(self) -> dict[str, np.ndarray]:
        sums = {f"total_{k}": v for k, v in self.total.items()} | {f"squares_{k}": v for k, v in self.squares.items()}
        return {"n_batches": np.asarray(self.n_batches), **sums}

    def moments(self) -> LayerMoments:
        n, arrays = self.n_batches, {}
        for name, total in self.total.items():
            mean = total / n
            square = np.square(mean)
            if name == "covariances":
                square = square.mean(axis=(1, 2))
            arrays[name] = mean
            arrays[f"{name}_se"] = np.sqrt(np.maximum(self.squares[name] / n - square, 0) / (n - 1))
        return LayerMoments(self.n_samples, {name: array.astype(np.float32) for name, array in arrays.items()})


def stream_moments(mlp: MLP, n_samples: int, state: State | None = None) -> Iterator[RunningMoments]:
    """Yield the running sums after each block. With a state, yield it first and continue from it."""
    rows = min(n_samples // BATCHES, max(1024, 2**20 // mlp.width))
    n_batches = -(-n_samples // rows)
    together = max(1, min(BLOCK_SAMPLES, BLOCK_FLOPS // (4 * mlp.width**2 * mlp.depth)) // rows)
    weights, key = jnp.asarray(mlp.weights), jnp.asarray(mlp.key_samples)
    running = _begin(mlp, rows)
    if state is not None:
        running = replace(
            running,
            n_batches=int(state["n_batches"]),
            total={name: state[f"total_{name}"] for name in running.total},
            squares={name: state[f"squares_{name}"] for name in running.squares},
        )
        yield running
    whole = keeps_covariances(mlp.width, mlp.depth)
    while running.n_batches < n_batches:
        last = min(running.n_batches + together, n_batches)
        with jax.enable_x64(True):
            sums = running.total, running.squares
            added = _batch_sums(weights, key, running.n_batches, last, sums, rows=rows, whole=whole)
        total, squares = ({name: np.asarray(v) for name, v in part.items()} for part in added)
        running = RunningMoments(rows, last, total, squares)
        yield running


def _begin(mlp: MLP, rows: int) -> RunningMoments:
    shapes = moment_shapes(mlp.width, mlp.depth)
    names = [name for name in shapes if not name.endswith("_se")]
    total = {name: np.zeros(shapes[name]) for name in names}
    return RunningMoments(rows, 0, total, {name: np.zeros(shapes[f"{name}_se"]) for name in names})


@functools.partial(jax.jit, static_argnames=("rows", "whole"))
def _batch_sums(
    weights: Float[Array, "depth width width"],
    key: UInt[Array, "2"],
    first: int,
    last: int,
    sums: tuple[dict[str, Array], dict[str, Array]],
    *,
    rows: int,
    whole: bool,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The sums with batches first…last-1 added. Each batch has its own key, so the size of a block changes nothing."""
    key_batches = jax.random.fold_in(jax.random.wrap_key_data(key), STREAM)

    def add(index: int, sums: tuple[dict[str, Array], dict[str, Array]]) -> tuple[dict[str, Array], dict[str, Array]]:
        h = jax.random.normal(jax.random.fold_in(key_batches, index), (rows, weights.shape[1]), jnp.float32)
        layers = []
        for w in weights:
            h = jax.nn.relu(jnp.matmul(h, w, precision="highest"))
            layers.append(_statistics(h, whole))
        found = {name: jnp.stack([layer[name] for layer in layers]) for name in layers[0]}
        squares = {name: _squared(name, value) for name, value in found.items()}
        return jax.tree.map(jnp.add, sums[0], found), jax.tree.map(jnp.add, sums[1], squares)

    return jax.lax.fori_loop(first, last, add, sums)


def _squared(name: str, value: Array) -> Array:
    """For the error bar: of a covariance only the mean square of its entries is kept."""
    return jnp.square(value).mean(axis=(1, 2)) if name == "covariances" else jnp.square(value)


def _statistics(h: Float[Array, "row width"], whole: bool) -> dict[str, Array]:
    """The k-statistics of one batch at one layer, in float64."""
    n = len(h)
    wide = h.astype(jnp.float64)
    d = wide - wide.mean(axis=0)
    narrow = d.astype(jnp.float32)
    products = jnp.matmul(narrow.T, narrow, precision="highest").astype(jnp.float64)
    two = jnp.square(d)
    length = two.sum(axis=1)
    own, trace = two.sum(axis=0), length.sum()
    square, fourth = jnp.square(products).sum(), jnp.square(length).sum()
    third = n / ((n - 1) * (n - 2))
    k4: Callable[[Array, Array], Array] = lambda s4, s2: (  # noqa: E731
        n * ((n + 1) * s4 - (n - 1) / n * s2) / ((n - 1) * (n - 2) * (n - 3))
    )
    scale = (n - 1) / (n * (n - 2) * (n - 3))
    second = (n - 1) * (n - 2) * square / (n - 1) ** 2 + trace**2 / (n - 1) ** 2 - n * fourth / (n - 1)
    found = {
        "variances": own / (n - 1),
        "third_cumulants": third * (two * d).sum(axis=0),
        "third_traces": third * (d * length[:, None]).sum(axis=0),
        "fourth_cumulants": k4(jnp.square(two).sum(axis=0), 3 * jnp.square(own)),
        "covariance_squares": scale * second,
        "fourth_traces": k4(fourth, trace**2 + 2 * square),
    }
    return found | ({"covariances": products / (n - 1)} if whole else {})
