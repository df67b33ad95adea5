"""A runner's one worker: held while it lives, told to clean up at the end."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from whest.cases.prediction import Failure, Prediction
from whest.cost import Cost
from whest.estimator.calling import set_up, tear_down
from whest.estimator.contract import Estimator, SetupContext
from whest.estimator.eager import EagerSession
from whest.estimator.spec import EstimatorSpec
from whest.estimator.traced import Begun, Compiling, Program, begin_program, estimator_function
from whest.isolation.messages import WorkerFailedError
from whest.metering.lists import DEFAULT, priced_by
from whest.mlp import MLP

if TYPE_CHECKING:
    from whest.isolation.process import Worker, World


class OneWorker:
    """What runners that run an estimator in one process of its own have in common."""

    teardown_timeout_s: ClassVar[float]

    def __init__(self, world: "World", fresh: bool) -> None:
        self._world, self._fresh = world, fresh
        self._worker: Worker | None = None
        self._verdict: Failure | None = None
        """A failure that holds for every MLP."""
        self.protections: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._worker is not None and not isinstance(error[1], KeyboardInterrupt):
            with suppress(WorkerFailedError):
                self._worker.ask({"do": "tear_down"}, timeout_s=self.teardown_timeout_s)
        self._drop()

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker = None


NOTHING_SPENT = Cost(())


class Runner(Protocol):
    """Where an estimator lives while it is scored."""

    @property
    def protections(self) -> dict[str, str]:
        """What the estimator is kept from."""
        ...

    def prepare(self) -> Failure | None:
        """Import, set up and trace the estimator. A failure holds for every MLP."""
        ...

    def predict(self, mlp: MLP) -> Prediction: ...

    def __enter__(self) -> "Runner": ...

    def __exit__(self, *error: object) -> None: ...


class Session(Protocol):
    """An estimator made ready for one shape."""

    def predict(self, mlp: MLP) -> Prediction: ...


class InProcessRunner:
    """The estimator in our own process: fast, and only for code that is trusted."""

    def __init__(self, spec: EstimatorSpec, context: SetupContext, prices: str = DEFAULT) -> None:
        self._spec, self._context, self._prices = spec, context, prices
        self._estimator: Estimator | None = None
        self._session: Session | Compiling | Failure | None = None
        self._is_warm = False

    @property
    def protections(self) -> dict[str, str]:
        return {}

    def __enter__(self) -> "InProcessRunner":
        return self

    def __exit__(self, *error: object) -> None:
        tear_down(self._estimator)
        with suppress(OSError):
            Path(self._context.scratch_dir).rmdir()  # unless something was left in it

    def prepare(self) -> Failure | None:
        if self._session is None:
            with priced_by(self._prices):
                self._session = self._begin()
        return self._session if isinstance(self._session, Failure) else None

    def predict(self, mlp: MLP) -> Prediction:
        self.prepare()
        if isinstance(self._session, Compiling):
            self._session = self._session.result()
        assert self._session is not None
        if isinstance(self._session, Failure):
            return Prediction(None, NOTHING_SPENT, failure=self._session)
        is_first, self._is_warm = not self._is_warm, True
        if is_first and isinstance(self._session, Program):
            self._session.predict(mlp)  # the warm-up: what goes wrong in it goes wrong again in the timed call
            return replace(self._session.predict(mlp), compile_time_s=self._session.compile_time_s)
        return self._session.predict(mlp)

    def _begin(self) -> Session | Compiling | Failure:
        made = set_up(self._spec, self._context)
        if isinstance(made, Failure):
            return made
        self._estimator = made
        if self._spec.mode == "eager":
            session = EagerSession(made, self._context)
            session.warm_up()
            return session
        begun = begin_program(estimator_function(made, self._context.flop_budget), self._context)
        if not isinstance(begun, Begun):
            return begun
        # a program that isn't kept on disk switches JAX's cache off for all threads while it is compiled
        return Compiling(begun) if begun.is_kept else begun.compiled()
