"""Eager mode in a worker: it runs the estimator and counts its operations itself, which docs/meter.md weighs."""

import time
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from whest.cases.prediction import Failure, Prediction
from whest.cost import Charge, Cost, Timing
from whest.errors import UnprotectedError
from whest.estimator.eager import WARM_UP_RUNS
from whest.isolation.messages import (
    WorkerFailedError,
    largest_answer,
    read_failure,
    read_prediction,
    unexpected,
    write_mlp,
)
from whest.isolation.process import START_TIMEOUT_S, Worker
from whest.isolation.runner import NOTHING_SPENT, OneWorker
from whest.isolation.traced import GRACE_S
from whest.mlp import MLP

UNACCOUNTED_S = 0.5
"""Time a worker can't account for beyond this is taken as residual."""


class EagerProcessRunner(OneWorker):
    """One worker that runs the estimator itself; restarted when it dies, or for every MLP."""

    teardown_timeout_s: ClassVar[float] = 5.0
    _was_too_slow = False
    """Whether a warm-up call was killed at its limit."""
    _ready: Worker | None = None
    """A worker that `prepare` set up, for the first MLP."""

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
                late = self._warm_up(self._worker)
                if late is not None:
                    return late
                compile_time_s = time.monotonic() - started
            return replace(self._run(self._worker, mlp), compile_time_s=compile_time_s)
        except WorkerFailedError as error:
            self._drop()
            return Prediction(None, NOTHING_SPENT, failure=error.failure)
        except UnprotectedError:
            self._drop()
            raise
        except Exception as error:
            self._drop()
            return Prediction(None, NOTHING_SPENT, failure=unexpected(error))

    def prepare(self) -> Failure | None:
        if self._verdict is None and self._worker is None and self._ready is None:
            with suppress(WorkerFailedError):  # if it has no verdict, predict tries again and reports it
                self._ready, self._worker = self._start(), None
        return self._verdict

    def _start(self) -> Worker:
        if self._ready is not None:
            worker, self._ready = self._ready, None
            return worker
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

    def _warm_up(self, worker: Worker) -> Prediction | None:
        """Run predict on a network that isn't scored. The prediction is None unless it was too slow.

        The wall limit governs these calls too. The first one may also compile for as long as a set-up may take. A
        worker after one that was too slow is not warmed up: its MLP has the wall limit and no more.
        """
        if self._was_too_slow:
            return None
        limits = self._world.limits
        extra_s = START_TIMEOUT_S if limits.setup_timeout_s is None else limits.setup_timeout_s
        for _ in range(WARM_UP_RUNS):
            limit = None if limits.wall_time_limit_s is None else limits.wall_time_limit_s + GRACE_S + extra_s
            try:
                reply, _ = worker.ask({"do": "warm_up"}, timeout_s=limit)
            except WorkerFailedError as error:
                if not error.is_timeout:
                    raise
                self._was_too_slow = True
                return self._ended(worker, error)
            if reply.get("answered") is not True:
                break
            extra_s = 0.0
        return None

    def _ended(self, worker: Worker, error: WorkerFailedError) -> Prediction:
        """The prediction of a worker that ended or was killed: what it had spent, and no means."""
        spent = Cost((Charge("", "spent before the worker ended", round(worker.flops_spent()), 1),))
        timing, output = Timing(residual_wall_time_s=error.elapsed_s), worker.output()
        self._drop()
        return Prediction(None, spent, timing, None if error.is_timeout else error.failure, output=output)

    def _drop(self) -> None:
        super()._drop()
        if self._ready is not None:
            self._ready.close()
        self._ready = None

    def _run(self, worker: Worker, mlp: MLP) -> Prediction:
        limit = self._world.limits.wall_time_limit_s
        message, arrays = write_mlp(mlp)
        started = time.monotonic()
        try:
            reply, results = worker.ask(
                message, arrays, None if limit is None else limit + GRACE_S, largest_answer(self._world.context)
            )
        except WorkerFailedError as error:
            return self._ended(worker, error)
        prediction = read_prediction(reply, results, self._world.context)
        unaccounted = time.monotonic() - started - prediction.timing.wall_time_s - prediction.compile_time_s
        timing = prediction.timing
        if unaccounted > UNACCOUNTED_S:
            timing = replace(timing, residual_wall_time_s=timing.residual_wall_time_s + unaccounted)
        return replace(prediction, timing=timing, output=worker.output())
