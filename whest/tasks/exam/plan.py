"""The plan of an exam run, and the part of it that each process gets."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from whest.estimator.spec import EstimatorSpec
from whest.isolation.channel import Message
from whest.isolation.messages import write_spec
from whest.isolation.process import Launch, chosen_platforms, launch_module
from whest.learner.contract import LearnerContext
from whest.limits import WorkerLimits
from whest.tasks.exam.allowance import WallClock
from whest.tasks.exam.material import Material
from whest.tasks.exam.process.room import furniture, importable
from whest.tasks.exam.questions import write_questions
from whest.tasks.exam.recipe import Recipe


@dataclass(frozen=True)
class Plan:
    """A learner, its material, its budget and its recipe."""

    spec: EstimatorSpec
    context: LearnerContext
    worker_limits: WorkerLimits
    material: Material
    recipe: Recipe
    budget: float
    """The FLOPs of all updates together; without effect if there is a wall clock."""
    wall_clock: WallClock | None
    bundle_limit_bytes: int
    seed: int
    cache: Path
    """The folder of compiled programs."""

    @property
    def world(self) -> "ExamWorld":
        """The data that processes are started with. It contains nothing about the exam."""
        validation = write_questions(self.material.validation.questions).decode()
        return ExamWorld(self.spec, self.context, self.worker_limits, validation, self.seed, self.cache)


@dataclass(frozen=True)
class ExamWorld:
    """The data that the processes of a run may have."""

    spec: EstimatorSpec
    context: LearnerContext
    limits: WorkerLimits
    validation: str
    seed: int
    cache: Path

    @cached_property
    def room(self) -> list[Path]:
        return furniture(self.spec)

    def launch(self, role: str, scratch: Path) -> Launch:
        by_role: dict[str, dict[str, Any]] = {
            "trace": {"spec": write_spec(self.spec), "context": asdict(self.context)},
            "train": {
                "learner": {"name": self.spec.name, "target": self.spec.target, "knobs": dict(self.spec.knobs)},
                "context": asdict(self.context),
                "validation": self.validation,
                "seed": self.seed,
                "cache": str(self.cache),
            },
            "grade": {},
        }
        writable = [str(scratch), *([str(self.cache)] if role == "train" else [])]
        platforms = "cpu" if role == "trace" else chosen_platforms()
        room = [str(path) for path in self.room]
        start: Message = {"room": room, "writable": writable, "platforms": platforms, **by_role[role]}
        return launch_module("whest.tasks.exam.process.worker", role, scratch, importable(self.spec, self.room), start)
