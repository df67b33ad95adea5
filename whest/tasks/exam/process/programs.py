"""A learner's programs, sent between processes: those for training, and one that answers.

The processes that train and grade read these programs and never import the learner. So the learner can't lie about its
cost or its start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whest.isolation.channel import Message
from whest.isolation.learner import asked_time_left
from whest.isolation.portable import read_program, write_program
from whest.learner.contract import Learner, LearnerContext
from whest.learner.programs import (
    LARGEST_CONSTANTS,
    FlatLearner,
    LearnerError,
    Programs,
    flatten_learner,
    trace_programs,
)

NAMES = ("init", "logits", "update", "answer")


@dataclass(frozen=True)
class ExamPrograms:
    """The programs, traced and metered again by the reader. `answer` stays a document, which is copied into bundles."""

    learning: Programs
    answer: Mapping[str, Any]
    answer_constants: Sequence[np.ndarray]


def write_programs(learner: Learner, context: LearnerContext) -> tuple[Message, list[np.ndarray]]:
    """Trace each function for its shapes. `answer` is `logits` on a single row."""
    flat = flatten_learner(learner)
    programs = trace_programs(flat, context)
    params = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in programs.logits.in_avals[:-1]]
    answer = jax.make_jaxpr(flat.logits)(*params, jax.ShapeDtypeStruct((1, context.row_length), jnp.int32))
    traced = {"init": programs.init, "logits": programs.logits, "update": programs.update, "answer": answer}
    written = {name: write_program(traced[name]) for name in NAMES}
    message = {
        "documents": {name: document for name, (document, _) in written.items()},
        "n_constants": [len(written[name][1]) for name in NAMES],
        "params_at": list(programs.params_at),
        "rows_per_step": programs.rows_per_step,
        **({"time_left": True} if programs.asks_time_left else {}),
    }
    return message, [array for name in NAMES for array in written[name][1]]


def read_programs(message: Message, arrays: Sequence[np.ndarray], context: LearnerContext) -> ExamPrograms:
    ends = np.cumsum([0, *message["n_constants"]]).tolist()
    constants = {name: arrays[ends[i] : ends[i + 1]] for i, name in enumerate(NAMES)}
    init, logits, update = (read_program(message["documents"][name], constants[name]) for name in NAMES[:3])
    size = sum(array.nbytes for array in constants["answer"])
    if size > LARGEST_CONSTANTS:  # the learner runs in the tracer: it could send another program than logits
        raise LearnerError(
            f"the program that answers has {size:,} bytes of constants, the limit is {LARGEST_CONSTANTS:,}"
        )
    params_at = tuple(int(i) for i in message["params_at"])
    flat = FlatLearner(
        int(message["rows_per_step"]), params_at, init, logits, update, asks_time_left=asked_time_left(message)
    )
    return ExamPrograms(trace_programs(flat, context), message["documents"]["answer"], constants["answer"])
