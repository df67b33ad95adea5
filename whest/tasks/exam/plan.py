"""The plan of an exam run, and the part of it that each process gets."""

import os
import platform
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from whest.estimator.spec import EstimatorSpec
from whest.isolation.furniture import devices, furniture, importable, own_folder, private_entries
from whest.isolation.messages import Traced, write_spec
from whest.isolation.process import Launch, Room, bare_environment, chosen_platforms
from whest.learner.contract import LearnerContext
from whest.limits import WorkerLimits
from whest.tasks.exam.allowance import WallClock
from whest.tasks.exam.material import Material
from whest.tasks.exam.questions import write_questions
from whest.tasks.exam.recipe import Recipe

TRUSTED_ROLES = ("grade",)
"""Limits, but no walls: it reads a bundle as data, and never imports a learner."""

THREADS = "2"
"""XLA's threads on a CPU. It splits a long sum among them, so another number rounds otherwise."""
SAME_VECTORS = "--xla_cpu_max_isa=AVX2 --xla_cpu_prefer_vector_width=256"
"""What x86 processors since 2013 have in common. Without it XLA uses all that a processor has."""


def same_rounding() -> dict[str, str]:
    """Variables that make training repeat on other x86 machines. What the user set counts."""
    flags = f"{SAME_VECTORS} {os.environ.get('XLA_FLAGS', '')}".strip()
    return {"NPROC": os.environ.get("NPROC", THREADS)} | (
        {"XLA_FLAGS": flags} if platform.machine() == "x86_64" else {}
    )


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
    call_limit_s: float
    """Seconds for a training call, by FLOPs too, and for packaging and trying a candidate."""
    bundle_limit_bytes: int
    random_updates: float
    """The share of the updates that the learner's shadow repeats on random bytes."""
    seed: int
    cache: Path
    """The folder of compiled programs."""
    require: tuple[str, ...] = ()
    """Protections that a stranger's learner must have."""
    sealed: Traced | None = None
    """The programs of a sealed learner."""

    @property
    def world(self) -> "ExamWorld":
        """The data that processes are started with. It contains nothing about the exam."""
        validation = write_questions(self.material.validation.questions).decode()
        required = () if self.spec.is_trusted else self.require
        return ExamWorld(
            self.spec,
            self.context,
            self.worker_limits,
            validation,
            self.random_updates,
            self.seed,
            self.cache,
            required,
        )


@dataclass(frozen=True)
class ExamWorld:
    """The data that the processes of a run may have."""

    spec: EstimatorSpec
    context: LearnerContext
    limits: WorkerLimits
    validation: str
    random_updates: float
    seed: int
    cache: Path
    require: tuple[str, ...] = ()

    @cached_property
    def room(self) -> list[Path]:
        return furniture(self.spec, private_entries(own_folder(self.spec)))

    def launch(self, role: str, scratch: Path) -> Launch:
        by_role: dict[str, dict[str, Any]] = {
            "trace": {"spec": write_spec(self.spec), "context": asdict(self.context)},
            "train": {
                "learner": {"name": self.spec.name, "target": self.spec.target, "knobs": dict(self.spec.knobs)},
                "context": asdict(self.context),
                "validation": self.validation,
                "random_updates": self.random_updates,
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
            environment=bare_environment(scratch) | same_rounding(),
            start=by_role[role],
            room=None if role in TRUSTED_ROLES else room,
            paths=importable(self.spec, self.room),
            set_inside={"JAX_PLATFORMS": platforms},
        )
