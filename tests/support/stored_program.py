"""A program that was traced and written under JAX 0.10.2 and is kept in `stored_program.json`, to be read by any JAX.

`python -m tests.support.stored_program` writes the file anew: only for a new format, and with the oldest JAX.
"""

import base64
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from whest.isolation.portable import read_program, write_program
from whest.metering.loops import count_rounds
from whest.metering.walk import estimate_cost

FILE = Path(__file__).with_suffix(".json")
WEIGHTS = np.random.default_rng(7).standard_normal((3, 6, 6)).astype(np.float32) / 2
KEY = np.array([1, 2], np.uint32)


def program(weights: Any, key: Any) -> Any:
    """A bit of everything that control flow, randomness and linear algebra leave in a program."""
    drawn = jax.random.normal(jax.random.wrap_key_data(key), (6, 4))
    with jax.named_scope("scan"):
        hidden, sums = lax.scan(lambda h, w: (jnp.maximum(w @ h, 0) + weights[0, 0, 0], h.sum()), drawn, weights)
    with jax.named_scope("back"):
        slope = jax.grad(lambda w: lax.scan(lambda h, w: (jnp.tanh(w @ h), None), drawn, w, reverse=True)[0].sum())
        hidden += slope(weights)[1, :, :4]
    with jax.named_scope("loops"):
        hidden = lax.fori_loop(0, 4, lambda i, h: h * 0.5 + i, hidden)
        hidden = lax.while_loop(lambda h: jnp.abs(h).max() > 1, lambda h: h * 0.7, hidden)
        lanes = jax.vmap(lambda k: lax.while_loop(lambda s: s < k, lambda s: s * 1.5 + 1, 0.0))(jnp.abs(hidden[0]) * 9)
    with jax.named_scope("choice"):
        index = (sums[0] > sums[1]).astype(jnp.int32) + 1
        hidden = lax.switch(index, [jnp.sin, lambda h: h @ h.T @ h, lambda h: h], hidden)
        hidden = lax.cond(sums[2] > 0, lambda h: h + 1, lambda h: h - 1, hidden)
    with jax.named_scope("linear"):
        gram = weights[0] @ weights[0].T + jnp.eye(6)
        hidden = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(gram), hidden, lower=True)
        best, places = lax.top_k(hidden[:, 0], 3)
    return hidden.at[places].add(best[:, None]) + lanes, jnp.log2(1 + jnp.abs(sums)), jnp.argsort(hidden[:, 1])


def answers(document: Any, arrays: list[np.ndarray]) -> tuple[int, list[np.ndarray]]:
    """F and the results of a document, read, metered and run by the JAX that is installed."""
    copy = jax.make_jaxpr(read_program(document, arrays))(WEIGHTS, KEY)
    estimate = estimate_cost(copy)
    results, rounds = jax.jit(count_rounds(copy, list(estimate.loops)))(WEIGHTS, KEY)
    return estimate.cost(np.asarray(rounds).tolist()).flops, [np.asarray(result) for result in results]


def stored() -> dict[str, Any]:
    kept = json.loads(FILE.read_text())
    return {**kept, "arrays": [_array(it) for it in kept["arrays"]], "results": [_array(it) for it in kept["results"]]}


def _array(kept: Any) -> np.ndarray:
    dtype, shape, content = kept
    return np.frombuffer(base64.b64decode(content), dtype).reshape(shape)


def _kept(array: np.ndarray) -> list[Any]:
    return [array.dtype.name, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def write() -> None:
    document, arrays = write_program(jax.make_jaxpr(program)(WEIGHTS, KEY))
    flops, results = answers(document, arrays)
    kept = {"jax": jax.__version__, "flops": flops, "document": document}
    kept |= {"arrays": list(map(_kept, arrays)), "results": list(map(_kept, results))}
    FILE.write_text(json.dumps(kept, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write()
