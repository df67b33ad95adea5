"""`truth=fast`: randomly turned spherical designs with a control variate, several times less variance a sample.

A replicate is one Haar rotation Q of a fixed point set (see `whest.designs`): a full Kerdock design where the number of
samples affords eight of them, else a few orthogonal bases. Replicates are independent, so their spread gives the
standard error. Q is folded into the first weights, so layer 1 is a Walsh–Hadamard transform, and ± pairs share work:
relu(−z) = relu(z) − z, hence relu(−z)·W₂ = relu(z)·W₂ − z·W₂, whose last term is a transform again.

The chain: E h₁ = ‖w‖/√(2π) is known exactly, and what h₁'s sampled mean misses is carried to deeper layers by
J = ∏ W_l·diag(Φ_l), with Φ_l (how often a neuron is on) from an independent pilot: unbiased whatever Φ is.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt

from whest.designs import design_size, kerdock_signs, mean_radius
from whest.mlp import MLP
from whest.truth import BLOCK_SAMPLES, SampleCount, Truth

ROWS = 2048
"""Rows of a matmul before they are doubled by their negatives."""
FULL_DESIGN_REPLICATES = 8
PARTIAL_REPLICATES = 16
PILOT = np.uint32(2**32 - 1)
"""The pilot's key index; replicates count from zero."""


@dataclass(frozen=True)
class Replicates:
    """Running float64 sums over independent replicates of the mean activations."""

    n_replicates: int
    points: int
    """Forward evaluations a replicate."""
    total: Float[np.ndarray, "depth width"]
    total_squares: Float[np.ndarray, "depth width"]
    total_second_moment: Float[np.ndarray, " width"]
    """Of the final layer, for a Gaussian input."""
    first_layer: Float[np.ndarray, " width"]

    @property
    def n_samples(self) -> int:
        return self.n_replicates * self.points

    def plus(
        self, means: Float[np.ndarray, "replicate depth width"], second_moments: Float[np.ndarray, "replicate width"]
    ) -> "Replicates":
        return Replicates(
            self.n_replicates + len(means),
            self.points,
            self.total + means.sum(axis=0),
            self.total_squares + np.square(means).sum(axis=0),
            self.total_second_moment + second_moments.sum(axis=0),
            self.first_layer,
        )

    def truth(self) -> Truth:
        n = self.n_replicates
        means = self.total / n
        spread = np.maximum(self.total_squares / n - means**2, 0)
        errors = np.sqrt(spread / max(n - 1, 1))
        means[0], errors[0] = self.first_layer, 0.0
        variance = float(np.mean(self.total_second_moment / n - means[-1] ** 2))
        return Truth(means.astype(np.float32), errors.astype(np.float32), variance, self.n_samples, n)


@dataclass(frozen=True)
class Plan:
    """How a number of samples is laid out."""

    size: int
    """Dimension of the point set: the width, or the next larger one that has a design."""
    n_signed: int
    """Hadamard bases beside the identity."""
    n_replicates: int

    @property
    def points(self) -> int:
        return 2 * self.size * (1 + self.n_signed)


def plan(width: int, n_samples: int) -> Plan:
    """A full design if eight replicates are affordable, else bases of it, else the width's own identity basis."""
    size = design_size(width)
    if size is not None:
        full, batch = size // 2, max(1, ROWS // size)
        if n_samples >= FULL_DESIGN_REPLICATES * 2 * size * (1 + full):
            return _filled(size, full, n_samples)
        if n_samples >= PARTIAL_REPLICATES * 2 * size * (1 + batch):
            return _filled(size, min(batch, full), n_samples)
    return _filled(width, 0, n_samples)


def _filled(size: int, n_signed: int, n_samples: int) -> Plan:
    points = 2 * size * (1 + n_signed)
    return Plan(size, n_signed, max(2, math.ceil(n_samples / points)))


