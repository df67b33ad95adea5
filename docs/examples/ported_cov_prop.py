"""whestbench's CovariancePropagationEstimator, ported from flopscope to JAX: docs/porting.md goes through it.

python -m whest estimator=file estimator.path=docs/examples/ported_cov_prop.py
"""

import math

import jax
import jax.numpy as jnp
import numpy as np


class Estimator:
    def predict(self, mlp, budget):
        mu, cov = jnp.zeros(mlp.width), jnp.eye(mlp.width)
        diagonal = np.eye(mlp.width, dtype=bool)  # NumPy: it depends on the shape alone, so it is made once and is free
        rows = []
        for w in mlp.weights:
            mu_pre = w.T @ mu
            cov_pre = w.T @ cov @ w
            var_pre = jnp.maximum(jnp.diagonal(cov_pre), 1e-12)
            sigma_pre = jnp.sqrt(var_pre)

            alpha = mu_pre / sigma_pre
            pdf = jnp.exp(-0.5 * alpha * alpha) / math.sqrt(2 * math.pi)
            cdf = 0.5 * (1 + jax.lax.erf(alpha / math.sqrt(2)))

            mu = mu_pre * cdf + sigma_pre * pdf
            ez2 = (mu_pre * mu_pre + var_pre) * cdf + mu_pre * sigma_pre * pdf
            var_post = jnp.maximum(ez2 - mu * mu, 0)

            cov = jnp.where(diagonal, var_post, jnp.outer(cdf, cdf) * cov_pre)  # was: fill_diagonal, in place
            rows.append(mu)
        return jnp.stack(rows)
