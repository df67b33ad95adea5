"""A stranger's byte learner: traced in one worker, which sends its programs as plain data, to be run in another."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from whest.errors import WhestError
from whest.estimator.spec import EstimatorSpec
from whest.isolation.bounds import check_bounds
from whest.isolation.channel import Message
from whest.isolation.messages import WorkerFailedError
from whest.isolation.portable import read_program, write_program
from whest.isolation.process import Worker, World
from whest.isolation.wire import PROGRAM
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.programs import NAMES, FlatLearner, LearnerError, Programs, flatten_learner, trace_programs
from whest.learner.size import LARGEST_WRITTEN, program_bytes


@dataclass(frozen=True)
class WorkerContext(LearnerContext):
    """What a worker is told."""

    scratch_dir: str = ""


@dataclass(frozen=True)
class Sent:
    """A learner's programs as its worker sent them: bounded in size, and not read yet."""

    document: Message
    arrays: Sequence[np.ndarray]
    n_bytes: int
    """Under gzip."""


def trace_in_worker(worker: Worker, world: World) -> Sent:
    """A stranger's learner as programs; its Python runs in this worker, which is gone before the first byte is read."""
    limit_s = world.limits.setup_timeout_s
    try:
        worker.wait_until_ready()
        document, arrays = worker.ask({"do": "trace"}, (), limit_s, LARGEST_WRITTEN, PROGRAM.arrays)
    except WorkerFailedError as error:
        raise explained(error, "tracing the learner", f"setup_timeout_s={limit_s}") from None
    if "failure" in document:
        raise LearnerError(str(document["failure"]))
    return Sent(document, arrays, weighed(document, arrays))


def weighed(document: Message, arrays: Sequence[np.ndarray]) -> int:
    """Bytes under gzip of what a worker sent, which is first seen to be shallow and short enough to be handled."""
    check_bounds(document, arrays)
    return program_bytes(document, arrays)


def explained(error: WorkerFailedError, work: str, limit: str) -> WorkerFailedError:
    """The same failure, with the work that was stopped and the limit it ran into."""
    what = f"{work} took more than {limit}: killed" if error.is_timeout else f"{work}: {error.failure.message}"
    what += " (memory_limit_mb)" if error.failure.code == "OUT_OF_MEMORY" else ""
    return WorkerFailedError(replace(error.failure, message=what[:4000]), error.elapsed_s, error.is_timeout)


def written_programs(programs: Programs) -> tuple[Message, list[np.ndarray]]:
    """A learner's three programs as plain data."""
    written = {name: write_program(getattr(programs, name)) for name in NAMES}
    ends = np.cumsum([0, *(len(arrays) for _, arrays in written.values())]).tolist()
    asked = {"time_left": True} if programs.asks_time_left else {}
    return {
        **asked,
        "rows_per_step": programs.rows_per_step,
        "params_at": list(programs.params_at),
        "programs": {name: document for name, (document, _) in written.items()},
        "arrays": {name: [ends[i], ends[i + 1]] for i, name in enumerate(NAMES)},
    }, [array for _, arrays in written.values() for array in arrays]


def read_flat(document: Message, arrays: Sequence[np.ndarray]) -> FlatLearner:
    """What a worker sent, believed only as far as its form is right."""
    try:
        rows, params_at, programs = document["rows_per_step"], document["params_at"], document["programs"]
        if type(rows) is not int or rows < 1 or not all(type(i) is int and i >= 0 for i in params_at):
            raise ValueError("rows_per_step and params_at are whole numbers")
        asks = asked_time_left(document)
        functions = {name: read_program(programs[name], arrays[slice(*document["arrays"][name])]) for name in NAMES}
    except (KeyError, TypeError, ValueError) as error:
        raise LearnerError(f"the worker sent no learner ({type(error).__name__}: {error})") from None
    return FlatLearner(rows, tuple(params_at), **functions, asks_time_left=asks)


def asked_time_left(document: Message) -> bool:
    """Whether `update` has one more input. The word is left out where it has not."""
    asks = document.get("time_left", False)
    if type(asks) is not bool:
        raise ValueError("time_left is true or left out")
    return asks


def told_context(start: Message) -> LearnerContext:
    known = {field.name for field in fields(LearnerContext)}
    return LearnerContext(**{name: value for name, value in start.items() if name in known})


def answer_in_worker(spec: EstimatorSpec, start: Message) -> tuple[Message, list[np.ndarray]]:
    """The worker's side: make the learner, trace it and write its programs down."""
    context = told_context(start)
    try:
        return written_programs(trace_programs(flatten_learner(create_learner(spec, context)), context))
    except (Exception, SystemExit) as error:
        said = str(error) if isinstance(error, WhestError) else f"{type(error).__name__}: {error}"
        return {"failure": f"estimator={spec.name} can't be scored: {said}"[:4000]}, []
