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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, PartitionSpec
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, Int8, UInt

from whest.host import multiplies_bfloat16
from whest.truth.designs import haar, mean_radius, walsh_hadamard

FEWEST_ROWS, MOST_ROWS = 256, 2048
"""Rows of a matmul, without their negatives."""

CACHED = 2**16
"""Numbers in those rows, if their bounds allow it: with their negatives, half of a core's own cache of 1 MB."""

Folded = tuple[Float[Array, "replicate size width"], Float[Array, "replicate size width"]]
Sums = tuple[Float[Array, "replicate depth width"], Float[Array, "replicate width"]]


def replicate_mesh() -> Mesh:
    """A mesh of all devices; the replicates are split over it."""
    return jax.make_mesh((jax.device_count(),), ("replicate",), axis_types=(AxisType.Auto,))


def rows_together(size: int) -> int:
    """Rows that go through the network at once, without their negatives: they stay in the cache between two layers."""
    return min(MOST_ROWS, max(FEWEST_ROWS, CACHED // size))


def bases_together(size: int) -> int:
    """The number of bases whose points are made at once. A larger basis goes through the network in pieces."""
    return max(1, min(size // 2, rows_together(size) // size))


@dataclass(frozen=True)
class Surrogate:
    """A cheaper network g that all bases go through in place of f, and how its error is removed.

    Each point of a turned basis is uniform on the sphere. So E f = E g + E (f − g) holds for any bases, and the
    difference can be averaged over a few of them. It is small, hence its variance is small too.
    """

    together: int
    """Bases that go through the network at once: a power of two."""
    n_corrected: int
    """Signed bases, the first ones, that go through both networks. 0 if g is f."""
    weight: float
    """All bases / corrected bases."""
    in_halves: bool
    """Whether the products of g are made in bfloat16."""


class Remaining(NamedTuple):
    """A network without some of its neurons. The first two layers are whole."""

    layers: tuple[Float[Array, "from to"], ...]
    centres: tuple[Float[Array, " from"] | None, ...]
    """What is taken from the inputs of a product, so that little is lost when the rest is rounded; None for nothing."""
    offsets: tuple[Float[Array, " to"] | None, ...]
    """What the means of left-out neurons, and the centres, add to the outputs of a product; None for nothing."""
    places: tuple[Int[Array, " to"] | None, ...]
    """The original places of a layer's neurons; None where all remain."""
    left_out: Float[Array, "depth width"]
    """The mean activation of each neuron that was left out; 0 for the others."""

    def restore(self, sums: Sequence[Array], squares: Array, points: int) -> tuple[Array, Array]:
        """Sums over so many points, with the remaining neurons in their places and the others at their means."""
        whole = points * self.left_out.astype(jnp.float64)
        placed = [_placed(*pair, whole.shape[1]) for pair in zip(sums, self.places, strict=True)]
        others = points * jnp.square(self.left_out[-1].astype(jnp.float64))
        return whole + jnp.stack(placed), others + _placed(squares, self.places[-1], whole.shape[1])


def _placed(total: Float[Array, " to"], place: Int[Array, " to"] | None, width: int) -> Float[Array, " width"]:
    return total if place is None else jnp.zeros(width, total.dtype).at[place].set(total)


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

    return _each_replicate(fold, mesh, max(1, rows_together(size) // size))(indices, weights)


@functools.partial(jax.jit, static_argnames=("with_identity", "mesh", "surrogate", "n_corrected"))
def basis_sums(
    folded: Folded,
    weights: Float[Array, "depth width width"],
    signs: Int8[Array, "basis size"],
    *,
    with_identity: bool,
    mesh: Mesh,
    surrogate: Surrogate | None = None,
    n_corrected: int = 0,
    remaining: Remaining | None = None,
) -> Sums:
    """Sums of activations, and of the last layer's squares, over ± the bases with these signs (and the identity).

    With a surrogate, the first `n_corrected` of these bases carry the correction. `remaining` is its network, if that
    is not the whole one.
    """
    size = folded[0].shape[1]
    together = surrogate.together if surrogate else bases_together(size)
    most_rows = rows_together(size)
    scale = 1 / math.sqrt(size)
    precision = jnp.bfloat16 if surrogate and surrogate.in_halves else jnp.float32

    def one(folded: tuple[Array, Array], layers: Sequence[Array], remaining: Remaining | None = None) -> Sums:
        width = len(layers[0])

        def through(sums: Sums, pair: tuple[Array, Array], corrected: bool) -> tuple[Sums, None]:
            new = _pair_sums(*pair, layers, precision, remaining)
            if corrected and surrogate:
                exact = _pair_sums(*pair, layers)
                new = jax.tree.map(lambda rough, true: rough + surrogate.weight * (true - rough), new, exact)
            return (sums[0] + new[0], sums[1] + new[1]), None

        def in_pieces(sums: Sums, pair: tuple[Array, Array], corrected: bool) -> Sums:
            step, rows = functools.partial(through, corrected=corrected), len(pair[0])
            if rows <= most_rows or rows % most_rows:
                return step(sums, pair)[0]
            return jax.lax.scan(step, sums, tuple(part.reshape(-1, most_rows, width) for part in pair))[0]

        def add(sums: Sums, some: Array, corrected: bool) -> tuple[Sums, None]:
            turn = some.astype(jnp.float32)[:, :, None] * scale
            z, z_next = (walsh_hadamard(turn * part).reshape(-1, width) for part in folded)
            return in_pieces(sums, (z, z_next), corrected), None

        sums: Sums = jnp.zeros((len(layers), width), jnp.float64), jnp.zeros(width, jnp.float64)
        if with_identity:
            sums = in_pieces(sums, folded, False)
        for some, corrected in ((signs[:n_corrected], True), (signs[n_corrected:], False)):
            if len(some):
                step = functools.partial(add, corrected=corrected)
                sums, _ = jax.lax.scan(step, sums, some.reshape(-1, together, size))
        return sums

    rows = together * size if len(signs) else size
    shared = (weights,) if remaining is None else (weights, remaining)
    return _each_replicate(one, mesh, max(1, most_rows // rows))(folded, *shared)


def _each_replicate(function: Callable[..., Any], mesh: Mesh, lanes: int) -> Callable[..., Any]:
    """Map over replicates: sharded across devices, `lanes` at a time on each. Weights and what follows are shared."""

    def share(replicates: Any, weights: Array, *more: Any) -> Any:
        layers = tuple(weights)
        return jax.lax.map(lambda replicate: function(replicate, layers, *more), replicates, batch_size=lanes)

    def mapped(replicates: Any, *shared: Any) -> Any:
        split, same = PartitionSpec("replicate"), PartitionSpec()
        specs = (split, *(same for _ in shared))
        return jax.shard_map(share, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)(replicates, *shared)

    return mapped


def _pair_sums(
    z: Float[Array, "row width"],
    z_next: Float[Array, "row width"],
    layers: Sequence[Float[Array, "width width"]],
    precision: DTypeLike = jnp.float32,
    remaining: Remaining | None = None,
) -> tuple[Float[Array, "depth width"], Float[Array, " width"]]:
    """Activation sums over points and their negatives. z is the first pre-activation at the points, z_next is z·W₂.

    With `remaining`, from layer 3 on they are those of the network without the left-out neurons.

    `precision` is that of a product's factors. Its sums, and everything else, stay float32. A processor without
    instructions for bfloat16 multiplies the rounded factors in float32, which is faster than its own emulation.
    """
    kept = precision if precision == jnp.float32 or multiplies_bfloat16() else jnp.float32

    def factor(x: Array) -> Array:
        if kept == precision:
            return x.astype(precision)
        return as_half(x)

    def times(h: Array, w: Array) -> Array:
        return jnp.matmul(factor(h), factor(w), precision="highest", preferred_element_type=jnp.float32)

    on = jax.nn.relu(z)
    sums = [_column_sums(jnp.abs(z))]
    h = jnp.concatenate([on, on - z])
    if len(layers) > 1:
        through = times(on, layers[1])
        h = jax.nn.relu(jnp.concatenate([through, through - z_next]))
        sums.append(_column_sums(h))
    if remaining is None:
        for w in layers[2:]:
            h = jax.nn.relu(times(h, w))
            sums.append(_column_sums(h))
        return jnp.stack(sums), _column_sums(h * h)
    for w, centre, offset in zip(remaining.layers[2:], remaining.centres[2:], remaining.offsets[2:], strict=True):
        z = times(h if centre is None else h - centre, w)
        h = jax.nn.relu(z if offset is None else z + offset)
        sums.append(_column_sums(h))
    return remaining.restore(sums, _column_sums(h * h), len(h))


def as_half(x: Array) -> Array:
    """Rounded to bfloat16, and still in its own type."""
    return jax.lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


def _column_sums(h: Float[Array, "row width"]) -> Float[Array, " width"]:
    """Sums over rows: float32 over the rows that go through the network at once, and float64 from there."""
    return h.sum(0).astype(jnp.float64)
