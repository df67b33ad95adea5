"""A byte learner as three traced programs over flat arrays: all that a harness ever runs of it.

A learner that is trusted is traced here. A stranger's is traced in a worker, which sends its programs as plain data
(`whest.isolation.portable`), so that none of its Python runs beside the text or the loss.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whest.cost import Cost
from whest.errors import WhestError
from whest.host import is_users_code
from whest.learner.contract import N_BYTES, TIME_LEFT, Learner, LearnerContext, asks_time_left, nats, tokens_of
from whest.metering.internals import ClosedJaxpr, Literal, jaxpr_as_fun
from whest.metering.walk import cost_of
from whest.metering.xla import count

Leaves = list[Any]

KEY_DATA = jax.ShapeDtypeStruct((2,), jnp.uint32)

LARGEST_CONSTANTS = 65536
"""Bytes of arrays a learner's programs may bring along: weights come from `init(key)`."""

FORWARD_SHARE, FREE_FLOPS_A_BYTE = 2, 16_384
"""Logits may cost so many times what an update does, and a little more: an honest update has its own pass inside."""

NAMES = ("init", "logits", "update")


class LearnerError(WhestError):
    """A learner that can't be scored: what it did, and what the contract says."""


@dataclass(frozen=True)
class FlatLearner:
    """A learner's functions over the flat leaves of its state."""

    rows_per_step: int
    params_at: tuple[int, ...]
    """Which leaves of the state `logits` sees."""
    init: Callable[..., Leaves]
    logits: Callable[..., Leaves]
    update: Callable[..., Leaves]
    asks_time_left: bool = False
    """Whether the last argument of `update` is the share of the budget that is left."""


@dataclass(frozen=True)
class Programs:
    """Traced, checked and metered."""

    rows_per_step: int
    params_at: tuple[int, ...]
    init: ClosedJaxpr
    logits: ClosedJaxpr
    update: ClosedJaxpr
    update_cost: Cost
    """Of one step: what the budget pays for."""
    forward_cost: Cost
    """Of one batch's loss, which the harness takes for itself."""
    asks_time_left: bool = False

    def start(self, seed: int) -> Leaves:
        """The forced start: from the harness's key and nothing else."""
        leaves: Leaves = jax.jit(jaxpr_as_fun(self.init))(jax.random.key_data(jax.random.key(seed)))
        return list(leaves)

    def params(self, leaves: Sequence[Any]) -> Leaves:
        return [leaves[i] for i in self.params_at]

    def told(self, time_left: float) -> tuple[np.float32, ...]:
        """What `update` gets after the batch."""
        return (np.float32(time_left),) if self.asks_time_left else ()

    @property
    def constant_bytes(self) -> int:
        return sum(map(_constant_bytes, (self.init, self.logits, self.update)))


def flatten_learner(learner: Learner) -> FlatLearner:
    """The functions with pytrees taken apart; what an update returns must be what it was given."""
    shape = jax.eval_shape(lambda key_data: learner.init(jax.random.wrap_key_data(key_data)), KEY_DATA)
    leaves, form = jax.tree.flatten(shape)
    marked = jax.tree.unflatten(form, list(range(len(leaves))))
    if not hasattr(marked, "params"):
        raise LearnerError(f"init returned {type(shape).__name__}, which has no field params for logits to see")
    params_at, params_form = jax.tree.flatten(marked.params)

    def init(key_data: Any) -> Leaves:
        return _strong(jax.tree.leaves(learner.init(jax.random.wrap_key_data(key_data))))

    def logits(*args: Any) -> Leaves:
        *params, tokens = args
        return [learner.logits(jax.tree.unflatten(params_form, params), tokens)]

    asks = asks_time_left(learner)

    def update(*args: Any) -> Leaves:
        state, (batch, *left) = args[: len(leaves)], args[len(leaves) :]
        told = dict(zip(("time_left",), left, strict=asks))
        after, after_form = jax.tree.flatten(learner.update(jax.tree.unflatten(form, state), batch, **told))
        if str(after_form) != str(form):
            raise LearnerError(f"update returned another kind of state than init: {after_form}, not {form}")
        return _strong(after)

    return FlatLearner(learner.rows_per_step, tuple(params_at), init, logits, update, asks)


