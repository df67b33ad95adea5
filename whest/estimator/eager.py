"""Eager mode: the estimator runs as ordinary Python, and each operation is metered when it runs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from whest.cases.prediction import Prediction
from whest.estimator.calling import check_output, checked_prediction, describe_error
from whest.estimator.contract import Estimator, MLPView, SetupContext
from whest.mlp import MLP, draw_weights

WARM_UP_SEED, WARM_UP_RUNS = 20260525, 3
"""The number of runs doesn't depend on the clock: an estimator that counts its calls counts the same everywhere."""


class EagerSession:
    """One estimator in eager mode, with its limits."""

    def __init__(
        self, estimator: Estimator, context: SetupContext, report: Callable[[float], None] = lambda flops: None
    ) -> None:
        self._estimator, self._context, self._report = estimator, context, report

    def warm_up(self) -> None:
        """Run a few times on a network that isn't scored, so that compiling and the cold start are not timed."""
        for _ in range(WARM_UP_RUNS):
            if not self.warm_up_once():
                break

    def warm_up_once(self) -> bool:
        """One such run; False if it failed: the timed call will fail in the same way and report it."""
        stream = np.random.SeedSequence(WARM_UP_SEED)
        weights = draw_weights(stream, self._context.width, self._context.depth)
        answered = self.predict(MLP(weights, WARM_UP_SEED, "warm-up", stream)).means is not None
        self._report(0.0)
        return answered

    def predict(self, mlp: MLP) -> Prediction:
        from whest.metering.eager import BudgetSpentError, Ledger, metered

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
