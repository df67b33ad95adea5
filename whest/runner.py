"""Runners: where an estimator lives while it is scored.

Today in this process, which suits code you trust. A runner answers each MLP with a `Prediction`, whatever happens.
"""

import traceback
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from whest.case import Failure, Prediction
from whest.errors import ConfigError
from whest.estimator import Estimator, EstimatorSpec, SetupContext
from whest.mlp import MLP
from whest.traced import NOTHING_SPENT, Program, compile_program


class Runner(Protocol):
    def predict(self, mlp: MLP) -> Prediction: ...

    def __enter__(self) -> "Runner": ...

    def __exit__(self, *error: object) -> None: ...


def open_runner(spec: EstimatorSpec, context: SetupContext) -> Runner:
    return InProcessRunner(spec, context)


class InProcessRunner:
    """The estimator in our own process: fast, and only for code that is trusted."""

    def __init__(self, spec: EstimatorSpec, context: SetupContext) -> None:
        self._spec, self._context = spec, context
        self._estimator: Estimator | None = None
        self._program: Program | Failure | None = None

    def __enter__(self) -> "InProcessRunner":
        return self

    def __exit__(self, *error: object) -> None:
        teardown = getattr(self._estimator, "teardown", None)
        if teardown is not None:
            with suppress(Exception):
                teardown()

    def predict(self, mlp: MLP) -> Prediction:
        first = self._program is None
        if self._program is None:
            self._program = self._prepare()
        if isinstance(self._program, Failure):
            return Prediction(None, NOTHING_SPENT, failure=self._program)
        if not first:
            return self._program.predict(mlp)
        self._program.predict(mlp)  # the warm-up: whatever goes wrong in it goes wrong again in the timed call
        return replace(self._program.predict(mlp), compile_time_s=self._program.compile_time_s)

    def _prepare(self) -> Program | Failure:
        try:
            self._estimator = self._spec.create()
            setup = getattr(self._estimator, "setup", None)
            if setup is not None:
                setup(self._context)
        except ConfigError:
            raise
        except Exception as error:
            return Failure("SETUP_ERROR", f"{type(error).__name__}: {error}", traceback.format_exc())
        return compile_program(self._estimator, self._context.width, self._context.depth, self._context.flop_budget)
