"""A runner's one worker: held while it lives, told to clean up at the end."""

from contextlib import suppress
from typing import ClassVar, Self

from whest.case import Failure
from whest.child import Worker, WorkerFailedError, World


class OneWorker:
    """What runners that run an estimator in one process of its own have in common."""

    teardown_timeout_s: ClassVar[float]

    def __init__(self, world: World, fresh: bool) -> None:
        self._world, self._fresh = world, fresh
        self._worker: Worker | None = None
        self._verdict: Failure | None = None
        """A failure that holds for every MLP."""
        self.protections: dict[str, bool] = {}

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
