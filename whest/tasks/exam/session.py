"""A training session, run by the harness: it starts the processes, limits the calls and records the history.

The harness, not the learner, decides everything that could be an advantage: the length of a call, the size of a bundle,
and which candidate is graded.
"""

import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from whest.cases.exam import Call, Candidate, Code, Entry, ExamFailure, Promotion, Refusal, Sitting, entry_json
from whest.cost import Cost
from whest.errors import WhestError
from whest.isolation.channel import Message
from whest.isolation.learner import weighed
from whest.isolation.messages import Traced, WorkerFailedError
from whest.isolation.process import Worker
from whest.isolation.protections import in_both
from whest.isolation.wire import PROGRAM
from whest.learner.shadow import known_words
from whest.learner.size import LARGEST_WRITTEN
from whest.tasks.exam.allowance import affordable, steps_by_call
from whest.tasks.exam.plan import Plan
from whest.tasks.exam.process.bundle import gzipped_size
from whest.tasks.exam.recipe import graded_candidate

GRACE_S = 60.0
"""Extra seconds for the last update of a call. After them, the process is killed."""
OPENED_SHARE = 16
"""The largest bundle before gzip, as a multiple of the limit under gzip: this process holds it in memory."""
LEAST_FIRST_BITS = 4.0
"""In bits per byte, half of eight. A learner with fewer before its first update did not start from random weights."""
HISTORY, CANDIDATES = "history.jsonl", "candidates"


class SessionFailedError(Exception):
    """The session failed by the participant's fault."""

    def __init__(self, code: Code, message: str, traceback: str | None = None) -> None:
        super().__init__(message)
        self.failure = ExamFailure(code, message, traceback)


