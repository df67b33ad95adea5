"""Sums of activations over points: shared by all samplers.

Layers are a list of matrices. They may be rectangular, because pruned ones are. `matmul` may be any product, e.g.
Strassen's. Points come in pairs ±x that share work: relu(−z) = relu(z) − z, so relu(−z)·W₂ = relu(z)·W₂ − z·W₂.
The products h_i·h_j of one layer can be summed too (`Squared`): this matrix is the last of the sums.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Matmul = Callable[[Float[Array, "m k"], Float[Array, "k n"]], Float[Array, "m n"]]
Layers = Sequence[Float[Array, "from to"]]
Sums = list[Float[Array, "..."]]
"""One vector per layer: activations summed over points. A matrix at the end has the sums of products."""


Offsets = Sequence[Float[Array, " to"] | None]
"""What is added to each layer's inputs, if anything: the mean contribution of neurons that were left out."""


class Squared(NamedTuple):
    """The layer whose products h_i·h_j are summed, and the function that sums them: hᵀ·h."""

    layer: int
    """Its place in the list of layers at hand."""
    squares: Callable[[Float[Array, "row to"]], Float[Array, "to to"]]

    def of(self, place: int, h: Float[Array, "row to"]) -> list[Float[Array, "to to"]]:
        """The sum if this is the layer, and nothing if not."""
        return [self.squares(h)] if place == self.layer else []

    def after(self, layers: int) -> "Squared":
        """The same layer in a list without the first `layers`."""
        return self._replace(layer=self.layer - layers)


def add(left: Sums, right: Sums) -> Sums:
    return [a + b for a, b in zip(left, right, strict=True)]


def nothing(layers: Layers, squared: Squared | None = None) -> Sums:
    sums = [jnp.zeros(w.shape[1], w.dtype) for w in layers]
    return sums if squared is None else [*sums, jnp.zeros((len(sums[squared.layer]),) * 2, sums[0].dtype)]


def repeat(
    layers: Layers,
    times: int,
    sums_of: Callable[[Array], Sums],
    inputs: Array | None = None,
    squared: Squared | None = None,
) -> Sums:
    """The total over `times` rounds of a loop. Each round gets its index, or its part of the inputs."""
    rounds = jnp.arange(times) if inputs is None else inputs
    start = nothing(layers, squared)
    total, _ = jax.lax.scan(lambda sums, item: (add(sums, sums_of(item)), None), start, rounds, length=times)
    return total


def point_sums(
    h: Float[Array, "row from"],
    layers: Layers,
    matmul: Matmul = jnp.matmul,
    squared: Squared | None = None,
    offsets: Offsets = (),
) -> Sums:
    """Activations of each layer, summed over the rows of h."""
    sums, products = [], []

    def step(h: Array, layer: tuple[Array, Array | None]) -> tuple[Array, Array]:
        w, offset = layer
        z = matmul(h, w)
        h = jax.nn.relu(z if offset is None else z + offset)
        return h, h.sum(axis=0)

    known = offsets or [None] * len(layers)
    for alike in runs([(w.shape, known[place] is None) for place, w in enumerate(layers)], squared):
        some = [(layers[place], known[place]) for place in alike]
        h, found = in_turn(step, h, some)
        sums += list(found)
        products += squared.of(alike[-1], h) if squared else []
    return sums + products


def runs(kinds: Sequence[tuple[tuple[int, ...], bool]], squared: Squared | None) -> list[range]:
    """The places of neighbouring square layers of one kind; a layer whose products are summed ends a run.

    A kind is the shape and whether there is an offset.
    """
    ends = [place for place in range(1, len(kinds)) if kinds[place] != kinds[place - 1]]
    ends += [end for place, ((m, n), _) in enumerate(kinds) if m != n for end in (place, place + 1)]
    if squared is not None:
        ends.append(squared.layer + 1)
    cuts = sorted({0, *(end for end in ends if end < len(kinds)), len(kinds)})
    return [range(*pair) for pair in pairwise(cuts)]


def in_turn(step: Callable[[Array, Any], tuple[Array, Any]], h: Array, layers: Sequence[Any]) -> tuple[Array, Any]:
    """A step for each of several layers of one kind, in a loop: it is compiled once. Its findings are stacked."""
    if len(layers) == 1:
        h, found = step(h, layers[0])
        return h, jax.tree.map(lambda x: x[None], found)
    return jax.lax.scan(step, h, jax.tree.map(lambda *parts: jnp.stack(parts), *layers))


def pair_sums(
    z: Float[Array, "row to"],
    deeper: Layers,
    matmul: Matmul = jnp.matmul,
    z_next: Float[Array, "row next"] | None = None,
    squared: Squared | None = None,
    offsets: Offsets = (),
) -> Sums:
    """Activation sums over points and their negatives. z is the first layer's pre-activation at the points.

    z_next is z times the second weights, if there is a cheaper way to get it than a product. The layer of `squared` is
    the third or a deeper one; `offsets` are those of the deeper layers, with none for the second.
    """
    assert squared is None or squared.layer >= 2, "the products of the first two layers are not summed"
    assert not offsets or offsets[0] is None, "the first layer is whole"
    on = jax.nn.relu(z)
    first = jnp.abs(z).sum(axis=0)  # relu(z) + relu(−z)
    if not deeper or z_next is None:
        rest = squared and squared.after(1)
        return [first, *point_sums(jnp.concatenate([on, on - z]), deeper, matmul, rest, offsets)]
    through = matmul(on, deeper[0])
    h = jax.nn.relu(jnp.concatenate([through, through - z_next]))
    return [first, h.sum(axis=0), *point_sums(h, deeper[1:], matmul, squared and squared.after(2), offsets[1:])]
