"""Byte learners: the contract, and what anyone who trains one needs to know of it.

A learner starts from nothing (`init`), predicts every byte of a row from those before it (`logits`) and learns from a
batch it was just charged for (`update`). All three are JAX programs, traced once: no host work, no clock, and nothing
remembered between calls but the state they hand on.
"""

import inspect
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray, UInt8

from whest.cost import Cost
from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec
from whest.metering.walk import cost_of

BOS = 256
"""The token before a row's first byte."""

N_TOKENS = 257

N_BYTES = 256

METHODS = ("init", "logits", "update")

TIME_LEFT = jax.ShapeDtypeStruct((), jnp.float32)
"""The share of the budget that is left before an update: 1 at the first. Only a learner that asks for it gets it."""


@dataclass(frozen=True)
class LearnerContext:
    """What `setup` is told: the rules of the run, nothing of its text."""

    flop_budget: int
    row_length: int
    n_bytes: int
    """Of the stream: there is no second pass."""
    seed: int


class State(Protocol):
    """Whatever a learner hands on, as a pytree; `params` is the part `logits` may see."""

    @property
    def params(self) -> Any: ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """The state most learners need: parameters, and what their optimiser remembers."""

    params: Any
    optimiser: Any


class Learner(Protocol):
    """Knobs are its dataclass fields. It may also have `setup(context)`, to size itself to the budget.

    `update(state, batch, time_left)` is also told the share of the budget that is left, by this name of its argument.
    """

    @property
    def rows_per_step(self) -> int:
        """How many rows a step brings."""
        ...

    def init(self, key: PRNGKeyArray) -> State: ...

    def logits(self, params: Any, tokens: Int32[Array, "row time"]) -> Float[Array, "row time 256"]:
        """Of byte t, from tokens 0…t of the same row: BOS and the bytes before it."""
        ...

    def update(self, state: Any, batch: UInt8[Array, "row time"]) -> Any: ...


def tokens_of(batch: UInt8[Array, "row time"]) -> Int32[Array, "row time"]:
    """What `logits` is shown of a batch: BOS, then all bytes but the last."""
    return jnp.pad(batch[:, :-1].astype(jnp.int32), ((0, 0), (1, 0)), constant_values=BOS)


def nats(logits: Float[Array, "row time 256"], batch: UInt8[Array, "row time"]) -> Float[Array, "row time"]:
    """The code length of every byte, as the harness charges it: never below zero, however large the logits are."""
    return code_lengths(logits - logits.max(axis=-1, keepdims=True), batch)


def code_lengths(logits: Float[Array, "row time 256"], batch: UInt8[Array, "row time"]) -> Float[Array, "row time"]:
    """The same for logits of a sensible size, a little cheaper."""
    own = jnp.take_along_axis(logits, batch[..., None].astype(jnp.int32), axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - own


def mean_nats(learner: Learner, params: Any, batch: UInt8[Array, "row time"]) -> Float[Array, ""]:
    """What most learners descend on."""
    return code_lengths(learner.logits(params, tokens_of(batch)), batch).mean()


def create_learner(spec: EstimatorSpec, context: LearnerContext) -> Learner:
    """A config's learner, told the rules; what is no learner is an error that says what one has."""
    learner: Any = spec.create()
    missing = [name for name in METHODS if not callable(getattr(learner, name, None))]
    if missing:
        raise ConfigError(
            f"estimator={spec.name} is no byte learner: it has no {missing[0]}(); a learner has "
            "init(key), logits(params, tokens) and update(state, batch), for example estimator=byte_mlp"
        )
    rows = getattr(learner, "rows_per_step", None)
    if type(rows) is not int or rows < 1:
        raise ConfigError(f"estimator.rows_per_step must be a whole number from 1, got {rows!r}")
    setup = getattr(learner, "setup", None)
    if setup is not None:
        setup(context)
    checked: Learner = learner
    return checked


def batch_shape(learner: Learner, context: LearnerContext) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((learner.rows_per_step, context.row_length), jnp.uint8)


def step_cost(learner: Learner, context: LearnerContext) -> Cost:
    """What one `update` costs: the part of training that the budget pays for."""
    state = jax.eval_shape(learner.init, jax.random.key(0))
    plain = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), state)  # as a run keeps it
    told = {"time_left": TIME_LEFT} if asks_time_left(learner) else {}
    return cost_of(jax.make_jaxpr(learner.update)(plain, batch_shape(learner, context), **told))


def asks_time_left(learner: Learner) -> bool:
    """Whether `update` has an argument `time_left`."""
    try:
        return "time_left" in inspect.signature(learner.update).parameters
    except (TypeError, ValueError):  # something callable that has no signature
        return False


def affordable_steps(learner: Learner, context: LearnerContext) -> int:
    """Steps until the budget or the stream is spent."""
    in_stream = context.n_bytes // (learner.rows_per_step * context.row_length)
    flops = step_cost(learner, context).flops
    return min(context.flop_budget // flops, in_stream) if flops else in_stream
