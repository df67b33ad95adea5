"""A sampler of deep networks that starts at a later layer, at points with the cumulants that matrix_core knows there.

    NPROC=1 python benchmarks/late_start.py                 # 6 networks of 256x32, no suite's; about half an hour
    NPROC=1 python benchmarks/late_start.py networks=2 starts=4 directions=0,48

The pre-activations z of layer m + 1 have the chain's mean μ, covariance S = R·Rᵀ and third cumulants. With u a rotated
Kerdock design on the sphere of radius √n, z = μ + R·(B·u + q(u)), where q_a = Σ_bc g_abc·(u_b u_c − δ_bc) runs over the
T largest principal components b, c: g is a sixth of the third cumulant where a is one of them too, and half of it
elsewhere. B makes the covariance right. T = 0 is the Gaussian start. From there the points go through the real layers,
and what the chain knows of the layers up to 11 corrects them as it corrects `kerdock`, the first row.
Several rotations tell the variance and the squared bias apart; the truth is the mean of a few whole designs.
"""

import math
import sys
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from training import plus_minus

from estimators.kerdock import ANCHORED, BELIEVED, CHAIN, FADING, Kerdock
from estimators.parts.chain import anchored
from estimators.parts.cumulant_chain import State, hidden
from estimators.parts.lean_sources import LeanSources
from estimators.parts.sphere import radial_moment
from estimators.parts.strassen import Strassen
from whest.dataset.sources import FreshDataset
from whest.dataset.suite import SUITE_ROOTS
from whest.truth.designs import haar, kerdock_signs, walsh_hadamard

WIDTH, DEPTH, ROOT = 256, 32, 7431
N_DESIGNS, N_ROTATIONS = 6, 3
TOGETHER = 3
LARGEST = 0.6
"""The most of a component's variance that q may make: beyond it the expansion is of no use."""
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DENSE = replace(CHAIN, strassen_levels=0, thinned=None)
RADIUS = radial_moment(WIDTH, 1, DENSE.radial)
SHARES = [min(1.0, (BELIEVED - layer) / FADING) for layer in range(1, ANCHORED + 1)]


class Start(NamedTuple):
    """z = mean + u·linear + (products of u)·squares."""

    mean: Array
    linear: Array
    squares: Array
    left: Array
    right: Array


