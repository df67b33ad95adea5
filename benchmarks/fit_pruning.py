"""Pruning in samplers: bias squared and cost for several shares of neurons, on networks that are in no suite.

    python benchmarks/fit_pruning.py          # all shares
    python benchmarks/fit_pruning.py 0.3      # one of them
    python benchmarks/fit_pruning.py 0.3 root=7319 n=100      # other networks

It takes about five minutes on two cores and makes the figures of `estimators/parts/pruning.py`. A neuron that is left
out is replaced by zero or by its mean over the pilot; the change of the bias squared is paired over networks.
"""

import sys
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from training import plus_minus

from estimators.orthogonal import fixed_bases, turned_weights
from estimators.parts.ensemble import point_sums
from estimators.parts.pruning import kept, pilot_run, prune
from whest.dataset.sources import fresh_seeds
from whest.mlp import SeedProtocol, draw_mlp

WIDTH, DEPTH, BLOCKS = 256, 32, 12
ROOT, N_MLPS = 7001, 12
"""A root seed that no suite has: theirs are 101, 102 and 103."""
SHARES = (0.3, 0.34, 0.37, 0.41, 0.45)
ALPHA = -2.7


def final_bias(weights: Float[Array, "depth width width"], share: float, by_means: bool) -> Float[Array, " width"]:
    """The last layer's means over the blocks: those of the pruned network minus those of the whole one. The pilot is
    an additional block."""
    first, *deeper = weights
    pilot = turned_weights(jax.random.key(1), first)
    sums, alphas = pilot_run(jax.nn.relu(jnp.concatenate([pilot, -pilot])), deeper)
    means = [total / (2 * len(pilot)) for total in sums] if by_means else None
    pruned = prune(deeper, alphas, kept(WIDTH, DEPTH, share)[1:], means)
    z = jnp.asarray(fixed_bases(WIDTH)[: BLOCKS * WIDTH]) @ turned_weights(jax.random.key(2), first)
    h = jax.nn.relu(jnp.concatenate([z, -z]))
    restored = pruned.restore(point_sums(h, pruned.layers, offsets=pruned.offsets), WIDTH, len(h))
    return (restored[-1] - point_sums(h, deeper)[-1]) / len(h)


def off_shares(weights: Float[Array, "depth width width"]) -> Float[Array, " depth"]:
    """The share of each layer's neurons whose α is below the threshold."""
    z = jnp.asarray(fixed_bases(WIDTH)[: BLOCKS * WIDTH]) @ turned_weights(jax.random.key(2), weights[0])
    alphas = pilot_run(jax.nn.relu(jnp.concatenate([z, -z])), tuple(weights[1:])).alphas
    return jnp.mean(jnp.stack(alphas) < ALPHA, axis=1)


def _split(words: list[str]) -> list[tuple[str, str, str]]:
    return [word.partition("=") for word in words]


def main() -> None:
    asked = {"root": ROOT, "n": N_MLPS} | {key: int(value) for key, _, value in _split(sys.argv[1:]) if value}
    shares = [float(word) for word, _, value in _split(sys.argv[1:]) if not value] or SHARES
    networks = [
        jnp.asarray(draw_mlp(SeedProtocol().streams(seed), WIDTH, DEPTH, "").weights)
        for seed in fresh_seeds(asked["root"], asked["n"])
    ]
    off = np.mean([np.asarray(jax.jit(off_shares)(weights)) for weights in networks], axis=0)
    print(f"neurons with α < {ALPHA}, layers 2 to {DEPTH}: {np.round(off, 3).tolist()}")
    print("share  of the matmuls  bias squared (mean, largest): zeros, means, means − zeros")
    bias = jax.jit(final_bias, static_argnums=(1, 2))
    for share in shares:
        sizes = [WIDTH, *kept(WIDTH, DEPTH, share)]
        cost = sum(a * b for a, b in pairwise(sizes)) / (WIDTH**2 * DEPTH)
        kinds = [[float(jnp.mean(bias(weights, share, kind) ** 2)) for weights in networks] for kind in (False, True)]
        figures = ", ".join(f"{np.mean(squares):.2g} ({max(squares):.2g})" for squares in kinds)
        change = plus_minus(np.array(kinds[1]) - np.array(kinds[0]))
        print(f"{share:.2f}   {cost:.3f}           {figures}, {change}", flush=True)


if __name__ == "__main__":
    main()
