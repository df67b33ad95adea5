"""A minimal byte learner: the embeddings of the last few bytes, concatenated, go through one hidden layer.

    h = relu(W [e(x_{t−k+1}), …, e(x_t)] + b),  logits = U h + c

The output layer starts at zero, so the first batch costs exactly ln 256 nats per byte. Cost per byte: 6 FLOPs per
weight (forward, and two products backward). Each step adds Adam's dozen FLOPs per parameter.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, UInt8
from pydantic import Field

from whest.learner import BOS, N_BYTES, N_TOKENS, LearnerContext, TrainState, affordable_steps, mean_nats

Size = Annotated[int, Field(ge=1, le=65536)]


@dataclass
class ByteMLP:
    rows_per_step: Size
    context: Size
    """The number of last tokens that the prediction uses."""
    embedding: Size
    hidden: Size
    learning_rate: Annotated[float, Field(gt=0)]
    final_rate: Annotated[float, Field(ge=0, le=1)]
    """The share of the learning rate that is left at the end of the cosine schedule."""
    n_steps: int = field(default=1, init=False)

    def setup(self, context: LearnerContext) -> None:
        """Set the length of the schedule: it ends with the budget."""
        self.n_steps = max(1, affordable_steps(self, context))

    def init(self, key: PRNGKeyArray) -> TrainState:
        key_embedding, key_hidden = jax.random.split(key)
        width = self.context * self.embedding
        params = {
            "embedding": jax.random.normal(key_embedding, (N_TOKENS, self.embedding)),
            "hidden": jax.random.normal(key_hidden, (width, self.hidden)) * (2 / width) ** 0.5,
            "bias": jnp.zeros(self.hidden),
            "output": jnp.zeros((self.hidden, N_BYTES)),
            "output_bias": jnp.zeros(N_BYTES),
        }
        return TrainState(params, self._optimiser().init(params))

    def logits(self, params: Any, tokens: Int32[Array, "row time"]) -> Float[Array, "row time 256"]:
        rows, length = tokens.shape
        padded = jnp.pad(tokens, ((0, 0), (self.context - 1, 0)), constant_values=BOS)
        windows = jnp.stack([padded[:, i : i + length] for i in range(self.context)], axis=-1)
        embedded = params["embedding"][windows].reshape(rows, length, -1)
        hidden = jax.nn.relu(embedded @ params["hidden"] + params["bias"])
        return hidden @ params["output"] + params["output_bias"]

    def update(self, state: TrainState, batch: UInt8[Array, "row time"]) -> TrainState:
        gradients = jax.grad(lambda params: mean_nats(self, params, batch))(state.params)
        updates, optimiser = self._optimiser().update(gradients, state.optimiser, state.params)
        return TrainState(optax.apply_updates(state.params, updates), optimiser)

    def _optimiser(self) -> optax.GradientTransformation:
        schedule = optax.cosine_decay_schedule(self.learning_rate, self.n_steps, self.final_rate)
        return optax.adam(schedule)
