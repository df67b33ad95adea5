"""The Laplacian Δe of matrix_core's answer e in the input's mean: exact, by n tangents of the whole state.

    python benchmarks/laplacian.py check 64 4      # against second differences in float64, for width and depth
    python benchmarks/laplacian.py pairs 64 4      # what each pair of first derivatives adds to Δe − e
    python benchmarks/laplacian.py merge 64 4 6    # the error of e + a(Δe − e) on so many networks of no suite

A layer maps its state y (means, covariance, legs of the sources, core) to y' = F(y). With ∂_k the derivative in
component k of the input's mean, the Laplacian of every number in the state follows from layer to layer:
    ∂_k y' = F'·∂_k y,      Δy' = F'·Δy + Σ_k F''[∂_k y, ∂_k y].
This is the oracle for any cheaper form. It holds n³ numbers per matrix and costs about 2n chains. docs/frontier.md,
section 6, has the results. Each took two to six minutes at 64x4 on two busy cores, much of it for compiling.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from training import networks, plus_minus

from estimators.matrix_core import CORE_SHRINK, TERMS, MatrixCore
from estimators.parts.cumulant_chain import State, last_mean, layer
from estimators.parts.cumulants import Square
from estimators.parts.sources import Source, Sources
from estimators.parts.strassen import Strassen
from estimators.parts.wick import Vector
from whest.truth.fast import FastTruth

PRODUCT, CHUNK, SEED = Strassen(0), 16, 6170
Weights = Float[np.ndarray, "depth width width"]
SHARE = 1 / 6
"""a = 1/(2q) for an error with q = 3 factors of the covariance (section 6)."""


class Values(NamedTuple):
    """What a layer passes on. The first derivatives have the same form, with a direction in front."""

    mean: Vector
    covariance: Square | None = None
    b: Square | None = None
    sources: tuple[Source, ...] = ()


class Jet(NamedTuple):
    value: Values
    first: Values
    laplacian: Values


Step = Callable[[Square, Values], Values]
Group = tuple[str, ...]
GROUPS: dict[str, Group] = {"moments": ("mean", "covariance"), "core": ("b",), "legs": ("sources",)}


def hidden(w: Square, values: Values) -> Values:
    n = len(w)
    core = MatrixCore(1 - CORE_SHRINK / n, True, 0, values.b)
    state = layer(State(values.mean, values.covariance, Sources(values.sources), core), w, TERMS, 0, PRODUCT)
    assert isinstance(state.third, Sources)
    assert isinstance(state.core, MatrixCore)
    return Values(state.mean, state.covariance, state.core.b, state.third.items)


def final(w: Square, values: Values) -> Values:
    core = MatrixCore(1 - CORE_SHRINK / len(w), True, 0, values.b)
    return Values(last_mean(State(values.mean, values.covariance, Sources(values.sources), core), w, PRODUCT))


def steps(weights: Weights) -> list[tuple[Step, Square]]:
    return [(final if i == len(weights) - 1 else hidden, jnp.asarray(w.T)) for i, w in enumerate(weights)]


def answer(weights: Weights, mean: Vector) -> Vector:
    """The last layer's means by the plain chain, for a Gaussian input with this mean and the covariance I."""
    values = Values(mean)
    for step, w in steps(weights):
        values = jax.jit(step)(w, values)
    return values.mean


@partial(jax.jit, static_argnums=0)
def along(step: Step, w: Square, value: Values, first: Values) -> Values:
    """F'·∂y for one direction."""
    return jax.jvp(lambda y: step(w, y), (value,), (first,))[1]


def curved(step: Step, w: Square, value: Values, first: Values) -> Values:
    """F''[∂y, ∂y] for one direction."""
    return jax.jvp(lambda y: along(step, w, y, first), (value,), (first,))[1]


@partial(jax.jit, static_argnums=0)
def each_along(step: Step, w: Square, value: Values, first: Values) -> Values:
    """F'·∂_k y for every direction of `first`."""
    return jax.vmap(lambda one: along(step, w, value, one))(first)


@partial(jax.jit, static_argnums=0)
def sum_curved(step: Step, w: Square, value: Values, first: Values) -> Values:
    """Σ_k F''[∂_k y, ∂_k y] over the directions of `first`."""
    return jax.tree.map(lambda x: x.sum(0), jax.vmap(lambda one: curved(step, w, value, one))(first))


def add(x: Values, y: Values, weight: float = 1) -> Values:
    return jax.tree.map(lambda a, b: a + weight * b, x, y)


def bent(step: Step, w: Square, value: Values, first: Values) -> Values:
    """`sum_curved` over all directions, some at a time."""
    chunks = [jax.tree.map(lambda x: x[i : i + CHUNK], first) for i in range(0, len(first.mean), CHUNK)]  # noqa: B023
    found = sum_curved(step, w, value, chunks[0])
    for chunk in chunks[1:]:
        found = add(found, sum_curved(step, w, value, chunk))
    return found


