"""Sums of a network's activations over randomly turned point sets: the arithmetic behind `truth=fast`.

A replicate is one Haar rotation Q of a fixed point set (`whest.truth.designs`). Q is folded into the first weights, so
layer 1 on a basis H·diag(c)/√n is a Walsh–Hadamard transform. Points come in pairs ±x that share work:
relu(−z) = relu(z) − z, so relu(−z)·W₂ = relu(z)·W₂ − z·W₂, and the last term is a transform too. Only the deeper layers
need matmuls. Replicates are independent, so each device computes its own share of them.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, PartitionSpec
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int8, UInt

from whest.host import multiplies_bfloat16
from whest.truth.designs import haar, mean_radius, walsh_hadamard

ROWS = 2048
"""Rows of a matmul, without their negatives: enough to keep the machine busy, few enough to stay in the CPU's cache."""

SUM_GROUPS, WIDE_SUM_GROUPS = 32, 8
"""Sums are float32 over rows/32 or rows/8 terms and float64 after that: nearly the speed of float32, less rounding."""

WIDE = 512
"""From this width on, sums over rows are made as products: a reduction took a quarter of the time at 1024."""

CORRECTED_SHARE = 16
"""One basis in 16 is multiplied in float32 too, if the others are multiplied in bfloat16."""

Folded = tuple[Float[Array, "replicate size width"], Float[Array, "replicate size width"]]
Sums = tuple[Float[Array, "replicate depth width"], Float[Array, "replicate width"]]


def replicate_mesh() -> Mesh:
    """A mesh of all devices; the replicates are split over it."""
    return jax.make_mesh((jax.device_count(),), ("replicate",), axis_types=(AxisType.Auto,))


