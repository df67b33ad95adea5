"""Runners in other processes: for code you don't trust. A worker that dies, hangs or grows costs its own MLP only.

In traced mode one worker traces the estimator and hands its program over as plain data; another, which never imports
the estimator, meters and runs it. In eager mode one worker does it all and counts itself, which docs/meter.md weighs.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from pydantic import TypeAdapter, ValidationError

from whest.case import Failure, Prediction
from whest.child import Worker, WorkerFailedError, WorkerLimits, World
from whest.errors import ConfigError
from whest.estimator import EstimatorSpec, SetupContext
from whest.meter import Charge, Cost, Timing
from whest.mlp import MLP
from whest.runner import NOTHING_SPENT, InProcessRunner, Runner
from whest.traced import check_output, checked_prediction
from whest.wire import Message
from whest.worker_roles import write_mlp

TEARDOWN_TIMEOUT_S = 5.0
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
        if self.kind == "auto":
            return not spec.is_bundled and not _is_interactive()
        return self.kind == "process"


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
            return Prediction(None, self._cost, failure=_unexpected(error), output=output)
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
                self._fail_all(_read_failure(reply["failure"]))
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
            self._fail_all(_read_failure(reply["failure"]))
        self._cost, self._refused = _read_cost(reply["cost"]), bool(reply["refused"])

    def _run(self, evaluator: Worker, mlp: MLP) -> Prediction:
        limit = self._world.limits.wall_time_limit_s
        message, arrays = write_mlp(mlp)
        try:
            reply, results = evaluator.ask(
                message, arrays, None if limit is None else limit + GRACE_S, _largest_answer(self._world.context)
            )
        except WorkerFailedError as error:
            self._drop()
            if error.is_timeout:
                return Prediction(None, self._cost, Timing(backend_time_s=error.elapsed_s))
            return Prediction(None, self._cost, Timing(backend_time_s=error.elapsed_s), error.failure)
        return _read_prediction(reply, results, self._world.context)


def _largest_answer(context: SetupContext) -> int:
    """Bytes of a prediction, with room for a wrong one that deserves a good message."""
    return 64 * context.depth * context.width + 2**20


class EagerProcessRunner:
    """One worker that runs the estimator itself; restarted when it dies, or for every MLP."""

    def __init__(self, world: World, fresh: bool) -> None:
        self._world, self._fresh = world, fresh
        self._worker: Worker | None = None
        self._verdict: Failure | None = None
        self.protections: dict[str, bool] = {}

    def __enter__(self) -> "EagerProcessRunner":
        return self

    def __exit__(self, *error: object) -> None:
        if self._worker is not None and not isinstance(error[1], KeyboardInterrupt):
            with suppress(WorkerFailedError):
                self._worker.ask({"do": "tear_down"}, timeout_s=TEARDOWN_TIMEOUT_S)
        self._drop()

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None

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
            return Prediction(None, NOTHING_SPENT, failure=_unexpected(error))

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
            self._verdict = _read_failure(reply["failure"])
            raise WorkerFailedError(self._verdict, 0.0)
        return worker

    def _run(self, worker: Worker, mlp: MLP) -> Prediction:
        limit = self._world.limits.wall_time_limit_s
        message, arrays = write_mlp(mlp)
        started = time.monotonic()
        try:
            reply, results = worker.ask(
                message, arrays, None if limit is None else limit + GRACE_S, _largest_answer(self._world.context)
            )
        except WorkerFailedError as error:
            spent = Cost((Charge("", "spent before the worker ended", round(worker.flops_spent()), 1),))
            timing = Timing(residual_wall_time_s=error.elapsed_s)
            output = worker.output()
            self._drop()
            return Prediction(None, spent, timing, None if error.is_timeout else error.failure, output=output)
        prediction = _read_prediction(reply, results, self._world.context)
        unaccounted = time.monotonic() - started - prediction.timing.wall_time_s - prediction.compile_time_s
        timing = prediction.timing
        if unaccounted > UNACCOUNTED_S:
            timing = replace(timing, residual_wall_time_s=timing.residual_wall_time_s + unaccounted)
        return replace(prediction, timing=timing, output=worker.output())


def _unexpected(error: Exception) -> Failure:
    """Whatever a worker's answer made of us: its MLP fails, the suite goes on."""
    return Failure("WORKER_DIED", f"the worker's answer could not be used ({type(error).__name__}: {error})"[:1000])


def _read_failure(fields: Any) -> Failure:
    return _validated(Failure, fields)


def _read_cost(fields: Any) -> Cost:
    cost: Cost = _validated(Cost, fields)
    if any(not 0 <= charge.flops < 2**100 or charge.calls < 0 for charge in cost.charges):
        raise WorkerFailedError(Failure("WORKER_DIED", "the worker sent a cost that isn't a number of FLOPs"), 0.0)
    return cost


def _read_timing(fields: Any) -> Timing:
    timing: Timing = _validated(Timing, fields)
    if not all(0 <= seconds < 1e9 for seconds in vars(timing).values()):
        raise WorkerFailedError(Failure("WORKER_DIED", "the worker sent times that aren't seconds"), 0.0)
    return timing


def _read_prediction(reply: Message, results: list[np.ndarray], context: SetupContext) -> Prediction:
    """A worker's answer, believed only as far as its form is right."""
    cost, timing = _read_cost(reply.get("cost")), _read_timing(reply.get("timing"))
    compile_time_s = _read_timing({"overhead_time_s": reply.get("compile_time_s")}).overhead_time_s
    if reply.get("failure") is not None:
        return Prediction(None, cost, timing, _read_failure(reply["failure"]), compile_time_s)
    if not results:
        return Prediction(None, cost, timing, compile_time_s=compile_time_s)
    wrong = check_output(results[0], context)
    if wrong is not None:
        return Prediction(None, cost, timing, wrong, compile_time_s)
    return replace(checked_prediction(results[0], cost, timing), compile_time_s=compile_time_s)


def _validated(kind: Any, fields: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_python(fields)
    except ValidationError as error:
        problem = f"the worker sent a malformed {kind.__name__}: {error.error_count()} problems"
        raise WorkerFailedError(Failure("WORKER_DIED", problem), 0.0) from None
