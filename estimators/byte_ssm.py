"""A linear-time recurrent learner: gated leaky averages of the past, computed by an associative scan.

    h_t = a_t ⊙ h_{t−1} + (1 − a_t) ⊙ v_t,   a_t = σ(A x_t + a),   v_t = V x_t,   y_t = h_t ⊙ g_t,   g_t = silu(G x_t)

x_t is the sum of the embeddings of the last few bytes. The input sets how fast each unit forgets: after a few bytes, or
not within the whole row. The state is kept from row to row. So with one row per step, a row continues where the row
before it ended. The scan costs the FLOPs of its log₂(row) rounds.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32, PRNGKeyArray, UInt8
from pydantic import Field

from whest.learner import N_BYTES, N_TOKENS, LearnerContext, TrainState, affordable_steps, nats, tokens_of

Size = Annotated[int, Field(ge=1, le=65536)]


@dataclass
class ByteSSM:
    rows_per_step: Size
    width: Size
    """Number of units of the recurrence."""
    recent: Size
    """Number of last tokens whose embeddings are added to the input."""
    hidden: Size
    learning_rate: Annotated[float, Field(gt=0)]
    final_rate: Annotated[float, Field(ge=0, le=1)]
    n_steps: int = field(default=1, init=False)

    def setup(self, context: LearnerContext) -> None:
        self.n_steps = max(1, affordable_steps(self, context))

    def init(self, key: PRNGKeyArray) -> TrainState:
        keys = jax.random.split(key, 4)
        width = self.width
        net = {
            "embedding": jax.random.normal(keys[0], (self.recent, N_TOKENS, width)) * self.recent**-0.5,
            "into": jax.random.normal(keys[1], (width, 3 * width)) * width**-0.5,
            "pace": jnp.linspace(-1.0, 5.0, width),
            "up": jax.random.normal(keys[2], (2 * width, self.hidden)) * width**-0.5,
            "bias": jnp.zeros(self.hidden),
            "output": jnp.zeros((self.hidden, N_BYTES)),
            "output_bias": jnp.zeros(N_BYTES),
        }
        params = {"net": net, "carried": jnp.zeros(width)}
        return TrainState(params, self._optimiser().init(net))

    def logits(self, params: Any, tokens: Int32[Array, "row time"]) -> Float[Array, "row time 256"]:
        return self._forward(params["net"], params["carried"], tokens)[0]

    def _forward(
        self, net: Any, carried: Float[Array, " width"], tokens: Int32[Array, "row time"]
    ) -> tuple[Float[Array, "row time 256"], Float[Array, " width"]]:
        """Logits, and the recurrence's state at the end of the last row."""
        length = tokens.shape[1]
        padded = jnp.pad(tokens, ((0, 0), (self.recent - 1, 0)), constant_values=N_TOKENS - 1)
        x = sum(
            net["embedding"][i][padded[:, self.recent - 1 - i : self.recent - 1 - i + length]]
            for i in range(self.recent)
        )
        value, pace, gate = jnp.split(x @ net["into"], 3, axis=-1)
        kept = jax.nn.sigmoid(pace + net["pace"])
        added = (1 - kept) * value
        added = added.at[:, 0].add(kept[:, 0] * carried)
        with jax.named_scope("scan"):
            _, state = jax.lax.associative_scan(_compose, (kept, added), axis=1)
        joined = jnp.concatenate([state * jax.nn.silu(gate) * 3, x], axis=-1)
        hidden = jax.nn.relu(joined @ net["up"] + net["bias"])
        return hidden @ net["output"] + net["output_bias"], state[-1, -1]

    def update(self, state: TrainState, batch: UInt8[Array, "row time"]) -> TrainState:
        def loss(net: Any) -> tuple[Float[Array, ""], Float[Array, " width"]]:
            logits, last = self._forward(net, state.params["carried"], tokens_of(batch))
            return nats(logits, batch).mean(), last

        net = state.params["net"]
        gradients, last = jax.grad(loss, has_aux=True)(net)
        updates, optimiser = self._optimiser().update(gradients, state.optimiser, net)
        return TrainState({"net": optax.apply_updates(net, updates), "carried": last}, optimiser)

    def _optimiser(self) -> optax.GradientTransformation:
        schedule = optax.cosine_decay_schedule(self.learning_rate, self.n_steps, self.final_rate)
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule, b2=0.99))


def _compose(first: Any, second: Any) -> Any:
    """Two steps of h → a·h + b as one."""
    return first[0] * second[0], second[0] * first[1] + second[1]
