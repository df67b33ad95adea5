"""Runs a WhestBench estimator in the peer's own interpreter, and answers as the peer's subprocess runner would.

Flags and error codes are those of whestbench 0.16: an error sets no flag, and of the flags the first that holds is the
only one. What was really spent is told also where the peer says 0.
"""

import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from whest.cases.prediction import Failure, Flags, Prediction, ShapeMismatch
from whest.cost import Charge, Cost, Timing
from whest.errors import UnprotectedError
from whest.estimator.contract import SetupContext
from whest.isolation.channel import Message
from whest.isolation.furniture import devices, peer_furniture, private_entries
from whest.isolation.messages import WorkerFailedError, largest_answer, read_cost, read_timing, unexpected, write_mlp
from whest.isolation.process import Launch, Room, Worker, World, bare_environment
from whest.isolation.runner import NOTHING_SPENT, OneWorker
from whest.limits import WorkerLimits
from whest.mlp import MLP

SCRIPT = Path(__file__).parent / "peer_worker.py"

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

PATIENCE_S, GRACE_S = 30.0, 5.0
"""The peer kills `predict` this long after the wall limit, and never before half a minute is over."""

EXCEPTION = re.compile(r"([A-Za-z_]\w*)(?::|$)")
"""The class at the start of an error's text."""

NO_FLAGS = Flags(False, False, False, False)

Status = Literal["ok", "budget", "time", "error"]


@dataclass(frozen=True)
class Answer:
    """What the worker says of one `predict`, beside its array."""

    status: Status
    flops_used: Annotated[int, Field(ge=0, lt=2**100)]
    timing: Any
    cost: Any
    error: str = ""
    traceback: str | None = None
    details: dict[str, Any] | None = None


@dataclass(frozen=True)
class PeerWorld:
    """What a worker in the peer's interpreter is started from."""

    world: World

    @property
    def require(self) -> tuple[str, ...]:
        return self.world.require

    @property
    def limits(self) -> WorkerLimits:
        """The peer's memory limit is one on address space, which the worker sets on itself."""
        return replace(self.world.limits, memory_limit_mb=None)

    def launch(self, role: str, scratch: Path) -> Launch:
        world, context = self.world, self.world.context
        peer, source = world.spec.peer, world.spec.source
        assert peer is not None
        assert source is not None
        hidden = [*map(Path, world.hidden), *private_entries(source.parent)]
        threads = {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}
        return Launch(
            then=SCRIPT.name,
            python=peer.python,
            environment=bare_environment(scratch) | threads,
            room=Room(peer_furniture(peer.prefix, peer.python, source, hidden), hidden, devices=devices("cpu")),
            start={
                "entry": str(source),
                "class_name": world.spec.knobs.get("class_name"),
                "wall_time_limit_s": world.limits.wall_time_limit_s,
                "memory_limit_mb": world.limits.memory_limit_mb,
                "context": {
                    "width": context.width,
                    "depth": context.depth,
                    "flop_budget": context.flop_budget,
                    "scratch_dir": str(scratch),
                    "submission_dir": context.submission_dir,
                    "seed": context.seed,
                },
            },
        )


