"""A learner's programs on their way between processes, with one more than training needs: the one that answers.

Whoever trains or grades a model reads these and never imports the learner, so what it costs and what it starts from
can't be talked about by the learner itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whest.isolation.channel import Message
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
    """Traced and metered by whoever reads them; `answer` stays a document, which goes into bundles as it is."""

    learning: Programs
    answer: Mapping[str, Any]
    answer_constants: Sequence[np.ndarray]


def write_programs(learner: Learner, context: LearnerContext) -> tuple[Message, list[np.ndarray]]:
    """Trace each function for the shapes it will be run with; `answer` is `logits` on a single row."""
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
    }
    return message, [array for name in NAMES for array in written[name][1]]


def read_programs(message: Message, arrays: Sequence[np.ndarray], context: LearnerContext) -> ExamPrograms:
    ends = np.cumsum([0, *message["n_constants"]]).tolist()
    constants = {name: arrays[ends[i] : ends[i + 1]] for i, name in enumerate(NAMES)}
    init, logits, update = (read_program(message["documents"][name], constants[name]) for name in NAMES[:3])
    size = sum(array.nbytes for array in constants["answer"])
    if size > LARGEST_CONSTANTS:  # the tracer is the learner's own process: it could send another program than logits
        raise LearnerError(
            f"the program that answers brings {size:,} bytes of constants, {LARGEST_CONSTANTS:,} are allowed"
        )
    params_at = tuple(int(i) for i in message["params_at"])
    flat = FlatLearner(int(message["rows_per_step"]), params_at, init, logits, update)
    return ExamPrograms(trace_programs(flat, context), message["documents"]["answer"], constants["answer"])