def _place(error: Exception) -> str:
    """Where in the learner's own code it went wrong: the innermost frame that isn't a library's or ours."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users_code(frame.filename)]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name})" if own else ""


def trace_programs(flat: FlatLearner, context: LearnerContext) -> Programs:
    """Trace, check shapes and meter; whatever is wrong is said in the contract's words."""
    batch = jax.ShapeDtypeStruct((flat.rows_per_step, context.row_length), jnp.uint8)
    tokens = jax.ShapeDtypeStruct(batch.shape, jnp.int32)
    try:
        init = jax.make_jaxpr(flat.init)(KEY_DATA)
        state = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in init.out_avals]
        logits = jax.make_jaxpr(flat.logits)(*(state[i] for i in flat.params_at), tokens)
        update = jax.make_jaxpr(flat.update)(*state, batch, *([TIME_LEFT] if flat.asks_time_left else []))
    except WhestError:
        raise
    except Exception as error:
        raise LearnerError(
            f"the learner could not be traced{_place(error)}: {type(error).__name__}: {error}"
        ) from error
    _check_shapes(init, logits, update, (*batch.shape, N_BYTES))
    _refuse_luggage([init, logits, update])

    def loss(*args: Any) -> Any:
        return nats(jaxpr_as_fun(logits)(*args[:-1], tokens_of(args[-1]))[0], args[-1])

    forward = cost_of(jax.make_jaxpr(loss)(*(state[i] for i in flat.params_at), batch))
    _refuse_free_work(cost_of(update), forward, flat.rows_per_step * context.row_length)
    cost = count(update).cost()
    return Programs(flat.rows_per_step, flat.params_at, init, logits, update, cost, forward, flat.asks_time_left)


def _check_shapes(init: ClosedJaxpr, logits: ClosedJaxpr, update: ClosedJaxpr, wanted: tuple[int, ...]) -> None:
    if len(logits.out_avals) != 1 or len(update.out_avals) != len(init.out_avals):
        raise LearnerError("logits returns one array, and update as many arrays as init")
    got = logits.out_avals[0]
    if tuple(got.shape) != wanted or not jnp.issubdtype(got.dtype, jnp.floating):
        raise LearnerError(f"logits returned {got.dtype}{list(got.shape)}, expected float32{list(wanted)}")
    before = [(aval.shape, aval.dtype) for aval in init.out_avals]
    after = [(aval.shape, aval.dtype) for aval in update.out_avals]
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new:
            raise LearnerError(f"update turned array {number} of the state from {old[1]}{old[0]} into {new[1]}{new[0]}")


def _refuse_luggage(programs: Sequence[ClosedJaxpr]) -> None:
    """Constants in a program are weights nobody learnt."""
    size = sum(_constant_bytes(program) for program in programs)
    if size > LARGEST_CONSTANTS:
        raise LearnerError(
            f"the learner's programs bring {size:,} bytes of constants along, at most {LARGEST_CONSTANTS:,} are "
            "allowed: what it knows must come from init(key) and the stream"
        )


def _constant_bytes(program: ClosedJaxpr) -> int:
    """Those of inner programs too."""
    own = sum(int(np.asarray(const).nbytes) for const in program.consts if hasattr(const, "shape"))
    literals = (atom for eqn in program.jaxpr.eqns for atom in eqn.invars if isinstance(atom, Literal))
    own += sum(int(np.asarray(literal.val).nbytes) for literal in literals)
    inner = [
        value
        for eqn in program.jaxpr.eqns
        for param in eqn.params.values()
        for value in (param if isinstance(param, tuple | list) else (param,))
        if isinstance(value, ClosedJaxpr)
    ]
    return own + sum(map(_constant_bytes, inner))


def _refuse_free_work(update: Cost, forward: Cost, n_bytes: int) -> None:
    """The budget pays for updates alone, so what a learner does must be done there."""
    most = FORWARD_SHARE * update.flops + FREE_FLOPS_A_BYTE * n_bytes
    if forward.flops > most:
        raise LearnerError(
            f"a batch's logits cost {forward.flops:.4g} FLOPs, its update {update.flops:.4g}: logits, which are free, "
            f"may cost {FORWARD_SHARE} times what the update does, for which the budget pays, and "
            f"{FREE_FLOPS_A_BYTE:,} a byte"
        )


def _strong(leaves: Sequence[Any]) -> Leaves:
    """Arrays of a dtype that doesn't give way, so that a state goes round unchanged."""
    return [
        leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.extended) else jnp.asarray(leaf, leaf.dtype)
        for leaf in map(jnp.asarray, leaves)
    ]
