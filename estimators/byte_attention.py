"""A small transformer over the row: causal attention, rotary positions, one optimiser step per batch.

    x ← x + attend(norm(x)),  x ← x + W₂ relu²(W₁ norm(x)),  logits = U norm(x)

The output layer starts at zero. Attention costs 2·row·width FLOPs per byte and layer, and each weight costs 6 FLOPs. So
at this size most of the budget pays for the products of the feed-forward and output layers.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, UInt8
from pydantic import Field

from whest.learner import N_BYTES, N_TOKENS, LearnerContext, TrainState, affordable_steps, mean_nats

Size = Annotated[int, Field(ge=1, le=65536)]


@dataclass
class ByteAttention:
    rows_per_step: Size
    width: Annotated[int, Field(ge=4, multiple_of=2)]
    n_layers: Size
    n_heads: Size
    recent: Size
    """The number of last tokens whose embeddings are added to the input, in addition to attention."""
    learning_rate: Annotated[float, Field(gt=0)]
    warm_up: Annotated[float, Field(ge=0, lt=1)]
    """The share of the steps over which the learning rate rises."""
    final_rate: Annotated[float, Field(ge=0, le=1)]
    n_steps: int = field(default=1, init=False)

    def setup(self, context: LearnerContext) -> None:
        self.n_steps = max(1, affordable_steps(self, context))

    def init(self, key: PRNGKeyArray) -> TrainState:
        keys = iter(jax.random.split(key, 2 + 4 * self.n_layers))

        def weights(*shape: int) -> Float[Array, "..."]:
            return jax.random.normal(next(keys), shape) * shape[-2] ** -0.5

        width = self.width
        layers = [
            {
                "into": weights(width, 3 * width),
                "out": weights(width, width) * 0.3,
                "up": weights(width, 2 * width),
                "down": weights(2 * width, width) * 0.3,
            }
            for _ in range(self.n_layers)
        ]
        params = {
            "embedding": weights(self.recent, N_TOKENS, width) * N_TOKENS**0.5 * self.recent**-0.5,
            "layers": layers,
            "output": jnp.zeros((width, N_BYTES)),
            "output_bias": jnp.zeros(N_BYTES),
        }
        return TrainState(params, self._optimiser().init(params))

    def logits(self, params: Any, tokens: Int32[Array, "row time"]) -> Float[Array, "row time 256"]:
        length = tokens.shape[1]
        padded = jnp.pad(tokens, ((0, 0), (self.recent - 1, 0)), constant_values=N_TOKENS - 1)
        x = sum(
            params["embedding"][i][padded[:, self.recent - 1 - i : self.recent - 1 - i + length]]
            for i in range(self.recent)
        )
        for layer in params["layers"]:
            with jax.named_scope("attention"):
                x = x + self._attend(layer, _norm(x))
            with jax.named_scope("feed_forward"):
                x = x + jnp.square(jax.nn.relu(_norm(x) @ layer["up"])) @ layer["down"]
        return _norm(x) @ params["output"] + params["output_bias"]

    def _attend(self, layer: Any, x: Float[Array, "row time width"]) -> Float[Array, "row time width"]:
        rows, length, width = x.shape
        heads = (x @ layer["into"]).reshape(rows, length, 3, self.n_heads, -1)
        query, key, value = (heads[:, :, i] for i in range(3))
        query, key = _turn(query), _turn(key)
        scores = jnp.einsum("rthd,rshd->rhts", query, key) * query.shape[-1] ** -0.5
        seen = jnp.tril(jnp.ones((length, length), bool))
        shares = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
        return jnp.einsum("rhts,rshd->rthd", shares, value).reshape(rows, length, width) @ layer["out"]

    def update(self, state: TrainState, batch: UInt8[Array, "row time"]) -> TrainState:
        gradients = jax.grad(lambda params: mean_nats(self, params, batch))(state.params)
        updates, optimiser = self._optimiser().update(gradients, state.optimiser, state.params)
        return TrainState(optax.apply_updates(state.params, updates), optimiser)

    def _optimiser(self) -> optax.GradientTransformation:
        rising = max(1, int(self.warm_up * self.n_steps))
        schedule = optax.warmup_cosine_decay_schedule(
            0.0, self.learning_rate, rising, max(self.n_steps, rising + 1), self.final_rate * self.learning_rate
        )
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule, b2=0.99))


def _norm(x: Float[Array, "row time width"]) -> Float[Array, "row time width"]:
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6)


def _turn(x: Float[Array, "row time head size"]) -> Float[Array, "row time head size"]:
    """Rotary positions: each pair of coordinates is rotated by an angle proportional to the position."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None, None] * 100.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    one, other = x[..., :half], x[..., half:]
    return jnp.concatenate([one * cos - other * sin, one * sin + other * cos], axis=-1)
