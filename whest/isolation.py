"""Runners in other processes: for code you don't trust. A worker that dies, hangs or grows costs its own MLP only.

In traced mode one worker traces the estimator and hands its program over as plain data; another, which never imports
the estimator, meters and runs it. In eager mode one worker does it all and counts itself, which docs/meter.md weighs.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, NoReturn

import numpy as np

from whest.case import Failure, Prediction
from whest.child import Worker, WorkerFailedError, WorkerLimits, World
from whest.errors import ConfigError
from whest.estimator import EstimatorSpec, SetupContext
from whest.meter import Charge, Cost, Timing
from whest.mlp import MLP
from whest.one_worker import OneWorker
from whest.peer.runner import PeerRunner
from whest.replies import largest_answer, read_cost, read_failure, read_prediction, unexpected
from whest.runner import NOTHING_SPENT, InProcessRunner, Runner
from whest.wire import Message
from whest.worker_roles import write_mlp

GRACE_S = 1.0
"""What a message's own way may take on top of a limit."""
UNACCOUNTED_S = 0.5
"""Time a worker can't account for beyond this is taken as residual."""


@dataclass(frozen=True)
class Isolation:
    """`isolation=…`: where the estimator lives and what it may use up."""

    kind: Literal["auto", "none", "process"]
    fresh: bool
    """A new worker for each MLP, so that nothing is remembered between them."""

    def is_process(self, spec: EstimatorSpec) -> bool:
        if spec.peer is not None:
            return True
        if self.kind == "auto":
            return not spec.is_bundled and not _is_interactive()
        return self.kind == "process"

    def refuse_unfit(self, spec: EstimatorSpec) -> None:
        if spec.peer is not None and self.kind == "none":
            raise ConfigError("isolation=none: estimator=whestbench runs in an interpreter of its own, leave that out")


def _is_interactive() -> bool:
    """A notebook or a debugger, where people want to step into their estimator."""
    return sys.gettrace() is not None or "ipykernel" in sys.modules


def open_runner(
    isolation: Isolation,
    spec: EstimatorSpec,
    context: SetupContext,
    limits: WorkerLimits,
    hidden: Sequence[Path],
    cache: Path,
) -> Runner:
    if not isolation.is_process(spec):
        return InProcessRunner(spec, context)
    _refuse_among_answers(hidden, spec)
    world = World(spec, context, limits, tuple(str(path) for path in hidden), cache)
    if spec.peer is not None:
        return PeerRunner(world, isolation.fresh)
    return EagerProcessRunner(world, isolation.fresh) if spec.mode == "eager" else TracedProcessRunner(world)


def _refuse_among_answers(hidden: Sequence[Path], spec: EstimatorSpec) -> None:
    """An estimator that lives among the answers could not be kept from them."""
    for path in hidden:
        if spec.source is not None and spec.source.resolve().is_relative_to(path.resolve()):
            raise ConfigError(f"estimator.path={spec.source} lies in {path}, which holds answers: move it elsewhere")


