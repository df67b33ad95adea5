"""Attention that looks things up: each byte knows its predecessor, so that one layer finds what followed last time.

    x_t = e(b_t) + e(b_{t−1}) S,   then by layer  x += A(n(x)) W,  x += relu(n(x) U) V,   logits = n(x) C

A is causal attention over rotated queries and keys, n divides by the root mean square. Without S, a first layer has to
learn to pass each byte's predecessor on before a second can match it; with S the matching is learnt at once, which is
most of what small exams ask: copying, going on, looking up. Few rows a step and many steps serve it best.
The output layer starts at zero, so that the first batch is charged exactly ln 256 a byte.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, UInt8
from pydantic import Field

from whest.errors import ConfigError
from whest.learner import N_BYTES, N_TOKENS, LearnerContext, TrainState, affordable_steps, mean_nats

Size = Annotated[int, Field(ge=1, le=65536)]
SLOWEST = 1000.0
"""The longest wavelength of the rotations, in bytes over 2π."""


@dataclass
class ByteRecall:
    rows_per_step: Size
    width: Annotated[int, Field(ge=2, le=4096)]
    depth: Annotated[int, Field(ge=1, le=64)]
    heads: Annotated[int, Field(ge=1, le=256)]
    """Each of an even number of dimensions, width / heads."""
    hidden: Size
    learning_rate: Annotated[float, Field(gt=0)]
    final_rate: Annotated[float, Field(ge=0, le=1)]
    """The share of the learning rate that is left at the end, on a cosine."""
    warmup: Annotated[float, Field(ge=0, lt=1)]
    """The share of the steps in which the rate rises from nothing."""
    n_steps: int = field(default=100, init=False)

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise ConfigError(f"estimator.width={self.width} must be a multiple of 2·estimator.heads={2 * self.heads}")

    def setup(self, context: LearnerContext) -> None:
        """The schedule ends where the budget does."""
        self.n_steps = max(2, affordable_steps(self, context))

    def init(self, key: PRNGKeyArray) -> TrainState:
        keys = iter(jax.random.split(key, 2 + 4 * self.depth))

        def matrix(rows: int, columns: int, scale: float = 1.0) -> Float[Array, "row column"]:
            return scale * jax.random.normal(next(keys), (rows, columns)) / rows**0.5

        small = self.depth**-0.5  # so that the sum over layers starts at the size of one
        params = {
            "embedding": jax.random.normal(next(keys), (N_TOKENS, self.width)) / 2,
            "shift": matrix(self.width, self.width),
            "layers": [
                {
                    "qkv": matrix(self.width, 3 * self.width),
                    "join": matrix(self.width, self.width, small),
                    "up": matrix(self.width, self.hidden),
                    "down": matrix(self.hidden, self.width, small),
                    "scale": jnp.ones((2, self.width)),
                }
                for _ in range(self.depth)
            ],
            "output": jnp.zeros((self.width, N_BYTES)),
            "scale": jnp.ones(self.width),
        }
        return TrainState(params, self._optimiser().init(params))

    def logits(self, params: Any, tokens: Int32[Array, "row time"]) -> Float[Array, "row time 256"]:
        embedded = params["embedding"][tokens]
        x = embedded + jnp.pad(embedded, ((0, 0), (1, 0), (0, 0)))[:, :-1] @ params["shift"]
        for layer in params["layers"]:
            with jax.named_scope("attention"):
                x = x + self._attend(_normed(x, layer["scale"][0]) @ layer["qkv"]) @ layer["join"]
            with jax.named_scope("hidden"):
                x = x + jax.nn.relu(_normed(x, layer["scale"][1]) @ layer["up"]) @ layer["down"]
        return _normed(x, params["scale"]) @ params["output"]

    def _attend(self, qkv: Float[Array, "row time three_widths"]) -> Float[Array, "row time width"]:
        rows, length, _ = qkv.shape
        size = self.width // self.heads
        split = qkv.reshape(rows, length, 3, self.heads, size)
        queries, keys, values = _rotated(split[:, :, 0]), _rotated(split[:, :, 1]), split[:, :, 2]
        match = jnp.einsum("rihd,rjhd->rhij", queries, keys) / size**0.5
        past = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(past, match, -jnp.inf), axis=-1)
        return jnp.einsum("rhij,rjhd->rihd", weights, values).reshape(rows, length, self.width)

    def update(self, state: TrainState, batch: UInt8[Array, "row time"]) -> TrainState:
        gradients = jax.grad(lambda params: mean_nats(self, params, batch))(state.params)
        updates, optimiser = self._optimiser().update(gradients, state.optimiser, state.params)
        return TrainState(optax.apply_updates(state.params, updates), optimiser)

    def _optimiser(self) -> optax.GradientTransformation:
        rising = int(self.warmup * self.n_steps)
        final = self.final_rate * self.learning_rate
        schedule = optax.warmup_cosine_decay_schedule(0.0, self.learning_rate, rising, self.n_steps, final)
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule, b2=0.98))


def _normed(x: Float[Array, "row time width"], scale: Float[Array, " width"]) -> Float[Array, "row time width"]:
    return scale * x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6)


def _rotated(x: Float[Array, "row time head size"]) -> Float[Array, "row time head size"]:
    """Pairs of dimensions turned by an angle that grows with time: products of two then depend on how far apart."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None, None] * SLOWEST ** (-jnp.arange(half) / half)
    first, second = x[..., :half], x[..., half:]
    cosine, sine = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
