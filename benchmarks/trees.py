"""Fourth cumulants as trees in the sources of matrix_core: the part of κ₄ that its matrix B can't hold. Not adopted.

    python benchmarks/trees.py                 # 12 networks of 256x8, paired with matrix_core
    python benchmarks/trees.py 128 4 12        # width, depth, number of networks

A ReLU's hub r joins three legs with the weights w_r (one P, two A), e_r (two P) and s_r (three P), and four legs with
those of `Tree.four`. Two hubs joined by a link make the other trees of κ₄. With A and P at (a, r)
    q_ar = 2w A P + e P²,   t_ar = w A² + 2e A P + s P²                 (the hub r with the neuron a twice)
    U_ai = Σ_r q_ar·(link of r to what bends at i),   T_ai = Σ_r q_ar P_ri,
    κ_aaab = 3Σ_i (U wP + T (wA + eP))_ai A_bi + (U (wA + eP) + T (eA + sP))_ai P_bi,
    κ_aabb = Σ_i U_ai q_bi + T_ai t_bi.
In one layer the link is S_ri. Between layers it is how the later hub depends on the earlier source: its
A and P at the later birth. B keeps what is left of the partial traces. The pairing (ab)(ab) of κ_aabb is missing
between two hubs: it costs n⁴. Cost: per layer 4 products for a pair of sources, and 8 for a source.
"""

import sys
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from training import networks, plus_minus

from estimators.matrix_core import CORE_SHRINK, RADIAL, TERMS, MatrixCore
from estimators.parts.cumulant_chain import propagate
from estimators.parts.cumulants import (
    Fourth,
    Inputs,
    Moments,
    Relu,
    Square,
    cumulants,
    joint_moments,
    make_relu,
    moment,
    moments_on_sphere,
    off_diagonal,
    outer,
)
from estimators.parts.sources import Feed, Source, Sources, known_p
from estimators.parts.sphere import radial_moment
from estimators.parts.strassen import Strassen
from estimators.parts.wick import Vector, wick_numbers
from whest.truth.fast import FastTruth

PRODUCT, SEED = Strassen(0), 5150


class Tree(NamedTuple):
    """What a source needs for κ₄, beside A, P and w; all of its birth layer, so nothing is transformed."""

    e: Vector
    s: Vector
    four: tuple[Vector, Vector, Vector, Vector]
    """The weights of PPPP, PPPA, PPAA and PAAA."""
    covariance: Square
    """S of the hubs, zero on the diagonal."""
    older: tuple[tuple[Square, Square], ...]
    """A and P of each older source at the hubs' pre-activations."""


Branch = tuple[Source, Tree]


def vertices(source: Source, tree: Tree) -> tuple[Square, Square]:
    """q and t."""
    a, p, w = source.a, known_p(source), source.w
    return 2 * w * a * p + tree.e * p * p, w * a * a + 2 * tree.e * a * p + tree.s * p * p


def links(branches: list[Branch]) -> tuple[list[Square], list[Square]]:
    """U and T of every source."""
    q, t = zip(*(vertices(*branch) for branch in branches), strict=True)
    u = [x @ tree.covariance for x, (_, tree) in zip(q, branches, strict=True)]
    through = [jnp.zeros_like(x) for x in q]
    for i, (_, tree) in enumerate(branches):
        for r, (a, p) in enumerate(tree.older):
            u[i] = u[i] + q[r] @ a.T + t[r] @ p.T
            u[r], through[r] = u[r] + q[i] @ a, through[r] + q[i] @ p
    return u, through


def tree_slices(branches: list[Branch]) -> tuple[Square, Square]:
    """κ_aaab, with κ_aaaa on the diagonal, and κ_aabb of all trees."""
    k31 = k22 = jnp.zeros_like(branches[0][0].a)
    for (source, tree), u, through in zip(branches, *links(branches), strict=True):
        a, p, w, e, s = source.a, known_p(source), source.w, tree.e, tree.s
        pppp, pppa, ppaa, paaa = tree.four
        pp, ap, aa = p * p, a * p, a * a
        with_p = p * (pppp * pp + 3 * pppa * ap + 3 * ppaa * aa) + paaa * aa * a
        with_p = with_p + 3 * (u * (w * a + e * p) + through * (e * a + s * p))
        with_a = p * (pppa * pp + 3 * ppaa * ap + 3 * paaa * aa) + 3 * (u * w * p + through * (w * a + e * p))
        k31 = k31 + with_p @ p.T + with_a @ a.T
        k22 = k22 + (pppp * pp + 2 * pppa * ap + ppaa * aa + u * e + through * s) @ pp.T
        k22 = k22 + (2 * pppa * pp + 4 * ppaa * ap + 2 * paaa * aa + 2 * (u * w + through * e)) @ ap.T
        k22 = k22 + (ppaa * pp + 2 * paaa * ap + through * w) @ aa.T
    return k31, k22