class TracedProcessRunner:
    """One worker traces the estimator, another meters and runs what was traced."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._program: tuple[Message, list[np.ndarray]] | None = None
        self._verdict: Failure | None = None
        """A failure that holds for every MLP."""
        self._evaluator: Worker | None = None
        self._cost, self._refused = NOTHING_SPENT, False
        self.protections: dict[str, bool] = {}

    def __enter__(self) -> "TracedProcessRunner":
        return self

    def __exit__(self, *error: object) -> None:
        self._drop()

    def _drop(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
        self._evaluator = None

    def predict(self, mlp: MLP) -> Prediction:
        if self._verdict is not None:
            return Prediction(None, NOTHING_SPENT, failure=self._verdict)
        started = time.monotonic()
        output = ""
        try:
            is_new = self._evaluator is None
            if self._evaluator is None:
                self._evaluator = Worker("evaluate", self._world)
                if self._program is None:
                    output = self._trace(self._evaluator)
                self._load(self._evaluator)
            compile_time_s = time.monotonic() - started if is_new else 0.0
            if self._refused:
                return Prediction(None, self._cost, compile_time_s=compile_time_s, output=output)
            prediction = self._run(self._evaluator, mlp)
            if is_new and self._evaluator is not None:
                prediction = self._run(self._evaluator, mlp)  # the first was the warm-up
        except WorkerFailedError as error:
            self._drop()
            return Prediction(None, self._cost, failure=error.failure, output=output)
        except Exception as error:
            self._drop()
            return Prediction(None, self._cost, failure=unexpected(error), output=output)
        return replace(prediction, compile_time_s=compile_time_s, output=output)

    def _trace(self, evaluator: Worker) -> str:
        """Ask a worker of its own for the program; it is gone before the first weight is sent anywhere.

        Both workers import side by side, but the evaluator has all it needs before the estimator's first line runs.
        """
        timeout_s = self._world.limits.setup_timeout_s
        worker = Worker("trace", self._world)
        try:
            evaluator.wait_until_ready()
            worker.wait_until_ready()
            self.protections = worker.protections
            try:
                reply, constants = worker.ask({"do": "trace"}, timeout_s=timeout_s)
            except WorkerFailedError as error:
                if error.is_timeout:
                    self._fail_all(Failure("SETUP_TIMEOUT", f"setup and tracing took more than {timeout_s} s: killed"))
                raise
            if "failure" in reply:
                self._fail_all(read_failure(reply["failure"]))
            self._program = reply, constants
            return worker.output()
        finally:
            worker.close()

    def _fail_all(self, failure: Failure) -> NoReturn:
        self._verdict = failure
        raise WorkerFailedError(failure, 0.0)

    def _load(self, evaluator: Worker) -> None:
        """Have the program metered and compiled."""
        assert self._program is not None
        document, constants = self._program
        evaluator.wait_until_ready()
        timeout_s = self._world.limits.setup_timeout_s
        try:
            reply, _ = evaluator.ask({**document, "do": "load"}, constants, timeout_s=timeout_s)
        except WorkerFailedError as error:
            if error.is_timeout:
                self._fail_all(Failure("SETUP_TIMEOUT", f"compiling took more than {timeout_s} s: killed"))
            if error.failure.code == "PREDICT_ERROR":
                self._fail_all(error.failure)
            raise
        if "failure" in reply:
            self._fail_all(read_failure(reply["failure"]))
        self._cost, self._refused = read_cost(reply["cost"]), bool(reply["refused"])

    def _run(self, evaluator: Worker, mlp: MLP) -> Prediction:
        limit = self._world.limits.wall_time_limit_s
        message, arrays = write_mlp(mlp)
        try:
            reply, results = evaluator.ask(
                message, arrays, None if limit is None else limit + GRACE_S, largest_answer(self._world.context)
            )
        except WorkerFailedError as error:
            self._drop()
            if error.is_timeout:
                return Prediction(None, self._cost, Timing(backend_time_s=error.elapsed_s))
            return Prediction(None, self._cost, Timing(backend_time_s=error.elapsed_s), error.failure)
        return read_prediction(reply, results, self._world.context)


class EagerProcessRunner(OneWorker):
    """One worker that runs the estimator itself; restarted when it dies, or for every MLP."""

    teardown_timeout_s: ClassVar[float] = 5.0

    def predict(self, mlp: MLP) -> Prediction:
        if self._verdict is not None:
            return Prediction(None, NOTHING_SPENT, failure=self._verdict)
        if self._fresh:
            self._drop()
        started = time.monotonic()
        compile_time_s = 0.0
        try:
            if self._worker is None:
                self._worker = self._start()
                compile_time_s = time.monotonic() - started
            return replace(self._run(self._worker, mlp), compile_time_s=compile_time_s)
        except WorkerFailedError as error:
            self._drop()
            return Prediction(None, NOTHING_SPENT, failure=error.failure)
        except Exception as error:
            self._drop()
            return Prediction(None, NOTHING_SPENT, failure=unexpected(error))

    def _start(self) -> Worker:
        self._worker = worker = Worker("eager", self._world)
        worker.wait_until_ready()
        self.protections = worker.protections
        timeout_s = self._world.limits.setup_timeout_s
        try:
            reply, _ = worker.ask({"do": "set_up"}, timeout_s=timeout_s)
        except WorkerFailedError as error:
            if error.is_timeout:
                self._verdict = Failure("SETUP_TIMEOUT", f"setup took more than {timeout_s} s: killed")
                raise WorkerFailedError(self._verdict, error.elapsed_s) from None
            raise
        if "failure" in reply:
            self._verdict = read_failure(reply["failure"])
            raise WorkerFailedError(self._verdict, 0.0)
        return worker

    def _run(self, worker: Worker, mlp: MLP) -> Prediction:
        limit = self._world.limits.wall_time_limit_s
        message, arrays = write_mlp(mlp)
        started = time.monotonic()
        try:
            reply, results = worker.ask(
                message, arrays, None if limit is None else limit + GRACE_S, largest_answer(self._world.context)
            )
        except WorkerFailedError as error:
            spent = Cost((Charge("", "spent before the worker ended", round(worker.flops_spent()), 1),))
            timing = Timing(residual_wall_time_s=error.elapsed_s)
            output = worker.output()
            self._drop()
            return Prediction(None, spent, timing, None if error.is_timeout else error.failure, output=output)
        prediction = read_prediction(reply, results, self._world.context)
        unaccounted = time.monotonic() - started - prediction.timing.wall_time_s - prediction.compile_time_s
        timing = prediction.timing
        if unaccounted > UNACCOUNTED_S:
            timing = replace(timing, residual_wall_time_s=timing.residual_wall_time_s + unaccounted)
        return replace(prediction, timing=timing, output=worker.output())
