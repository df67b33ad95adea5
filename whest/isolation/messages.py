"""What a worker answers, believed only as far as its form is right."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from whest.cases.prediction import Failure, Prediction
from whest.cost import Cost, Timing
from whest.estimator.calling import check_output, checked_prediction
from whest.estimator.contract import SetupContext
from whest.estimator.spec import EstimatorSpec
from whest.isolation.channel import Message
from whest.mlp import MLP


class WorkerFailedError(Exception):
    """A worker gave no usable answer."""

    def __init__(self, failure: Failure, elapsed_s: float, is_timeout: bool = False) -> None:
        super().__init__(failure.message)
        self.failure, self.elapsed_s, self.is_timeout = failure, elapsed_s, is_timeout


LONGEST_TEXT, LONGEST_NAME, MOST_CHARGES = 4000, 300, 20_000
"""Of an error's text, in characters; of a name in a cost; of the rows of a cost."""

TEXTS = ("broken", "error", "exception", "failure", "message", "traceback", "where")


def cut(text: str) -> str:
    """A text of a worker, as far as a report should carry it: a traceback is most useful at its end."""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters cut …\n{text[-half:]}"


def cut_texts(reply: Message) -> Message:
    """An answer with its error texts cut."""
    return {name: cut(value) if name in TEXTS and isinstance(value, str) else value for name, value in reply.items()}


def largest_answer(context: SetupContext) -> int:
    """Bytes of a prediction, with room for a wrong one that deserves a good message."""
    return 64 * context.depth * context.width + 2**20


def unexpected(error: Exception) -> Failure:
    """Whatever a worker's answer made of us: its MLP fails, the suite goes on."""
    return Failure("WORKER_DIED", f"the worker's answer could not be used ({type(error).__name__}: {error})"[:1000])


def read_failure(fields: Any) -> Failure:
    failure: Failure = validated(Failure, cut_texts(fields) if isinstance(fields, dict) else fields)
    return failure


def read_cost(fields: Any) -> Cost:
    charges = fields.get("charges") if isinstance(fields, dict) else None
    unknown = fields.get("xla_unknown") if isinstance(fields, dict) else None
    unpriced = fields.get("peer_unpriced") if isinstance(fields, dict) else None
    for rows in (charges, unknown, unpriced):
        if isinstance(rows, list | tuple) and len(rows) > MOST_CHARGES:
            raise WorkerFailedError(Failure("WORKER_DIED", f"the worker sent a cost of {len(rows):,} rows"), 0.0)
    cost: Cost = validated(Cost, fields)
    names = [name for charge in cost.charges for name in (charge.namespace, charge.operation)]
    if any(len(name) > LONGEST_NAME for name in (*names, *cost.xla_unknown, *cost.peer_unpriced)):
        raise WorkerFailedError(Failure("WORKER_DIED", "the worker sent a cost with a name too long to be one"), 0.0)
    figures = [*(charge.flops for charge in cost.charges), cost.flops_xla or 0, cost.flops_peer or 0]
    if not all(0 <= flops < 2**100 for flops in figures) or any(charge.calls < 0 for charge in cost.charges):
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


Arrays = Sequence[np.ndarray]

Answer = tuple[Message, list[np.ndarray]]

Traced = tuple[Message, list[np.ndarray]]
"""Programs as a worker that traced sends them: a message and the arrays beside it."""


def write_spec(spec: EstimatorSpec) -> Message:
    return {**asdict(spec), "path": str(spec.path) if spec.path else None, "knobs": dict(spec.knobs)}


def read_spec(fields: Message) -> EstimatorSpec:
    return EstimatorSpec(**{**fields, "path": Path(fields["path"]) if fields["path"] else None})


def write_mlp(mlp: MLP) -> Answer:
    """Weights and the estimator's seed; the name only where the estimator may see it, truth never."""
    return {"do": "predict", "seed": mlp.seed, "name": mlp.name}, [mlp.weights]


def read_mlp(message: Message, arrays: Arrays) -> MLP:
    return MLP(arrays[0], message["seed"], message["name"], np.random.SeedSequence(0))


def write_cost(cost: Cost) -> Message:
    return asdict(cost)


def write_prediction(prediction: Prediction) -> Answer:
    message = {
        "cost": write_cost(prediction.cost),
        "timing": asdict(prediction.timing),
        "failure": asdict(prediction.failure) if prediction.failure else None,
        "compile_time_s": prediction.compile_time_s,
    }
    return message, [] if prediction.means is None else [prediction.means]