class State(NamedTuple):
    mean: Vector
    covariance: Square | None
    b: Square | None
    sources: tuple[Source, ...]
    trees: tuple[Tree, ...]


def layer(state: State, w: Square) -> State:
    gram, n, is_first = w @ w.T, len(w), state.covariance is None
    third = Sources(state.sources).carried(w, PRODUCT)
    s = gram if state.covariance is None else w @ state.covariance @ w.T
    wick = wick_numbers(w @ state.mean, jnp.diagonal(s))
    k21 = third.slices(PRODUCT, wick.alpha)
    k21 = jnp.zeros_like(w) if k21 is None else k21
    core = MatrixCore(1 - CORE_SHRINK / n, False, RADIAL, state.b)
    fourth = core.slices(w, gram, PRODUCT, None if state.b is None else w @ state.b @ w.T)
    held = jnp.zeros_like(w), jnp.zeros_like(w)
    if state.trees:
        held = tree_slices(list(zip(third.items, state.trees, strict=True)))
    fourth = joined(fourth, *held)
    inputs = Inputs(off_diagonal(s), jnp.diagonal(k21), off_diagonal(k21), fourth)
    moments: Moments = tuple(moment(wick, p, inputs.k3, fourth.k4) for p in (1, 2, 3, 4))  # type: ignore[assignment]
    joint = joint_moments(wick, inputs, TERMS, True)
    if is_first:
        moments, joint = moments_on_sphere(moments, joint, RADIAL)
    relu = make_relu(wick, inputs, cumulants(moments, joint), TERMS)
    feed = core.feed(relu, gram, state.covariance)
    added = [fed(relu.bend, *branch) for branch in zip(third.items, state.trees, strict=True)]
    after = third.after(relu, whole_feed(relu, feed, third.items, added)).items
    fresh = Tree(*born(relu, after[-1]), inputs.covariance, tuple((x.a, known_p(x)) for x in third.items))
    old = [x._replace(m=x.m + m) for x, m in zip(after[:-1], added, strict=True)]
    b = rest(relu, gram, fresh, held)
    return State(relu.outputs.mean, relu.outputs.covariance, b, (*old, after[-1]), (*state.trees, fresh))


def joined(fourth: Fourth, k31: Square, k22: Square) -> Fourth:
    """The core's slices and those of the trees."""
    assert fourth.k31 is not None
    more = fourth.k31 + off_diagonal(k31)
    return fourth._replace(k4=fourth.k4 + jnp.diagonal(k31), k22=fourth.k22 + off_diagonal(k22), k31=more)


def fed(bend: Vector, source: Source, tree: Tree) -> Square:
    """κ₄ → κ₃: ½w_i κ_iijk with j and k on two P legs of one hub, as a part of M."""
    a, p, (pppp, pppa, ppaa, _) = source.a, known_p(source), tree.four
    return 1.5 * bend[:, None] * (pppp * p * p + 2 * pppa * a * p + ppaa * a * a)


def whole_feed(relu: Relu, feed: Feed | None, sources: tuple[Source, ...], added: list[Square]) -> Feed | None:
    """The core's feed, with the slices of what the trees add to each M."""
    if feed is None:
        return None
    slices = feed.slices
    for source, m in zip(sources, added, strict=True):
        p = relu.slope[:, None] * known_p(source)
        slices = slices + (2 / 3) * (m * p) @ p.T + (1 / 3) * (p * p) @ m.T
    return feed._replace(slices=slices)


