"""Runners in this process: for code you trust, traced or eager. A runner answers each MLP, whatever happens."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from whest.case import Failure, Prediction
from whest.errors import ConfigError
from whest.estimator import Estimator, EstimatorSpec, MLPView, SetupContext
from whest.meter import Cost
from whest.mlp import MLP, draw_weights
from whest.traced import Program, check_output, checked_prediction, compile_program, describe_error, estimator_function

NOTHING_SPENT = Cost(())
WARM_UP_SEED, WARM_UP_RUNS = 20260525, 3


class Runner(Protocol):
    """Where an estimator lives while it is scored."""

    @property
    def protections(self) -> dict[str, bool]:
        """What the estimator is kept from."""
        ...

    def predict(self, mlp: MLP) -> Prediction: ...

    def __enter__(self) -> "Runner": ...

    def __exit__(self, *error: object) -> None: ...


class Session(Protocol):
    """An estimator made ready for one shape."""

    def predict(self, mlp: MLP) -> Prediction: ...


class EagerSession:
    """An estimator that runs as ordinary Python, metered operation by operation."""

    def __init__(
        self, estimator: Estimator, context: SetupContext, report: Callable[[float], None] = lambda flops: None
    ) -> None:
        self._estimator, self._context, self._report = estimator, context, report

    def warm_up(self) -> None:
        """Run a few times on a network of no consequence: the first compiles, the rest end the cold start."""
        context = self._context
        stream = np.random.SeedSequence(WARM_UP_SEED)
        weights = draw_weights(stream, context.width, context.depth)
        for _ in range(WARM_UP_RUNS):
            if self.predict(MLP(weights, WARM_UP_SEED, "warm-up", stream)).means is None:
                break  # what went wrong goes wrong again in the timed call
        self._report(0.0)

    def predict(self, mlp: MLP) -> Prediction:
        from whest.eager import BudgetSpentError, Ledger, metered

        ledger = Ledger(self._context.flop_budget, report=self._report)
        view = MLPView(jnp.asarray(mlp.weights), jnp.uint32(mlp.seed), jax.random.key(mlp.seed), mlp.name)
        jax.block_until_ready(view)
        failure, means = None, np.zeros(0)
        try:
            with metered(ledger):
                means = np.asarray(self._estimator.predict(view, self._context.flop_budget))
        except BudgetSpentError:
            return Prediction(None, ledger.cost(), ledger.timing())
        except (Exception, SystemExit) as error:
            failure = describe_error(error)
        failure = failure or check_output(means, self._context)
        if failure is not None:
            return Prediction(None, ledger.cost(), ledger.timing(), failure)
        return checked_prediction(means, ledger.cost(), ledger.timing())


def set_up(spec: EstimatorSpec, context: SetupContext) -> Estimator | Failure:
    """Make the estimator and let it prepare itself."""
    try:
        Path(context.scratch_dir).mkdir(parents=True, exist_ok=True)
        estimator = spec.create()
        setup = getattr(estimator, "setup", None)
        if setup is not None:
            setup(context)
    except (Exception, SystemExit) as error:
        if isinstance(error, ConfigError) and spec.is_bundled:
            raise
        return Failure("SETUP_ERROR", f"{type(error).__name__}: {error}", traceback.format_exc())
    return estimator


def tear_down(estimator: Estimator | None) -> None:
    """Let the estimator clean up; what goes wrong in that is nobody's score."""
    teardown = getattr(estimator, "teardown", None)
    if teardown is not None:
        with suppress(Exception):
            teardown()


class InProcessRunner:
    """The estimator in our own process: fast, and only for code that is trusted."""

    def __init__(self, spec: EstimatorSpec, context: SetupContext) -> None:
        self._spec, self._context = spec, context
        self._estimator: Estimator | None = None
        self._session: Session | Failure | None = None

    @property
    def protections(self) -> dict[str, bool]:
        return {}

    def __enter__(self) -> "InProcessRunner":
        return self

    def __exit__(self, *error: object) -> None:
        tear_down(self._estimator)
        with suppress(OSError):
            Path(self._context.scratch_dir).rmdir()  # unless something was left in it

    def predict(self, mlp: MLP) -> Prediction:
        is_first = self._session is None
        if self._session is None:
            self._session = self._prepare()
        if isinstance(self._session, Failure):
            return Prediction(None, NOTHING_SPENT, failure=self._session)
        if is_first and isinstance(self._session, Program):
            self._session.predict(mlp)  # the warm-up: what goes wrong in it goes wrong again in the timed call
            return replace(self._session.predict(mlp), compile_time_s=self._session.compile_time_s)
        return self._session.predict(mlp)

    def _prepare(self) -> Session | Failure:
        made = set_up(self._spec, self._context)
        if isinstance(made, Failure):
            return made
        self._estimator = made
        if self._spec.mode == "eager":
            session = EagerSession(made, self._context)
            session.warm_up()
            return session
        return compile_program(estimator_function(made, self._context.flop_budget), self._context)
