"""Traced mode in workers: one traces the estimator, another, which never imports it, meters and runs the program."""

import time
from dataclasses import replace
from typing import NoReturn, Self

from whest.cases.prediction import Failure, Prediction
from whest.cost import Timing
from whest.errors import UnprotectedError
from whest.isolation.messages import (
    Traced,
    WorkerFailedError,
    largest_answer,
    read_cost,
    read_failure,
    read_prediction,
    unexpected,
    write_mlp,
)
from whest.isolation.process import Worker, World
from whest.isolation.runner import NOTHING_SPENT
from whest.mlp import MLP

GRACE_S = 1.0
"""What a message's own way may take on top of a limit."""


class TracedProcessRunner:
    """One worker traces the estimator, another meters and runs what was traced.

    A sealed program was traced before: one worker, behind walls, meters and runs it.
    """

    def __init__(self, world: World, sealed: Traced | None = None) -> None:
        self._world, self._role = world, "evaluate" if sealed is None else "sealed"
        self._program = sealed
        self._verdict: Failure | None = None
        """A failure that holds for every MLP."""
        self._evaluator: Worker | None = None
        self._cost, self._refused = NOTHING_SPENT, False
        self._is_warm, self._compile_time_s, self._output = False, 0.0, ""
        self._n_deaths = 0
        """Workers that died as they compiled the program."""
        self._unreported: Failure | None = None
        """Why `prepare` failed: the first MLP's failure, unless it is the verdict on all."""
        self.protections: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._drop()

    def _drop(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
        self._evaluator, self._is_warm = None, False

    def _worker(self, role: str) -> Worker:
        return Worker(role, self._world)

    def prepare(self) -> Failure | None:
        if self._verdict is None:
            try:
                self._open()
            except UnprotectedError:
                self._drop()
                raise
            except Exception as error:
                self._drop()
                self._unreported = error.failure if isinstance(error, WorkerFailedError) else unexpected(error)
        return self._verdict

    def _taken_output(self) -> str:
        """What the tracing worker printed, for the first MLP only."""
        output, self._output = self._output, ""
        return output

    def _open(self) -> None:
        """Trace the estimator, unless its program is known, and load the program into a worker."""
        if self._evaluator is not None:
            return
        started, self._output = time.monotonic(), ""
        self._evaluator = self._worker(self._role)
        if self._program is None:
            self._output = self._trace(self._evaluator)
        self._load(self._evaluator)
        self._compile_time_s = time.monotonic() - started

    def predict(self, mlp: MLP) -> Prediction:
        if self._verdict is not None:
            return Prediction(None, NOTHING_SPENT, failure=self._verdict, output=self._taken_output())
        if self._unreported is not None:
            failure, self._unreported = self._unreported, None
            return Prediction(None, self._cost, failure=failure, output=self._taken_output())
        try:
            self._open()
            assert self._evaluator is not None
            is_new, self._is_warm = not self._is_warm, True
            compile_time_s, output = (self._compile_time_s if is_new else 0.0), self._taken_output()
            if self._refused:
                return Prediction(None, self._cost, compile_time_s=compile_time_s, output=output)
            prediction = self._run(self._evaluator, mlp)
            if is_new and self._evaluator is not None:
                prediction = self._run(self._evaluator, mlp)  # the first was the warm-up
        except WorkerFailedError as error:
            self._drop()
            return Prediction(None, self._cost, failure=error.failure, output=self._taken_output())
        except UnprotectedError:
            self._drop()
            raise
        except Exception as error:
            self._drop()
            return Prediction(None, self._cost, failure=unexpected(error), output=self._taken_output())
        return replace(prediction, compile_time_s=compile_time_s, output=output)

    def _trace(self, evaluator: Worker) -> str:
        """Ask a worker of its own for the program; it is gone before the first weight is sent anywhere.

        Both workers import side by side, but the evaluator has all it needs before the estimator's first line runs.
        """
        timeout_s = self._world.limits.setup_timeout_s
        worker = self._worker("trace")
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
        self.protections = self.protections or evaluator.protections
        timeout_s = self._world.limits.setup_timeout_s
        try:
            reply, _ = evaluator.ask({"program": document.get("program"), "do": "load"}, constants, timeout_s=timeout_s)
        except WorkerFailedError as error:
            if error.is_timeout:
                self._fail_all(Failure("SETUP_TIMEOUT", f"compiling took more than {timeout_s} s: killed"))
            if error.failure.code == "PREDICT_ERROR":
                self._fail_all(error.failure)
            self._n_deaths += "SIGKILL" not in error.failure.message  # that is somebody else's doing, not the program's
            if self._n_deaths > 1:  # no MLP had a part in it, so it will die of this program again
                said = f"{error.failure.message}, twice, as it compiled the program: refused"
                self._fail_all(replace(error.failure, message=said))
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
