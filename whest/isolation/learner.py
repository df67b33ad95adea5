"""A stranger's byte learner: traced in a worker, which sends its programs as plain data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from whest.errors import WhestError
from whest.estimator.spec import EstimatorSpec
from whest.isolation.channel import Message
from whest.isolation.messages import WorkerFailedError
from whest.isolation.portable import read_program, write_program
from whest.isolation.process import Worker, World
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.programs import NAMES, FlatLearner, LearnerError, Programs, flatten_learner, trace_programs
from whest.limits import WorkerLimits


@dataclass(frozen=True)
class WorkerContext(LearnerContext):
    """What a worker is told."""

    scratch_dir: str = ""


def trace_in_worker(
    spec: EstimatorSpec, context: LearnerContext, limits: WorkerLimits, hidden: Sequence[Path], cache: Path
) -> tuple[Programs, dict[str, str]]:
    """A stranger's learner as programs; its Python runs in a worker that is gone before the first byte is read."""
    world = World(spec, WorkerContext(**asdict(context)), limits, tuple(str(path) for path in hidden), cache)
    worker = Worker("learner", world)
    try:
        worker.wait_until_ready()
        reply, arrays = worker.ask({"do": "trace"}, timeout_s=limits.setup_timeout_s)
        protections = worker.protections
    except WorkerFailedError as error:
        raise LearnerError(f"estimator={spec.name} was not traced: {error.failure.message}") from None
    finally:
        worker.close()
    if "failure" in reply:
        raise LearnerError(str(reply["failure"]))
    return trace_programs(_read_flat(reply, arrays), context), protections


def _read_flat(reply: Message, arrays: Sequence[np.ndarray]) -> FlatLearner:
    """What a worker sent, believed only as far as its form is right."""
    try:
        rows, params_at, documents = reply["rows_per_step"], reply["params_at"], reply["programs"]
        if type(rows) is not int or rows < 1 or not all(type(i) is int and i >= 0 for i in params_at):
            raise ValueError("rows_per_step and params_at are whole numbers")
        functions = {name: read_program(documents[name], arrays[slice(*reply["arrays"][name])]) for name in NAMES}
    except (KeyError, TypeError, ValueError) as error:
        raise LearnerError(f"the worker sent no learner ({type(error).__name__}: {error})") from None
    return FlatLearner(rows, tuple(params_at), **functions)


def answer_in_worker(spec: EstimatorSpec, start: Message) -> tuple[Message, list[np.ndarray]]:
    """The worker's side: make the learner, trace it and write its programs down."""
    known = {field.name for field in fields(LearnerContext)}
    context = LearnerContext(**{name: value for name, value in start.items() if name in known})
    try:
        programs = trace_programs(flatten_learner(create_learner(spec, context)), context)
        written = {name: write_program(getattr(programs, name)) for name in NAMES}
    except (Exception, SystemExit) as error:
        said = str(error) if isinstance(error, WhestError) else f"{type(error).__name__}: {error}"
        return {"failure": f"estimator={spec.name} can't be scored: {said}"}, []
    ends = np.cumsum([0, *(len(arrays) for _, arrays in written.values())]).tolist()
    return {
        "rows_per_step": programs.rows_per_step,
        "params_at": list(programs.params_at),
        "programs": {name: document for name, (document, _) in written.items()},
        "arrays": {name: [ends[i], ends[i + 1]] for i, name in enumerate(NAMES)},
    }, [array for _, arrays in written.values() for array in arrays]
