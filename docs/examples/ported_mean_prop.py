"""whestbench's MeanPropagationEstimator, ported from flopscope to JAX line by line: docs/prices.md compares the costs.

python -m whest estimator=file estimator.path=docs/examples/ported_mean_prop.py
"""

import math

import jax
import jax.numpy as jnp


class Estimator:
    def predict(self, mlp, budget):
        mu, var = jnp.zeros(mlp.width), jnp.ones(mlp.width)
        rows = []
        for w in mlp.weights:
            mu_pre = w.T @ mu
            var_pre = jnp.maximum((w * w).T @ var, 1e-12)
            sigma_pre = jnp.sqrt(var_pre)

            alpha = mu_pre / sigma_pre
            pdf = jnp.exp(-0.5 * alpha * alpha) / math.sqrt(2 * math.pi)
            cdf = 0.5 * (1 + jax.lax.erf(alpha / math.sqrt(2)))

            mu = mu_pre * cdf + sigma_pre * pdf
            ez2 = (mu_pre * mu_pre + var_pre) * cdf + mu_pre * sigma_pre * pdf
            var = jnp.maximum(ez2 - mu * mu, 0)
            rows.append(mu)
        return jnp.stack(rows)