def only(first: Values, names: Group) -> Values:
    """The first derivatives of these parts of the state, zero for the others."""
    zero = jax.tree.map(jnp.zeros_like, first)
    return first._replace(**{name: getattr(zero, name) for name in Values._fields if name not in names})


def pair(step: Step, w: Square, jet: Jet, left: Group, right: Group) -> Values:
    """What the products of these derivatives add: Σ_k F''[∂_k left, ∂_k right], twice if the two differ."""
    both = bent(step, w, jet.value, only(jet.first, (*left, *right)))
    if left == right:
        return both
    apart = (bent(step, w, jet.value, only(jet.first, part)) for part in (left, right))
    return add(add(both, next(apart), -1), next(apart), -1)


def laplacian(weights: Weights, dropped: tuple[Group, Group] | None = None) -> Jet:
    """The answer, its gradient and its Laplacian, optionally without one pair of first derivatives."""
    n = weights.shape[1]
    jet = Jet(Values(jnp.zeros(n)), Values(jnp.eye(n)), Values(jnp.zeros(n)))
    for step, w in steps(weights):
        value, first, second = jet
        change = add(along(step, w, value, second), bent(step, w, value, first))
        if dropped is not None:
            change = add(change, pair(step, w, jet, *dropped), -1)
        chunks = [jax.tree.map(lambda x: x[i : i + CHUNK], first) for i in range(0, n, CHUNK)]  # noqa: B023
        moved = [each_along(step, w, value, chunk) for chunk in chunks]
        jet = Jet(jax.jit(step)(w, value), jax.tree.map(lambda *x: jnp.concatenate(x), *moved), change)
    return jet


def differences(weights: Weights, size: float = 0.08) -> Vector:
    """Δe by 2n second differences, with Richardson's step from two sizes."""
    n = weights.shape[1]
    middle = answer(weights, jnp.zeros(n))

    def at(size: float) -> Vector:
        ends = (answer(weights, sign * size * direction) for direction in jnp.eye(n) for sign in (1, -1))
        return (sum(ends, -2 * n * middle)) / size**2

    return (4 * at(size / 2) - at(size)) / 3


def drawn(width: int, depth: int) -> Weights:
    scale = np.sqrt(2 / width)
    return scale * np.random.default_rng(SEED).standard_normal((depth, width, width))


def check(width: int, depth: int) -> None:
    weights = drawn(width, depth)
    jet, found = laplacian(weights), differences(weights)
    gap = jet.laplacian.mean - jet.value.mean
    wrong = jnp.linalg.norm(jet.laplacian.mean - found) / jnp.linalg.norm(gap)
    print(f"{width}x{depth}: rms of Δe − e {jnp.sqrt(jnp.mean(gap**2)):.3g}, difference of both ways {wrong:.2g} of it")


def pairs(width: int, depth: int) -> None:
    weights = drawn(width, depth)
    jet = laplacian(weights)
    size = jnp.linalg.norm(jet.laplacian.mean - jet.value.mean)
    print(f"| left out, {width}x{depth} | change of Δe, in units of Δe − e |\n|---|---|")
    names = list(GROUPS)
    for left, right in ((a, b) for i, a in enumerate(names) for b in names[i:]):
        less = laplacian(weights, (GROUPS[left], GROUPS[right])).laplacian.mean
        print(f"| {left} × {right} | {jnp.linalg.norm(less - jet.laplacian.mean) / size:.3f} |", flush=True)


def merge(width: int, depth: int, number: int) -> None:
    nets = networks(width, depth, SEED, number, FastTruth(2, standard_error=1e-4))
    rows: dict[str, list[float]] = {
        "e, Gaussian input": [],
        "Δe": [],
        "e + (Δe − e)/6": [],
        "e + a(Δe − e), best a": [],
    }
    shares = []
    for net in nets:
        jet = laplacian(net.weights.astype(np.float64))
        e, gap = np.asarray(jet.value.mean), np.asarray(jet.laplacian.mean - jet.value.mean)
        best = float((net.means - e) @ gap / (gap @ gap))
        shares.append(best)
        for row, share in zip(rows.values(), (0, 1, SHARE, best), strict=True):
            row.append(net.error(e + share * gap))
    print(f"| {width}x{depth}, {number} networks | raw MSE |\n|---|---|")
    for label, errors in rows.items():
        print(f"| {label} | {plus_minus(np.array(errors))} |")
    print(f"best a: {plus_minus(np.array(shares))}")


PARTS: dict[str, Callable[..., None]] = {"check": check, "pairs": pairs, "merge": merge}

if __name__ == "__main__":
    with jax.enable_x64(True):
        PARTS[sys.argv[1]](*(int(word) for word in sys.argv[2:]))