class PeerRunner(OneWorker):
    """One worker; a new one after it died, or for every MLP."""

    teardown_timeout_s: ClassVar[float] = 0.5

    def prepare(self) -> Failure | None:
        if self._worker is None and self._verdict is None:
            self._verdict = self._start()
        return self._verdict

    def predict(self, mlp: MLP) -> Prediction:
        if self._fresh:
            self._drop()
        started, start_time_s = time.monotonic(), 0.0
        if self._worker is None and self._verdict is None:
            self._verdict = self._start()
            start_time_s = time.monotonic() - started
        if self._verdict is not None:
            return _failed(self._verdict)
        assert self._worker is not None
        prediction = self._ask(self._worker, mlp)
        output = self._worker.output()
        if prediction.failure is not None and prediction.failure.code != "PREDICT_ERROR":
            self._drop()  # the process is gone, or not to be believed: the next MLP gets a new one
        return replace(prediction, compile_time_s=start_time_s, output=output)

    def _ask(self, worker: Worker, mlp: MLP) -> Prediction:
        try:
            return self._run(worker, mlp)
        except WorkerFailedError as error:
            return _failed(error.failure)
        except Exception as error:
            return _failed(unexpected(error))

    def _start(self) -> Failure | None:
        """Bring up a worker and let the estimator prepare itself; what fails here fails for every MLP."""
        self._worker = worker = Worker("flopscope", PeerWorld(self._world))
        timeout_s = self._world.limits.setup_timeout_s
        try:
            worker.wait_until_ready()
            self.protections = worker.protections
            reply, _ = worker.ask({"do": "set_up"}, timeout_s=timeout_s)
        except UnprotectedError:
            self._drop()
            raise
        except WorkerFailedError as error:
            self._drop()
            if error.is_timeout:
                return Failure("SETUP_TIMEOUT", f"setup took more than {timeout_s} s: killed")
            return replace(error.failure, code="SETUP_PROTOCOL_ERROR")
        if "error" in reply:
            self._drop()
            return Failure("SETUP_ERROR", str(reply["error"]), str(reply.get("traceback")))
        return None

    def _run(self, worker: Worker, mlp: MLP) -> Prediction:
        limit = self._world.limits.wall_time_limit_s
        timeout_s = None if limit is None else max(PATIENCE_S, limit + GRACE_S)
        try:
            reply, results = worker.ask(*write_mlp(mlp), timeout_s, largest_answer(self._world.context))
        except WorkerFailedError as error:
            timing = Timing(residual_wall_time_s=error.elapsed_s)
            if error.is_timeout:
                late = Failure("PREDICT_TIMEOUT", f"predict gave no answer within {timeout_s:g} s: killed")
                return Prediction(None, NOTHING_SPENT, timing, late, flags=NO_FLAGS)
            code = "WORKER_EOF" if error.failure.code == "WORKER_DIED" else error.failure.code
            return Prediction(None, NOTHING_SPENT, timing, replace(error.failure, code=code), flags=NO_FLAGS)
        return read_answer(reply, results, self._world.context)


def _failed(failure: Failure) -> Prediction:
    return Prediction(None, NOTHING_SPENT, failure=failure, flags=NO_FLAGS)


def read_answer(reply: Message, results: list[np.ndarray], context: SetupContext) -> Prediction:
    """A worker's answer, believed only as far as its form is right."""
    try:
        answer = TypeAdapter(Answer).validate_python(reply)
    except ValidationError as error:
        raise WorkerFailedError(Failure("WORKER_DIED", f"the worker's answer is malformed: {error}"), 0.0) from None
    timing, cost = read_timing(answer.timing), whole_cost(read_cost(answer.cost), answer.flops_used)
    if answer.status == "error":
        return Prediction(None, cost, timing, _read_error(answer), flags=NO_FLAGS)
    flags = peer_flags(answer.status, cost.flops, timing, context)
    if answer.status != "ok":
        return Prediction(None, cost, timing, flags=flags)
    expected = (context.depth, context.width)
    if len(results) != 1 or results[0].shape != expected or not np.isfinite(results[0]).all():
        raise WorkerFailedError(Failure("WORKER_DIED", "the worker's array is not the one it speaks of"), 0.0)
    return Prediction(results[0].astype(np.float32), cost, timing, flags=flags)


def whole_cost(cost: Cost, flops_used: int) -> Cost:
    """flopscope's total is what counts; what its rows leave out has a row of its own."""
    missing = flops_used - cost.flops
    if missing < 0:
        raise WorkerFailedError(Failure("WORKER_DIED", "the operations' FLOPs are more than their sum"), 0.0)
    return cost if missing == 0 else Cost((*cost.charges, Charge("", "not attributed", missing, 1)))


def peer_flags(status: Status, flops: int, timing: Timing, context: SetupContext) -> Flags:
    """The peer's order: FLOPs, then wall time, then residual time, then both together; the first is the only one."""
    compute = flops + context.lam * timing.residual_wall_time_s
    found = {
        "budget_exhausted": status == "budget",
        "time_exhausted": status == "time" or _over(timing.wall_time_s, context.wall_time_limit_s),
        "residual_wall_time_exhausted": _over(timing.residual_wall_time_s, context.residual_wall_time_limit_s),
        "combined_budget_exhausted": compute > context.flop_budget,
    }
    first = next((name for name, holds in found.items() if holds), None)
    return Flags(**{name: name == first for name in found})


def _over(seconds: float, cap: float | None) -> bool:
    return cap is not None and seconds > cap


def _read_error(answer: Answer) -> Failure:
    details = answer.details or {}
    try:
        shape: ShapeMismatch | None = TypeAdapter(ShapeMismatch).validate_python(details)
    except ValidationError:
        shape = None
    named = EXCEPTION.match(answer.error)
    return Failure("PREDICT_ERROR", answer.error, answer.traceback, shape, exception=named[1] if named else None)