@dataclass(frozen=True)
class FastTruth:
    """Randomly rotated designs; `n_samples` is rounded up to whole replicates, two at least."""

    name: ClassVar[str] = "fast"
    version: ClassVar[int] = 1

    n_samples: SampleCount
    resample: bool = False

    def stream(self, mlp: MLP) -> Iterator[Replicates]:
        layout = plan(mlp.width, self.n_samples)
        weights, key = jnp.asarray(mlp.weights), jnp.asarray(mlp.key_samples)
        signs = jnp.asarray(kerdock_signs(layout.size)[: layout.n_signed]) if layout.n_signed else None
        first_layer = np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0) / math.sqrt(2 * math.pi)
        gains = _pilot_gains(weights, key, PILOT)
        zeros = np.zeros((mlp.depth, mlp.width))
        running = Replicates(0, layout.points, zeros, zeros, zeros[0], first_layer)
        together = max(1, min(layout.n_replicates, BLOCK_SAMPLES // layout.points))
        for first in range(0, layout.n_replicates, together):
            indices = np.arange(first, first + together, dtype=np.uint32)
            with jax.enable_x64(True):
                sums, squares = _replicates(weights, key, indices, signs, size=layout.size)
            drawn = min(together, layout.n_replicates - first)
            means = _with_chain(np.asarray(sums)[:drawn] / layout.points, first_layer, mlp.weights, np.asarray(gains))
            to_gaussian = layout.size / mean_radius(layout.size) ** 2
            running = running.plus(means, np.asarray(squares)[:drawn] / layout.points * to_gaussian)
            yield running


def _with_chain(
    means: Float[np.ndarray, "replicate depth width"],
    first_layer: Float[np.ndarray, " width"],
    weights: Float[np.ndarray, "depth width width"],
    gains: Float[np.ndarray, "depth width"],
) -> Float[np.ndarray, "replicate depth width"]:
    """Carry what the first layer's sampled mean misses through the network."""
    missing = first_layer - means[:, 0]
    corrected = [means[:, 0] + missing]
    for layer in range(1, len(weights)):
        missing = (missing @ weights[layer]) * gains[layer]
        corrected.append(means[:, layer] + missing)
    return np.stack(corrected, axis=1)


@jax.jit
def _pilot_gains(
    weights: Float[Array, "depth width width"], key: UInt[Array, "2"], index: Array
) -> Float[Array, "depth width"]:
    """How often each neuron is on, from samples that nothing else uses."""
    h = jax.random.normal(
        jax.random.fold_in(jax.random.wrap_key_data(key), index), (ROWS, weights.shape[1]), jnp.float32
    )
    gains = []
    for w in weights:
        h = jax.nn.relu(h @ w)
        gains.append((h > 0).mean(0))
    return jnp.stack(gains)


@functools.partial(jax.jit, static_argnames="size")
def _replicates(
    weights: Float[Array, "depth width width"],
    key: UInt[Array, "2"],
    indices: UInt[Array, " replicate"],
    signs: Array | None,
    *,
    size: int,
) -> tuple[Float[Array, "replicate depth width"], Float[Array, "replicate width"]]:
    """Several replicates at once, where one alone would leave the machine idle."""
    return jax.vmap(lambda index: _replicate(weights, key, index, signs, size))(indices)


def _replicate(
    weights: Float[Array, "depth width width"],
    key: UInt[Array, "2"],
    index: Array,
    signs: Array | None,
    size: int,
) -> tuple[Float[Array, "depth width"], Float[Array, " width"]]:
    """Sums over all points of one replicate, and the final layer's sum of squares."""
    depth, width, _ = weights.shape
    key_rotation = jax.random.fold_in(jax.random.wrap_key_data(key), index)
    rotation = _haar(key_rotation, size)[:, :width]
    folded = mean_radius(size) * jnp.matmul(rotation, weights[0], precision="highest")
    twice_folded = jnp.matmul(folded, weights[1], precision="highest") if depth > 1 else folded
    sums = _pair_sums(folded, twice_folded, weights)
    if signs is None:
        return sums
    batch = min(len(signs), max(1, ROWS // size))
    scale = 1 / math.sqrt(size)

    def add_batch(sums: tuple[Array, Array], c: Array) -> tuple[tuple[Array, Array], None]:
        turned = c.astype(jnp.float32)[:, :, None] * scale
        z = walsh_hadamard(turned * folded).reshape(batch * size, width)
        z_next = walsh_hadamard(turned * twice_folded).reshape(batch * size, width)
        new = _pair_sums(z, z_next, weights)
        return (sums[0] + new[0], sums[1] + new[1]), None

    sums, _ = jax.lax.scan(add_batch, sums, signs.reshape(-1, batch, size))
    return sums


def _pair_sums(
    z: Float[Array, "row width"], z_next: Float[Array, "row width"], weights: Float[Array, "depth width width"]
) -> tuple[Float[Array, "depth width"], Float[Array, " width"]]:
    """Activation sums over the points behind z and their negatives; z_next is z through the second weights."""
    on = jax.nn.relu(z)
    sums = [jnp.abs(z).astype(jnp.float64).sum(0)]
    h = jnp.concatenate([on, on - z])
    if len(weights) > 1:
        through = jnp.matmul(on, weights[1], precision="highest")
        h = jax.nn.relu(jnp.concatenate([through, through - z_next]))
        sums.append(h.astype(jnp.float64).sum(0))
    for w in weights[2:]:
        h = jax.nn.relu(jnp.matmul(h, w, precision="highest"))
        sums.append(h.astype(jnp.float64).sum(0))
    wide = h.astype(jnp.float64)
    return jnp.stack(sums), (wide * wide).sum(0)


def walsh_hadamard(v: Float[Array, "batch n width"]) -> Float[Array, "batch n width"]:
    """Sylvester's transform along the middle axis, unnormalised."""
    batch, n, width = v.shape
    step = 1
    while step < n:
        v = v.reshape(batch, n // (2 * step), 2, step, width)
        even, odd = v[:, :, :1], v[:, :, 1:]
        v = jnp.concatenate([even + odd, even - odd], axis=2).reshape(batch, n, width)
        step *= 2
    return v


def _haar(key: Array, n: int) -> Float[Array, "n n"]:
    """A uniformly random rotation: Q of a Gaussian matrix's QR, signs fixed by R's diagonal."""
    q, r = jnp.linalg.qr(jax.random.normal(key, (n, n), jnp.float32))
    return q * jnp.sign(jnp.diagonal(r))