def third_of(sources: LeanSources, whiten: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """κ_abc of the whitened components, for all a and the pairs b, c."""
    left, right = pairs
    total = np.zeros((len(left), WIDTH))
    for s in sources.items:
        whole = 3 * s.a * s.e + s.known_p * s.s + s.z @ s.l.T
        a, p, m = (whiten @ np.asarray(x, np.float64) for x in (s.a, s.known_p, whole))
        w = np.asarray(s.w, np.float64)
        ap, mp = (x[left] * p[right] + p[left] * x[right] for x in (a, m))
        total += (a[left] * a[right] * w) @ p.T + (ap * w) @ a.T + (p[left] * p[right] @ m.T + mp @ p.T) / 3
    return total


def start_at(state: State, w: Array, directions: int) -> Start:
    """`w` are the weights behind the state's layer."""
    assert state.covariance is not None, "only the input has none"
    assert isinstance(state.third, LeanSources), "DENSE is lean"
    stored, covariance = np.asarray(w, np.float64), np.asarray(state.covariance, np.float64)
    values, vectors = np.linalg.eigh(stored.T @ covariance @ stored)
    values, vectors = np.maximum(values[::-1], 1e-7 * values[-1]), vectors[:, ::-1]
    root, whiten = vectors * np.sqrt(values), (vectors / np.sqrt(values)).T
    left, right = np.triu_indices(max(1, directions))
    g = np.zeros((len(left), WIDTH))
    if directions:
        twice = np.where(left == right, 1.0, 2.0)[:, None]
        g = twice * third_of(state.third.carried(w.T, Strassen(0)), whiten, (left, right))
        g[:, :directions] /= 6
        g[:, directions:] /= 2
    spread = np.where(left == right, 2.0, 1.0)[:, None]
    g *= np.minimum(1, np.sqrt(LARGEST / np.maximum(np.sum(g * g * spread, axis=0), 1e-9)))
    rest, turn = np.linalg.eigh(np.eye(WIDTH) - (g * spread).T @ g)
    linear = (turn * np.sqrt(np.maximum(rest, 0))) @ turn.T
    mean, straight, squares = stored.T @ np.asarray(state.mean), (root @ linear).T, g @ root.T
    single = partial(jnp.asarray, dtype=jnp.float32)
    return Start(single(mean), single(straight), single(squares), jnp.asarray(left), jnp.asarray(right))


@jax.jit
def late(start: Start, deeper: Array, key: Array) -> Float[Array, "layer width"]:
    """Means of all layers from the start on, over one whole design."""
    rotation = math.sqrt(WIDTH) * haar(key, WIDTH)
    signs = jnp.concatenate([jnp.asarray(kerdock_signs(WIDTH)), jnp.zeros((1, WIDTH), jnp.int8)])

    def some(total: Array, some_signs: Array) -> tuple[Array, None]:
        turned = some_signs.astype(jnp.float32)[:, :, None] / math.sqrt(WIDTH) * rotation
        is_identity = jnp.all(some_signs == 0, axis=1)[:, None, None]
        u = jnp.where(is_identity, rotation, walsh_hadamard(turned)).reshape(-1, WIDTH)
        products = u[:, start.left] * u[:, start.right] - (start.left == start.right)
        even, odd = start.mean + products @ start.squares, u @ start.linear
        h = jax.nn.relu(jnp.concatenate([even + odd, even - odd]))
        _, sums = jax.lax.scan(through, h, deeper)
        return total + jnp.concatenate([h.sum(axis=0)[None], sums]), None

    zero = jnp.zeros((len(deeper) + 1, WIDTH))
    total, _ = jax.lax.scan(some, zero, signs.reshape(-1, TOGETHER, WIDTH))
    return total / (2 * signs.size)


def through(h: Array, w: Array) -> tuple[Array, Array]:
    h = jax.nn.relu(h @ w)
    return h, h.sum(axis=0)


def two_parts(answers: np.ndarray, truth: np.ndarray, noise: float) -> tuple[float, float]:
    """The variance of an answer and its squared bias, both without bias themselves."""
    variance = float(answers.var(axis=0, ddof=1).mean())
    return variance, float(np.mean((answers.mean(axis=0) - truth) ** 2)) - variance / len(answers) - noise


def main() -> None:
    words = dict(word.split("=") for word in sys.argv[1:])
    starts = [int(x) for x in words.get("starts", "4,6,8").split(",")]
    directions = [int(x) for x in words.get("directions", "0,24,48").split(",")]
    assert ROOT not in SUITE_ROOTS.values(), "a suite's own networks are for scoring"
    dataset = FreshDataset(width=WIDTH, depth=DEPTH, seed=ROOT, n_mlps=int(words.get("networks", "6"))).load()
    kerdock, signs = Kerdock(0.1, 1.0, 0.0, "none", 0, 0), jnp.asarray(kerdock_signs(WIDTH))
    sample = jax.jit(partial(kerdock.sampled, turns=1, signs=signs))
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for row in dataset.rows:
        weights = jnp.asarray(dataset.mlp(row).weights)
        known = known_means(weights[:ANCHORED])
        correct = jax.jit(partial(anchored, known=known, shares=SHARES))
        designs = [sample(weights, jax.random.key(1000 * row.index + k))[0] for k in range(N_DESIGNS)]
        plain = np.stack([np.asarray(x[-1], np.float64) for x in designs])
        change = np.stack([np.asarray(correct(x, weights)[-1], np.float64) for x in designs]) - plain
        truth, noise = plain.mean(axis=0), float(plain.var(axis=0, ddof=1).mean()) / N_DESIGNS
        bias = float(np.mean(change.mean(axis=0) ** 2 - change.var(axis=0, ddof=1) / N_DESIGNS))
        found.setdefault((0, 0), []).append((float((plain + change).var(axis=0, ddof=1).mean()), bias))
        for m in starts:
            state = chain(weights[:m])
            for count in directions:
                start = start_at(state, weights[m], count)
                keys = [jax.random.key(1000 * row.index + 500 + k) for k in range(N_ROTATIONS)]
                means = [jnp.concatenate([known[:m], RADIUS * late(start, weights[m + 1 :], key)]) for key in keys]
                answers = np.stack([np.asarray(correct(x, weights)[-1], np.float64) for x in means])
                found.setdefault((m, count), []).append(two_parts(answers, truth, noise))
        print(f"network {row.index + 1} of {len(dataset.rows)}", file=sys.stderr, flush=True)
    print("| start | directions of q | variance | squared bias | raw MSE |\n|---|---|---|---|---|")
    for (m, count), parts in found.items():
        variance, bias2 = np.array(parts).T
        kind = f"after layer {m} | {count}" if m else "the input (`kerdock`) | –"
        print(f"| {kind} | {plus_minus(variance)} | {plus_minus(bias2)} | {plus_minus(variance + bias2)} |", flush=True)


jax.tree_util.register_dataclass(LeanSources, ["items", "alive"], ["thinning", "layer"])


@partial(jax.jit, compiler_options=QUICKLY)
def known_means(weights: Array) -> Float[Array, "layer width"]:
    return DENSE.means(weights)


@partial(jax.jit, compiler_options=QUICKLY)
def chain(weights: Array) -> State:
    """The state after the last of these layers, with its sources one by one."""
    core, terms, radial, product, third, _ = DENSE._parts(weights.shape)
    _, _, state = hidden(weights, core, terms, radial, product, third)
    return state


if __name__ == "__main__":
    main()
