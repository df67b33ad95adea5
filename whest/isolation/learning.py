"""A learner's programs, run in a worker: compiling and running a stranger's programs is never done in this process.

The worker is ours and imports no learner. It reads the programs as plain data, meters, compiles and runs them, shut in
like the worker that traced them. Many steps travel in one message, so that a stream costs about as much as in process.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from whest.cases.prediction import Failure
from whest.cases.prequential import Origin
from whest.errors import WhestError
from whest.estimator.spec import EstimatorSpec
from whest.isolation.channel import Message
from whest.isolation.learner import Sent, WorkerContext, explained, read_flat, told_context, trace_in_worker, weighed
from whest.isolation.messages import Answer, Arrays, Traced, WorkerFailedError, read_cost, write_cost
from whest.isolation.process import Worker, World
from whest.isolation.protections import in_both
from whest.learner.contract import N_BYTES, LearnerContext
from whest.learner.engine import Batch, Batches, Losses, TracedEngine
from whest.learner.programs import LearnerError, trace_programs
from whest.limits import WorkerLimits

GRACE_S = 5.0
"""How much later than the wall limit a worker is killed: a block that ends in time is still told."""

ROOM = 2**20
"""Bytes of an answer beyond what was asked for."""

Phase = Literal["setup", "stream"]


@contextmanager
def open_learner(
    spec: EstimatorSpec,
    context: LearnerContext,
    limits: WorkerLimits,
    hidden: Sequence[Path],
    cache: Path,
    require: tuple[str, ...] = (),
    sealed: Traced | None = None,
) -> Iterator[tuple["WorkerEngine", Origin]]:
    """Trace a stranger's learner in one worker; when that is gone, run its programs in another.

    A sealed learner was traced before, so it has the second worker alone.
    """
    names = tuple(str(path) for path in hidden)
    world = World(spec, WorkerContext(**asdict(context)), limits, names, cache, require)
    if sealed is None:
        with closing(Worker("learner", world)) as tracer:
            sent = trace_in_worker(tracer, world)
    else:
        sent = Sent(*sealed, weighed(*sealed))
    with closing(Worker("learn", world)) as runner:
        engine = WorkerEngine(runner, world, sent)
        found = runner.protections if sealed is not None else in_both(tracer.protections, runner.protections)
        yield engine, Origin(sent.n_bytes, found, engine.constant_bytes)


class WorkerEngine:
    """`Engine` by a worker. Too slow or too large a learner is killed: a `WorkerFailedError` that says why."""

    def __init__(self, worker: Worker, world: World, sent: Sent) -> None:
        self._worker, self._limits = worker, world.limits
        self._stream_began: float | None = None
        worker.wait_until_ready()
        reply, _ = self._ask("setup", "reading and metering the learner", {"do": "load", **sent.document}, sent.arrays)
        self.update_cost, self.forward_cost = read_cost(reply["update_cost"]), read_cost(reply["forward_cost"])
        self.constant_bytes = int(reply["constant_bytes"])
        self.rows_per_step: int = sent.document["rows_per_step"]
        self.compile_time_s = 0.0

    def begin(self, seed: int, batch: Batch) -> None:
        started = time.perf_counter()
        self._ask("setup", "compiling the learner", {"do": "begin", "seed": seed}, [batch])
        self.compile_time_s += time.perf_counter() - started

    def probe(self, batch: Batch, seed: int, with_noise: bool) -> None:
        message = {"do": "probe", "seed": seed, "with_noise": with_noise}
        self._ask("setup", "probing the learner", message, [batch])

    def losses(self, batches: Batches) -> Losses:
        _, (losses,) = self._ask("stream", "reading held-out text", {"do": "losses"}, [batches], batches.shape[:2])
        return losses

    def steps(
        self,
        batches: Batches,
        others: Batches,
        places: Int[np.ndarray, "batch row"],
        time_left: Float[np.ndarray, " batch"],
    ) -> tuple[Losses, Float[np.ndarray, " batch"]]:
        shapes = batches.shape[:2], batches.shape[:1]
        _, (losses, moved) = self._ask(
            "stream", "learning the stream", {"do": "steps"}, [batches, others, places, time_left], *shapes
        )
        return losses, moved

    def shadow(self, noise: Batches, text: Batches, time_left: Float[np.ndarray, " batch"]) -> Losses:
        arrays = [noise, text, time_left]
        _, (losses,) = self._ask("stream", "learning random bytes", {"do": "shadow"}, arrays, text.shape[:2])
        return losses

    def logits(self, batch: Batch) -> Float[np.ndarray, "row time 256"]:
        shape = (*batch.shape, N_BYTES)
        _, (logits,) = self._ask("stream", "reading held-out text", {"do": "logits"}, [batch], shape)
        return logits

    def close(self) -> None:
        self._worker.close()

    def _ask(
        self, phase: Phase, work: str, message: Message, arrays: Arrays, *shapes: tuple[int, ...]
    ) -> tuple[Message, list[np.ndarray]]:
        """One question within its limits, and arrays of the shapes that were asked for."""
        limit, timeout_s = self._allowed(phase)
        most = ROOM + sum(8 * int(np.prod(shape)) for shape in shapes)
        try:
            reply, found = self._worker.ask(message, arrays, timeout_s=timeout_s, largest_arrays=most)
        except WorkerFailedError as error:
            raise explained(error, work, limit) from None
        if "failure" in reply:
            raise LearnerError(str(reply["failure"])[:4000])
        if [array.shape for array in found] != list(shapes) or any(array.dtype.kind != "f" for array in found):
            raise WorkerFailedError(Failure("WORKER_DIED", f"{work}: the worker answered with other arrays"), 0.0)
        return reply, found

    def _allowed(self, phase: Phase) -> tuple[str, float | None]:
        """The limit in words, and the seconds that are left of it."""
        if phase == "setup":
            return f"setup_timeout_s={self._limits.setup_timeout_s}", self._limits.setup_timeout_s
        limit = self._limits.wall_time_limit_s
        self._stream_began = self._stream_began or time.monotonic()
        elapsed = time.monotonic() - self._stream_began
        return f"wall_time_limit_s={limit}", None if limit is None else max(0.0, limit - elapsed) + GRACE_S


def learning_answers(start: Message) -> Callable[[Message, Arrays], Answer]:
    """The worker's side: a `TracedEngine`, asked by message. What is the learner's own fault is told in words."""
    context = told_context(start)
    engine: TracedEngine | None = None

    def answer(message: Message, arrays: Arrays) -> Answer:
        nonlocal engine
        try:
            if message["do"] == "load":
                engine = loaded(message, arrays, context)
                costs = {"update_cost": engine.update_cost, "forward_cost": engine.forward_cost}
                told = {name: write_cost(cost) for name, cost in costs.items()}
                return {**told, "constant_bytes": engine.constant_bytes}, []
            assert engine is not None
            return {}, [np.asarray(array) for array in _DO[message["do"]](engine, message, arrays) or ()]
        except WhestError as error:
            return {"failure": str(error)}, []

    return answer


def loaded(document: Message, arrays: Arrays, context: LearnerContext) -> TracedEngine:
    """Read, trace and meter; a document that makes JAX or the meter stumble is refused like any other."""
    try:
        return TracedEngine(trace_programs(read_flat(document, arrays), context))
    except WhestError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"[:1000]
        raise LearnerError(f"the learner's programs can't be read: {said}") from None


_DO: dict[str, Callable[[TracedEngine, Message, Any], Any]] = {
    "begin": lambda engine, message, arrays: engine.begin(message["seed"], arrays[0]),
    "probe": lambda engine, message, arrays: engine.probe(arrays[0], message["seed"], message["with_noise"]),
    "losses": lambda engine, message, arrays: [engine.losses(arrays[0])],
    "steps": lambda engine, message, arrays: engine.steps(*arrays),
    "shadow": lambda engine, message, arrays: [engine.shadow(*arrays)],
    "logits": lambda engine, message, arrays: [engine.logits(arrays[0])],
}