def bases_together(size: int) -> int:
    """The number of bases that go through the network at once."""
    return max(1, min(size // 2, ROWS // size))


@dataclass(frozen=True)
class Halves:
    """Bases multiplied in bfloat16, and how their error is removed.

    Each point of a turned basis is uniform on the sphere. So E f = E f₁₆ + E (f − f₁₆) holds for any bases, and the
    difference can be averaged over a few of them. It is small, hence its variance is small too.
    """

    together: int
    """Bases that go through the network at once: a power of two, at most an eighth of all."""
    n_corrected: int
    """Signed bases, the first ones, that go through the network in both precisions."""
    weight: float
    """All bases / corrected bases."""


def plan_halves(size: int, n_signed: int) -> Halves | None:
    """None if there are too few bases to split."""
    if n_signed < 8:
        return None
    together = min(bases_together(size), 2 ** int(math.log2(n_signed // 8)))
    n_corrected = together * -(-n_signed // (together * CORRECTED_SHARE))
    return Halves(together, n_corrected, (1 + n_signed) / n_corrected)


@functools.partial(jax.jit, static_argnames=("size", "mesh"))
def fold_rotations(
    weights: Float[Array, "depth width width"],
    key: UInt[Array, "2"],
    indices: UInt[Array, " replicate"],
    *,
    size: int,
    mesh: Mesh,
) -> Folded:
    """Each replicate's rotation (scaled to the mean radius) times the first weights, and this times the second."""

    def fold(index: Array, layers: Sequence[Array]) -> tuple[Array, Array]:
        key_rotation = jax.random.fold_in(jax.random.wrap_key_data(key), index)
        rotation = haar(key_rotation, size)[:, : len(layers[0])]
        folded = mean_radius(size) * jnp.matmul(rotation, layers[0], precision="highest")
        return folded, jnp.matmul(folded, layers[1], precision="highest") if len(layers) > 1 else folded

    return _each_replicate(fold, mesh, max(1, ROWS // size))(indices, weights)


@functools.partial(jax.jit, static_argnames=("with_identity", "mesh", "halves", "n_corrected"))
def basis_sums(
    folded: Folded,
    weights: Float[Array, "depth width width"],
    signs: Int8[Array, "basis size"],
    *,
    with_identity: bool,
    mesh: Mesh,
    halves: Halves | None = None,
    n_corrected: int = 0,
) -> Sums:
    """Sums of activations, and of the last layer's squares, over ± the bases with these signs (and the identity).

    With `halves`, products are made in bfloat16 and the first `n_corrected` of these bases carry the correction.
    """
    size = folded[0].shape[1]
    together = halves.together if halves else bases_together(size)
    scale = 1 / math.sqrt(size)
    precision = jnp.bfloat16 if halves else jnp.float32

    def one(folded: tuple[Array, Array], layers: Sequence[Array]) -> tuple[Array, Array]:
        width = len(layers[0])

        def add(sums: Sums, some: Array, corrected: bool) -> tuple[Sums, None]:
            turn = some.astype(jnp.float32)[:, :, None] * scale
            z, z_next = (walsh_hadamard(turn * part).reshape(-1, width) for part in folded)
            new = _pair_sums(z, z_next, layers, precision)
            if corrected and halves:
                exact = _pair_sums(z, z_next, layers)
                new = jax.tree.map(lambda rough, true: rough + halves.weight * (true - rough), new, exact)
            return (sums[0] + new[0], sums[1] + new[1]), None

        start = jnp.zeros((len(layers), width), jnp.float64), jnp.zeros(width, jnp.float64)
        sums = _pair_sums(*folded, layers, precision) if with_identity else start
        for some, corrected in ((signs[:n_corrected], True), (signs[n_corrected:], False)):
            if len(some):
                step = functools.partial(add, corrected=corrected)
                sums, _ = jax.lax.scan(step, sums, some.reshape(-1, together, size))
        return sums

    rows = together * size if len(signs) else size
    return _each_replicate(one, mesh, max(1, ROWS // rows))(folded, weights)


def _each_replicate(
    function: Callable[[Any, Sequence[Array]], Any], mesh: Mesh, lanes: int
) -> Callable[[Any, Float[Array, "depth width width"]], Any]:
    """Map over replicates: sharded across devices, `lanes` at a time on each."""

    def share(replicates: Any, weights: Array) -> Any:
        layers = tuple(weights)
        return jax.lax.map(lambda replicate: function(replicate, layers), replicates, batch_size=lanes)

    split = PartitionSpec("replicate")
    return jax.shard_map(share, mesh=mesh, in_specs=(split, PartitionSpec()), out_specs=split, check_vma=False)


def _pair_sums(
    z: Float[Array, "row width"],
    z_next: Float[Array, "row width"],
    layers: Sequence[Float[Array, "width width"]],
    precision: DTypeLike = jnp.float32,
) -> tuple[Float[Array, "depth width"], Float[Array, " width"]]:
    """Activation sums over points and their negatives. z is the first pre-activation at the points, z_next is z·W₂.

    `precision` is that of a product's factors. Its sums, and everything else, stay float32. A processor without
    instructions for bfloat16 multiplies the rounded factors in float32, which is faster than its own emulation.
    """
    kept = precision if precision == jnp.float32 or multiplies_bfloat16() else jnp.float32

    def factor(x: Array) -> Array:
        if kept == precision:
            return x.astype(precision)
        return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)

    def times(h: Array, w: Array) -> Array:
        return jnp.matmul(factor(h), factor(w), precision="highest", preferred_element_type=jnp.float32)

    on = jax.nn.relu(z)
    sums = [_column_sums(jnp.abs(z))]
    h = jnp.concatenate([on, on - z])
    if len(layers) > 1:
        through = times(on, layers[1])
        h = jax.nn.relu(jnp.concatenate([through, through - z_next]))
        sums.append(_column_sums(h))
    for w in layers[2:]:
        h = jax.nn.relu(times(h, w))
        sums.append(_column_sums(h))
    return jnp.stack(sums), _column_sums(h * h)


def _column_sums(h: Float[Array, "row width"]) -> Float[Array, " width"]:
    """Sums over rows. A product with ones reads wide rows in a better order than a reduction does on a CPU."""
    rows, width = h.shape
    if width >= WIDE and rows % WIDE_SUM_GROUPS == 0:
        groups = jnp.repeat(jnp.eye(WIDE_SUM_GROUPS, dtype=jnp.float32), rows // WIDE_SUM_GROUPS, axis=1)
        h = jnp.matmul(groups, h, precision="highest")
    elif rows % SUM_GROUPS == 0:
        h = h.reshape(-1, SUM_GROUPS, width).sum(0)
    return h.astype(jnp.float64).sum(0)
