"""The plan of an exam run, and what of it each process is told."""

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from whest.estimator.spec import EstimatorSpec
from whest.isolation.furniture import devices, furniture, importable, own_folder, private_entries
from whest.isolation.messages import write_spec
from whest.isolation.process import Launch, Room, bare_environment, chosen_platforms
from whest.learner.contract import LearnerContext
from whest.limits import WorkerLimits
from whest.tasks.exam.allowance import WallClock
from whest.tasks.exam.material import Material
from whest.tasks.exam.questions import write_questions
from whest.tasks.exam.recipe import Recipe

TRUSTED_ROLES = ("grade",)
"""Limits, but no walls: it reads a bundle as data, and never imports a learner."""


@dataclass(frozen=True)
class Plan:
    """A learner, what it learns from, what it may use up, and the recipe it is trained by."""

    spec: EstimatorSpec
    context: LearnerContext
    worker_limits: WorkerLimits
    material: Material
    recipe: Recipe
    budget: float
    """In FLOPs: what updates may cost together, unless there is a clock."""
    wall_clock: WallClock | None
    bundle_limit_bytes: int
    seed: int
    cache: Path
    """Of compiled programs."""

    @property
    def world(self) -> "ExamWorld":
        """What processes are started from: nothing here leads to the exam."""
        validation = write_questions(self.material.validation.questions).decode()
        return ExamWorld(self.spec, self.context, self.worker_limits, validation, self.seed, self.cache)


@dataclass(frozen=True)
class ExamWorld:
    """What the processes of a run may know."""

    spec: EstimatorSpec
    context: LearnerContext
    limits: WorkerLimits
    validation: str
    seed: int
    cache: Path
    require: tuple[str, ...] = ()

    @cached_property
    def room(self) -> list[Path]:
        return furniture(self.spec, private_entries(own_folder(self.spec)))

    def launch(self, role: str, scratch: Path) -> Launch:
        told: dict[str, dict[str, Any]] = {
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
        platforms = "cpu" if role == "trace" else chosen_platforms()
        hidden, writable = private_entries(own_folder(self.spec)), [self.cache] if role == "train" else []
        room = Room(self.room, hidden, writable, devices(platforms))
        return Launch(
            then="whest.tasks.exam.process.worker",
            environment=bare_environment(scratch),
            start=told[role],
            room=None if role in TRUSTED_ROLES else room,
            paths=importable(self.spec, self.room),
            set_inside={"JAX_PLATFORMS": platforms},
        )
