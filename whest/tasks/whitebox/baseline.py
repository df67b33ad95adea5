"""Plain Monte Carlo as the baseline: the cost of one sample by whest's meter."""

from functools import cache

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from whest.metering.lists import DEFAULT, PriceList, priced_by
from whest.metering.walk import meter


def sample_means(
    weights: Float[Array, "depth width width"], key: PRNGKeyArray, n_samples: int
) -> Float[Array, "depth width"]:
    """Mean activations over independent Gaussian inputs."""
    h = jax.random.normal(key, (n_samples, weights.shape[1]), weights.dtype)
    means = []
    for w in weights:
        h = jax.nn.relu(h @ w)
        means.append(h.mean(axis=0))
    return jnp.stack(means)


@cache
def flops_per_sample(width: int, depth: int, prices: PriceList = DEFAULT) -> float:
    """The cost of one more sample, by a price list."""
    weights = jax.ShapeDtypeStruct((depth, width, width), jnp.float32)

    def flops(n_samples: int) -> int:
        with priced_by(prices):
            return meter(lambda w, key: sample_means(w, key, n_samples))(weights, jax.random.key(0)).flops

    return (flops(3000) - flops(2000)) / 1000


def peer_flops_per_sample(width: int, depth: int) -> float:
    """The same by WhestBench's meter (its `mc_flops_per_sample`): normals at 16 FLOPs, matmuls, sums in float64."""
    return 2 * depth * width**2 + 17 * width + 4 * depth * width