def born(relu: Relu, source: Source) -> tuple[Vector, Vector, tuple[Vector, Vector, Vector, Vector]]:
    """e, s and the weights of four legs. κ_iiii of the activations that no older tree, core or link holds is PPPP's."""
    wick, outputs, inputs, slope = relu.wick, relu.outputs, relu.inputs, relu.slope
    m, square = outputs.mean, jnp.diagonal(outputs.covariance) + outputs.mean**2
    e, f = wick(1, 2) - 2 * m * slope, wick(2, 2) - 2 * m * relu.bend
    pppp = outputs.k4 - slope**4 * inputs.fourth.k4 - 6 * e * slope**2 * inputs.k3
    pppa = wick(1, 3) - 3 * m * wick(1, 2) - 3 * (square - 2 * m * m) * slope
    return e, jnp.diagonal(source.m), (pppp, pppa, f - 2 * slope * slope, wick(3, 1))


def rest(relu: Relu, gram: Square, tree: Tree, held: tuple[Square, Square]) -> Square:
    """B: from the partial traces of κ₄ without those of the trees, old and new."""
    n, outputs, (s, k3, k21, fourth) = len(gram), relu.outputs, relu.inputs
    assert outputs.k31 is not None
    assert fourth.core is not None
    slope, a, e, (pppp, pppa, ppaa, _) = relu.slope, relu.legs, tree.e, tree.four
    f, two = ppaa + 2 * slope * slope, slope * slope
    linked = two[:, None] * k21 * e
    k22 = (
        outputs.k22 - a * a * ppaa - (a * a * ppaa).T - outer(e, e) * s - linked - linked.T - outer(two, two) * held[1]
    )
    k31 = outputs.k31 - a.T * pppa[:, None] - outer(slope * two, slope) * held[0] - 3 * outer(e * slope, slope) * k21
    rho = outputs.k4 - pppp - 6 * e * two * k3 - two * two * jnp.diagonal(held[0]) + jnp.sum(off_diagonal(k22), axis=1)
    diagonal = 6 / (n + 4) * rho - 3 / ((n + 2) * (n + 4)) * jnp.sum(rho)
    spread = (jnp.sum(f * jnp.diagonal(fourth.core)) * gram + jnp.sum(f * jnp.diagonal(gram)) * fourth.core) / 12
    traces = outer(slope, slope) * spread + k31 + k31.T
    return (1 - CORE_SHRINK / n) * jnp.diag(diagonal) + 6 / (n + 4) * off_diagonal(traces)


def with_trees(weights: Float[Array, "depth width width"]) -> Vector:
    """The last layer's means."""
    n = weights.shape[1]
    state = reduce(layer, [w.T for w in weights[:-1]], State(jnp.zeros(n), None, None, (), ()))
    assert state.covariance is not None
    assert state.b is not None
    w = weights[-1].T
    third = Sources(state.sources).carried(w, PRODUCT)
    k31, _ = tree_slices(list(zip(third.items, state.trees, strict=True)))
    k4 = jnp.sum(w @ state.b * w, axis=1) * jnp.sum(w * w, axis=1) + jnp.diagonal(k31)
    wick = wick_numbers(w @ state.mean, jnp.sum(w @ state.covariance * w, axis=1))
    k3 = third.diagonal(PRODUCT)
    assert k3 is not None
    return radial_moment(n, 1, RADIAL) * moment(wick, 1, k3, k4)


def main() -> None:
    width, depth, number = (int(word) for word in sys.argv[1:4]) if len(sys.argv) > 1 else (256, 8, 12)
    nets = networks(width, depth, SEED, number, FastTruth(2, standard_error=3e-4))
    core = MatrixCore(1 - CORE_SHRINK / width, True, RADIAL)
    plain = jax.jit(lambda w: propagate(w, core, TERMS, RADIAL, PRODUCT)[-1])
    tries = {"matrix_core": plain, "and trees": jax.jit(with_trees)}
    errors = {
        label: np.array([net.error(np.asarray(run(net.weights))) for net in nets]) for label, run in tries.items()
    }
    first = errors["matrix_core"]
    print(f"| {width}x{depth}, {number} networks | raw MSE | paired change |\n|---|---|---|")
    for label, found in errors.items():
        print(f"| {label} | {plus_minus(found)} | {plus_minus((found - first) / first.mean())} |")


if __name__ == "__main__":
    main()
