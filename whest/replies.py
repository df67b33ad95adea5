"""What a worker answers, believed only as far as its form is right."""

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from whest.case import Failure, Prediction
from whest.child import WorkerFailedError
from whest.estimator import SetupContext
from whest.meter import Cost, Timing
from whest.traced import check_output, checked_prediction
from whest.wire import Message


def largest_answer(context: SetupContext) -> int:
    """Bytes of a prediction, with room for a wrong one that deserves a good message."""
    return 64 * context.depth * context.width + 2**20


def unexpected(error: Exception) -> Failure:
    """Whatever a worker's answer made of us: its MLP fails, the suite goes on."""
    return Failure("WORKER_DIED", f"the worker's answer could not be used ({type(error).__name__}: {error})"[:1000])


def read_failure(fields: Any) -> Failure:
    return validated(Failure, fields)


def read_cost(fields: Any) -> Cost:
    cost: Cost = validated(Cost, fields)
    if any(not 0 <= charge.flops < 2**100 or charge.calls < 0 for charge in cost.charges):
        raise WorkerFailedError(Failure("WORKER_DIED", "the worker sent a cost that isn't a number of FLOPs"), 0.0)
    return cost


def read_timing(fields: Any) -> Timing:
    timing: Timing = validated(Timing, fields)
    if not all(0 <= seconds < 1e9 for seconds in vars(timing).values()):
        raise WorkerFailedError(Failure("WORKER_DIED", "the worker sent times that aren't seconds"), 0.0)
    return timing


def read_prediction(reply: Message, results: list[np.ndarray], context: SetupContext) -> Prediction:
    """A worker's answer, believed only as far as its form is right."""
    cost, timing = read_cost(reply.get("cost")), read_timing(reply.get("timing"))
    compile_time_s = read_timing({"overhead_time_s": reply.get("compile_time_s")}).overhead_time_s
    if reply.get("failure") is not None:
        return Prediction(None, cost, timing, read_failure(reply["failure"]), compile_time_s)
    if not results:
        return Prediction(None, cost, timing, compile_time_s=compile_time_s)
    wrong = check_output(results[0], context)
    if wrong is not None:
        return Prediction(None, cost, timing, wrong, compile_time_s)
    return replace(checked_prediction(results[0], cost, timing), compile_time_s=compile_time_s)


def validated(kind: Any, fields: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_python(fields)
    except ValidationError as error:
        problem = f"the worker sent a malformed {kind.__name__}: {error.error_count()} problems"
        raise WorkerFailedError(Failure("WORKER_DIED", problem), 0.0) from None
