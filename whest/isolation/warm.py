"""A traced runner that stays warm between versions of an estimator's file, for `job=watch`.

The worker that runs programs never imports the estimator, so it can take the next program. The worker that traces
imports it, so each version needs a new one: the next is started ahead, and has imported JAX when the file is saved.
"""

import os
from contextlib import suppress
from pathlib import Path

from whest.isolation.furniture import own_folder, own_paths
from whest.isolation.process import Worker, World
from whest.isolation.runner import NOTHING_SPENT
from whest.isolation.traced import TracedProcessRunner


class WarmRunner(TracedProcessRunner):
    """One evaluator for all versions, and a tracer in reserve."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._kept: Worker | None = None
        self._spare: Worker | None = None
        self._inode = self._source_inode()

    def start_ahead(self) -> None:
        """Start the next tracer, without waiting for it."""
        if self._spare is None:
            self._inode = self._source_inode()
            self._spare = Worker("trace", self._world)

    def renew(self) -> None:
        """Forget the program: the file has changed."""
        if self._evaluator is not None:
            self._kept, self._evaluator = self._evaluator, None
        self._program, self._verdict, self._unreported = None, None, None
        self._cost, self._refused, self._is_warm = NOTHING_SPENT, False, False
        if self._is_out_of_reach():
            self._drop_spare()

    def _worker(self, role: str) -> Worker:
        if role == "evaluate" and self._kept is not None:
            worker, self._kept = self._kept, None
            return worker
        if role == "trace" and self._spare is not None:
            worker, self._spare = self._spare, None
            return worker
        return super()._worker(role)

    def _is_out_of_reach(self) -> bool:
        """Whether a worker that is already walled in would see the old file.

        A room shows folders, and new files in them. Where it shows single files (in a home, in /tmp), an editor that
        saves a new file under the old name leaves the room with the old one.
        """
        folder = own_folder(self._world.spec)
        return folder is not None and own_paths(self._world.spec) != [folder] and self._inode != self._source_inode()

    def _source_inode(self) -> int | None:
        source: Path | None = self._world.spec.source
        with suppress(OSError):
            return None if source is None else os.stat(source).st_ino  # noqa: PTH116
        return None

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.close()
        self._spare = None

    def __exit__(self, *error: object) -> None:
        self._drop_spare()
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        super().__exit__(*error)