class Session:
    """One run of a recipe."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._started = time.monotonic()
        self._sitting = Sitting()
        (folder / CANDIDATES).mkdir(parents=True, exist_ok=True)
        (folder / HISTORY).write_bytes(b"")
        plan.cache.mkdir(parents=True, exist_ok=True)

    def hold(self) -> Sitting:
        """Train, package and promote candidates. The result names the candidate that takes the exam."""
        try:
            programs = self._trace()
            trainer = Worker("train", self._plan.world)
            try:
                self._train(trainer, *programs)
            finally:
                trainer.close()
        except SessionFailedError as error:
            self._sitting = replace(self._sitting, failure=error.failure)
        except WorkerFailedError as error:
            code: Code = "OUT_OF_MEMORY" if error.failure.code == "OUT_OF_MEMORY" else "INFRASTRUCTURE"
            failure = ExamFailure(code, f"training: {error.failure.message}", error.failure.traceback)
            self._sitting = replace(self._sitting, failure=failure)
        return self._concluded()

    def _concluded(self) -> Sitting:
        sitting = self._sitting
        if sitting.failure is not None and sitting.failure.code in ("INFRASTRUCTURE", "TRAINED_INIT"):
            return sitting
        deadline = self._plan.wall_clock.budget_s if self._plan.wall_clock else None
        number = graded_candidate(sitting.history, deadline)
        if number is not None:
            return replace(sitting, graded=number, bundle=self._place(number).read_bytes(), failure=None)
        reason = f"recipe.promote={self._plan.recipe.promote} promoted none of {self._count(Candidate)} candidates"
        return replace(sitting, failure=sitting.failure or ExamFailure("NOTHING_PROMOTED", reason))

    def _trace(self) -> Traced:
        """The learner's programs. A sealed learner brings them along."""
        reply, arrays = self._traced() if self._plan.sealed is None else self._plan.sealed
        try:
            self._sitting = replace(self._sitting, program_bytes=weighed(reply, arrays))
        except WhestError as error:
            raise SessionFailedError("LEARNER_ERROR", str(error)) from None
        return reply, arrays

    def _traced(self) -> Traced:
        limit_s = self._plan.worker_limits.setup_timeout_s
        worker = Worker("trace", self._plan.world)
        try:
            worker.wait_until_ready()
            self._sitting = replace(self._sitting, protections=worker.protections)
            reply, arrays = worker.ask({}, (), limit_s, LARGEST_WRITTEN, PROGRAM.arrays)
        except WorkerFailedError as error:
            if error.is_timeout:
                raise SessionFailedError("TIME", f"tracing took more than setup_timeout_s={limit_s}: killed") from None
            code: Code = "OUT_OF_MEMORY" if error.failure.code == "OUT_OF_MEMORY" else "LEARNER_ERROR"
            raise SessionFailedError(code, error.failure.message, error.failure.traceback) from None
        finally:
            worker.close()
        if "failure" in reply:
            raise SessionFailedError("LEARNER_ERROR", str(reply["failure"]), str(reply.get("traceback")))
        return reply, arrays

    def _ask(
        self,
        trainer: Worker,
        message: Message,
        arrays: Sequence[np.ndarray],
        work: str,
        key: str,
        limit_s: float | None,
    ) -> tuple[Message, list[np.ndarray]]:
        """A question that is bounded in time. What is too slow is the learner's fault, not ours."""
        try:
            return trainer.ask(message, arrays, timeout_s=limit_s)
        except WorkerFailedError as error:
            if error.is_timeout:
                raise SessionFailedError("TIME", f"{work} took more than {key}={limit_s:g}: killed") from None
            raise

    def _train(self, trainer: Worker, programs: Message, constants: list[np.ndarray]) -> None:
        trainer.wait_until_ready()
        both = trainer.protections
        if self._plan.sealed is None:
            both = in_both(self._sitting.protections, both)
        text = np.frombuffer(self._plan.material.text, np.uint8)
        message: Message = {"do": "load", "programs": programs}
        limit_s = self._plan.worker_limits.setup_timeout_s
        reply, _ = self._ask(trainer, message, [text, *constants], "compiling", "setup_timeout_s", limit_s)
        if "failure" in reply:
            raise SessionFailedError("LEARNER_ERROR", str(reply["failure"]))
        cost: Cost = TypeAdapter(Cost).validate_python(reply["cost"])
        self._sitting = replace(self._sitting, protections=both, update_cost=cost, n_params=int(reply["n_params"]))
        self._sitting = replace(self._sitting, constant_bytes=int(reply["constant_bytes"]))
        if not reply["first_bits"] >= LEAST_FIRST_BITS:
            raise SessionFailedError(
                "TRAINED_INIT",
                f"before its first update it needs {reply['first_bits']:.3g} bits per byte, which is below "
                f"{LEAST_FIRST_BITS:g}: a learner must start from random numbers",
            )
        planned = steps_by_call(affordable(self._plan.budget, cost.flops), self._plan.recipe.calls)
        for number, steps in enumerate(planned, start=1):
            if not self._call(trainer, number, steps, sum(planned), cost):
                return
            self._package(trainer, number)

    def _call(self, trainer: Worker, number: int, steps: int, n_planned: int, cost: Cost) -> bool:
        """One training call, which gets the remaining budget. False if it was refused, or its process was killed."""
        asked_at, clock = self._elapsed_s(), self._plan.wall_clock
        seconds_left = seconds = flops_left = None
        if clock is None:
            flops_left = self._plan.budget - self._sitting.steps * cost.flops
        else:
            seconds_left, allowed = clock.left_s(asked_at), clock.allowance_s(asked_at)
            if allowed is None:
                reason = f"{seconds_left:.0f} s are left, and no call begins in the last {clock.reserve_s:g} s"
                self._record(Refusal(number, asked_at, reason))
                return False
            seconds = min(allowed, seconds_left / (self._plan.recipe.calls - number + 1))
        message = {
            "do": "train",
            "steps": steps if clock is None else None,
            "seconds": seconds,
            "left": n_planned - self._sitting.steps if seconds_left is None else seconds_left,
            "total": n_planned if clock is None else clock.budget_s,
        }
        try:
            allowed_s = self._plan.call_limit_s if seconds is None else seconds + GRACE_S
            spent, _ = trainer.ask(message, timeout_s=allowed_s)
        except WorkerFailedError as error:
            if error.is_timeout:
                reason = f"it was killed: its updates took more than {allowed_s:g} s"
                self._record(Refusal(number, asked_at, reason))
                return False
            raise
        if "failure" in spent:
            raise SessionFailedError("LEARNER_ERROR", str(spent["failure"]))
        done = int(spent["steps"])
        losses = [(int(step), float(bits)) for step, bits in spent["losses"] if math.isfinite(bits)]
        sitting = self._sitting
        self._sitting = replace(sitting, steps=sitting.steps + done, losses=(*sitting.losses, *losses))
        used = float(spent["wall_time_s"])
        self._record(Call(number, asked_at, flops_left, seconds_left, done, done * cost.flops, used))
        if spent["known"] is not None:
            step, known = spent["known"]
            raise SessionFailedError("TRAINED_INIT", known_words(float(known), int(step)))
        return True

    def _package(self, trainer: Worker, number: int) -> None:
        limit_s, largest = self._plan.call_limit_s, OPENED_SHARE * self._plan.bundle_limit_bytes
        message: Message = {"do": "package", "largest_bytes": largest}
        reply, arrays = self._ask(trainer, message, (), "packaging and trying", "task.call_limit_s", limit_s)
        if "failure" in reply:
            raise SessionFailedError("TOO_LARGE", str(reply["failure"]))
        content = arrays[0].tobytes()
        self._place(number).write_bytes(content)
        self._record(
            Candidate(
                number=number,
                packaged_at_s=self._elapsed_s(),
                steps=self._sitting.steps,
                sha256=hashlib.sha256(content).hexdigest(),
                gzipped_bytes=gzipped_size(content),
                validation_right=int(reply["right"]),
                validation_asked=len(self._plan.material.validation.questions),
            )
        )
        if self._plan.recipe.promotes(number):
            self._record(Promotion(number, self._elapsed_s()))

    def _record(self, entry: Entry) -> None:
        """Append an entry to the history, here and on disk. Entries are never removed."""
        self._sitting = replace(self._sitting, history=(*self._sitting.history, entry))
        with (self._folder / HISTORY).open("a") as file:
            file.write(json.dumps(entry_json(entry)) + "\n")

    def _place(self, number: int) -> Path:
        return self._folder / CANDIDATES / f"{number:03d}.npz"

    def _count(self, kind: type) -> int:
        return sum(isinstance(entry, kind) for entry in self._sitting.history)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started
