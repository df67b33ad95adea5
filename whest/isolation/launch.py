"""How a worker is started: what it sees of this machine, what it is told first, and the variables it gets."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import jax

from whest.estimator.spec import EstimatorSpec
from whest.isolation.channel import Message
from whest.isolation.furniture import both_ways, devices, furniture, importable, own_folder, private_entries
from whest.isolation.messages import write_spec
from whest.isolation.scratch import SCRATCH_BYTES, Scratch
from whest.limits import WorkerLimits

KEPT_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "NPROC", "CUDA_VISIBLE_DEVICES"),
    *("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS"),  # a worker compiles as this process does
    *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"),  # and LAPACK rounds as it does here
)
"""All of our environment that a worker gets; tokens, keys and addresses stay here."""

TRUSTED_ROLES = ("evaluate",)
"""Roles that import no stranger's code: limits, but no walls."""


@dataclass(frozen=True)
class Room:
    """What a worker sees of this machine's files, beside its scratch folder."""

    readable: Sequence[Path | str]
    hidden: Sequence[Path | str] = ()
    writable: Sequence[Path | str] = ()
    devices: Sequence[str] = ()
    scratch_bytes: int = SCRATCH_BYTES


@dataclass(frozen=True)
class Launch:
    """How a worker is started, and what it is told first."""

    then: str
    """The module that answers messages once the walls stand, or a file of this folder."""
    environment: Mapping[str, str]
    start: Message
    room: Room | None
    """None for trusted code, which gets limits alone."""
    python: str = sys.executable
    paths: Sequence[str] | None = None
    """Where modules are looked for; None for the interpreter's own places."""
    set_inside: Mapping[str, str] | None = None
    """Environment variables that the launcher sets behind the walls."""


class Surroundings(Protocol):
    """What a worker needs to be started."""

    @property
    def limits(self) -> WorkerLimits: ...

    @property
    def require(self) -> tuple[str, ...]:
        """The protections without which no stranger's code is run."""
        ...

    def launch(self, role: str, scratch: Path) -> Launch:
        """For a worker whose scratch folder is the path."""
        ...


@dataclass(frozen=True)
class World:
    """What every worker of a run has in common."""

    spec: EstimatorSpec
    context: Any
    """What `setup` is told, with a `scratch_dir` that each worker gets of its own."""
    limits: WorkerLimits
    hidden: tuple[str, ...]
    cache: Path
    require: tuple[str, ...] = ()
    prices: str = "whest"
    """The price list of the run."""

    def launch(self, role: str, scratch: Path) -> Launch:
        """One of `whest.isolation.worker`'s roles, in this interpreter."""
        platforms = "cpu" if role in ("trace", "learner") else chosen_platforms()
        start = {
            "spec": write_spec(self.spec),
            "context": asdict(replace(self.context, scratch_dir=str(scratch))),
            "cache": str(self.cache),
            "prices": self.prices,
        }
        module, environment = "whest.isolation.worker", bare_environment(scratch)
        inside = {"JAX_PLATFORMS": platforms}
        if role in TRUSTED_ROLES:
            return Launch(module, environment, start, None, paths=_own_paths(), set_inside=inside)
        hidden = [*map(Path, self.hidden), *private_entries(own_folder(self.spec))]
        allowed = furniture(self.spec, hidden)
        room = Room(allowed, hidden, devices=devices(platforms))
        return Launch(module, environment, start, room, paths=importable(self.spec, allowed), set_inside=inside)


def _own_paths() -> list[str]:
    return [path or str(Path.cwd()) for path in sys.path]


def first_words(launch: Launch, scratch: Scratch, spent: int) -> Message:
    """The start message: what the launcher needs, and what the role is told."""
    return {
        **launch.start,
        "then": launch.then,
        "paths": None if launch.paths is None else list(launch.paths),
        "environment": dict(launch.set_inside or {}),
        "file_bytes": SCRATCH_BYTES,
        "walls": None if launch.room is None else order(launch.room, launch.paths or (), scratch),
        "spent": spent,
    }


def order(room: Room, paths: Sequence[str], scratch: Scratch) -> Message:
    """The walls' order, as `whest.isolation.walls.room.Order` has it."""
    return {
        "mountpoint": str(scratch.mountpoint),
        "readable": [str(path) for path in room.readable],
        "listable": [*paths, *{str(Path(path).parent) for path in room.readable if Path(path).suffix == ".py"}],
        "hidden": [str(path) for path in both_ways(map(Path, room.hidden))],
        "writable": [str(path) for path in room.writable],
        "devices": list(room.devices),
        "scratch": str(scratch.folder),
        "scratch_bytes": room.scratch_bytes,
        "canary": str(scratch.canary),
        "uid": scratch.uid,
    }


def bare_environment(scratch: Path) -> dict[str, str]:
    """A minimal environment: a few inherited variables; HOME and TMPDIR inside the scratch folder."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**kept, "HOME": str(scratch), "TMPDIR": str(scratch), "PYTHONUNBUFFERED": "1"}


def chosen_platforms() -> str:
    """JAX's platforms as this process has them."""
    return getattr(jax.config, "jax_platforms", None) or ""
