"""Runners in other processes: for code you don't trust. A worker that dies, hangs or grows costs its own MLP only.

In traced mode one worker traces the estimator and hands its program over as plain data; another, which never imports
the estimator, meters and runs it. In eager mode one worker does it all and counts itself, which docs/meter.md weighs.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from whest.errors import ConfigError, UnprotectedError
from whest.estimator.contract import SetupContext
from whest.estimator.spec import EstimatorSpec
from whest.isolation.messages import Traced
from whest.isolation.protections import Name, Protections, status_of
from whest.isolation.runner import InProcessRunner, Runner
from whest.limits import WorkerLimits
from whest.metering.lists import DEFAULT


@dataclass(frozen=True)
class Isolation:
    """`isolation=…`: where the estimator lives and what it may use up."""

    kind: Literal["auto", "none", "process"]
    fresh: bool
    """A new worker for each MLP, so that nothing is remembered between them."""
    require: tuple[Name, ...] = ()
    """Protections that a stranger's code must have. Part of the protocol; a run without one of them ends."""

    def is_process(self, spec: EstimatorSpec) -> bool:
        if spec.peer is not None or spec.is_sealed:
            return True
        if self.kind == "auto":
            return not spec.is_trusted and not (_is_interactive() and not self.require)
        return self.kind == "process"

    def refuse_unfit(self, spec: EstimatorSpec) -> None:
        if spec.peer is not None and self.kind == "none":
            raise ConfigError("isolation=none: estimator=whestbench runs in an interpreter of its own, leave that out")
        if spec.is_sealed and self.kind == "none":
            raise ConfigError(
                f"isolation=none: estimator={spec.name} is a sealed program, which runs in a worker; leave it out"
            )
        if self.require and not spec.is_trusted and not self.is_process(spec):
            raise UnprotectedError(
                f"estimator={spec.name} would run in this process, without isolation.require="
                f"[{','.join(self.require)}]: use isolation=process, or waive them on record with isolation.require=[]"
            )

    def required_of(self, spec: EstimatorSpec) -> tuple[Name, ...]:
        """What a worker of this estimator must have. Code that ships with whest meets it as trusted."""
        return () if spec.is_trusted else self.require


def describe_protection(require: Sequence[str], spec: EstimatorSpec, found: Protections) -> dict[str, Any]:
    """A report's part on protection: what was required, what was in force, and the status that boards show."""
    status = status_of(spec.is_trusted, found)
    return {"require": list(require), "status": status, "protections": dict(found)}


def _is_interactive() -> bool:
    """A notebook or a debugger, where people want to step into their estimator."""
    return sys.gettrace() is not None or "ipykernel" in sys.modules


def open_runner(
    isolation: Isolation,
    spec: EstimatorSpec,
    context: SetupContext,
    limits: WorkerLimits,
    hidden: Sequence[Path],
    cache: Path,
    sealed: Traced | None = None,
    prices: str = DEFAULT,
) -> Runner:
    """`sealed` is the program of a sealed estimator, which is not traced again."""
    if not isolation.is_process(spec):
        return InProcessRunner(spec, context, prices)
    from whest.isolation.eager import EagerProcessRunner  # a trusted estimator needs no worker
    from whest.isolation.peer import PeerRunner
    from whest.isolation.process import World
    from whest.isolation.traced import TracedProcessRunner

    refuse_among_answers(hidden, spec)
    names = tuple(str(path) for path in hidden)
    world = World(spec, context, limits, names, cache, isolation.required_of(spec), prices)
    if spec.peer is not None:
        return PeerRunner(world, isolation.fresh)
    return EagerProcessRunner(world, isolation.fresh) if spec.mode == "eager" else TracedProcessRunner(world, sealed)


def refuse_among_answers(hidden: Sequence[Path], spec: EstimatorSpec) -> None:
    """An estimator that lives among the answers could not be kept from them. A sealed program is never in the room."""
    for path in hidden:
        if spec.source is not None and not spec.is_sealed and spec.source.resolve().is_relative_to(path.resolve()):
            raise ConfigError(f"estimator.path={spec.source} lies in {path}, which holds answers: move it elsewhere")
