"""A learner as plain data: its `init`, `update` and `logits`, traced and written down, then read back elsewhere.

Whoever trains or grades a model reads these and never imports the learner, so what it costs and what it starts from
can't be talked about by the learner itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr

from whest.errors import WhestError
from whest.learner import N_BYTES, Learner
from whest.portable import read_program, write_program

KEY_DATA = jax.ShapeDtypeStruct((2,), jnp.uint32)
NAMES = ("init", "update", "loss", "answer")
Leaves = list[Any]


class LearnerError(WhestError):
    """A learner that breaks its contract."""


@dataclass(frozen=True)
class LearnerPrograms:
    """What travels: a document a program, their constants, and which of the state's leaves are the parameters."""

    documents: Mapping[str, Any]
    constants: Mapping[str, Sequence[np.ndarray]]
    params: tuple[int, ...]
    rows_per_step: int
    row_length: int

    def function(self, name: str) -> Callable[..., Leaves]:
        return read_program(self.documents[name], self.constants[name])


def trace_learner(learner: Learner, row_length: int) -> LearnerPrograms:
    """Trace each function for the shapes it will be run with; `answer` is `logits` on a single row."""
    state = jax.eval_shape(lambda data: learner.init(jax.random.wrap_key_data(data)), KEY_DATA)
    leaves, structure = jax.tree.flatten(state)
    numbered = jax.tree.unflatten(structure, list(range(len(leaves))))
    params = tuple(jax.tree.leaves(numbered.params))
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    rows = learner.rows_per_step

    def init(key_data: Any) -> Leaves:
        return _plain(learner.init(jax.random.wrap_key_data(key_data)))

    def update(*arguments: Any) -> Leaves:
        *before, batch = arguments
        return _plain(learner.update(jax.tree.unflatten(structure, before), batch))

    def logits(*arguments: Any) -> Leaves:
        *before, tokens = arguments
        return [learner.logits(jax.tree.unflatten(jax.tree.structure(state.params), before), tokens)]

    own = [shapes[i] for i in params]
    traced = {
        "init": jax.make_jaxpr(init)(KEY_DATA),
        "update": jax.make_jaxpr(update)(*shapes, jax.ShapeDtypeStruct((rows, row_length), jnp.uint8)),
        "loss": jax.make_jaxpr(logits)(*own, jax.ShapeDtypeStruct((rows, row_length), jnp.int32)),
        "answer": jax.make_jaxpr(logits)(*own, jax.ShapeDtypeStruct((1, row_length), jnp.int32)),
    }
    _check(traced, shapes, rows, row_length)
    written = {name: write_program(program) for name, program in traced.items()}
    return LearnerPrograms(
        {name: document for name, (document, _) in written.items()},
        {name: constants for name, (_, constants) in written.items()},
        params,
        rows,
        row_length,
    )


def write_programs(programs: LearnerPrograms) -> tuple[dict[str, Any], list[np.ndarray]]:
    message = {
        "documents": dict(programs.documents),
        "n_constants": [len(programs.constants[name]) for name in NAMES],
        "params": list(programs.params),
        "rows_per_step": programs.rows_per_step,
        "row_length": programs.row_length,
    }
    return message, [array for name in NAMES for array in programs.constants[name]]


def read_programs(message: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> LearnerPrograms:
    ends = np.cumsum([0, *message["n_constants"]])
    constants = {name: list(arrays[ends[i] : ends[i + 1]]) for i, name in enumerate(NAMES)}
    return LearnerPrograms(
        {name: message["documents"][name] for name in NAMES},
        constants,
        tuple(int(i) for i in message["params"]),
        int(message["rows_per_step"]),
        int(message["row_length"]),
    )


def _plain(state: Any) -> Leaves:
    """The leaves with types of their own, not those of the Python numbers they were made of."""
    return [lax.convert_element_type(leaf, leaf.dtype) for leaf in map(jnp.asarray, jax.tree.leaves(state))]


def _check(traced: Mapping[str, ClosedJaxpr], state: Sequence[Any], rows: int, row_length: int) -> None:
    after = [(aval.shape, aval.dtype) for aval in traced["update"].out_avals]
    before = [(leaf.shape, leaf.dtype) for leaf in state]
    if after != before:
        changed = next((pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]), (before, after))
        raise LearnerError(f"update must return a state like init's: {changed[0]} became {changed[1]}")
    for name, n in (("loss", rows), ("answer", 1)):
        (found,) = traced[name].out_avals
        if found.shape != (n, row_length, N_BYTES):
            raise LearnerError(f"logits must have the shape {(n, row_length, N_BYTES)}, got {found.shape}")
