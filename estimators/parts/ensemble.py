"""Sums of activations over points: shared by all samplers.

Layers are a list of matrices. They may be rectangular, because pruned ones are. `matmul` may be any product, e.g.
Strassen's. Points come in pairs ±x that share work: relu(−z) = relu(z) − z, so relu(−z)·W₂ = relu(z)·W₂ − z·W₂.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Matmul = Callable[[Float[Array, "m k"], Float[Array, "k n"]], Float[Array, "m n"]]
Layers = Sequence[Float[Array, "from to"]]
Sums = list[Float[Array, " to"]]
"""One vector per layer: activations summed over points."""


def add(left: Sums, right: Sums) -> Sums:
    return [a + b for a, b in zip(left, right, strict=True)]


def nothing(layers: Layers) -> Sums:
    return [jnp.zeros(w.shape[1], w.dtype) for w in layers]


def repeat(layers: Layers, times: int, sums_of: Callable[[Array], Sums], inputs: Array | None = None) -> Sums:
    """The total over `times` rounds of a loop. Each round gets its index, or its part of the inputs."""
    rounds = jnp.arange(times) if inputs is None else inputs
    total, _ = jax.lax.scan(lambda sums, item: (add(sums, sums_of(item)), None), nothing(layers), rounds, length=times)
    return total


def point_sums(h: Float[Array, "row from"], layers: Layers, matmul: Matmul = jnp.matmul) -> Sums:
    """Activations of each layer, summed over the rows of h."""
    sums = []
    for w in layers:
        h = jax.nn.relu(matmul(h, w))
        sums.append(h.sum(axis=0))
    return sums


def pair_sums(
    z: Float[Array, "row to"],
    deeper: Layers,
    matmul: Matmul = jnp.matmul,
    z_next: Float[Array, "row next"] | None = None,
) -> Sums:
    """Activation sums over points and their negatives. z is the first layer's pre-activation at the points.

    z_next is z times the second weights, if there is a cheaper way to get it than a product.
    """
    on = jax.nn.relu(z)
    first = jnp.abs(z).sum(axis=0)  # relu(z) + relu(−z)
    if not deeper or z_next is None:
        return [first, *point_sums(jnp.concatenate([on, on - z]), deeper, matmul)]
    through = matmul(on, deeper[0])
    h = jax.nn.relu(jnp.concatenate([through, through - z_next]))
    return [first, h.sum(axis=0), *point_sums(h, deeper[1:], matmul)]
