"""Sealing: have a worker trace an estimator, have another list and meter the program, and write both into one file."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from whest import __version__
from whest.errors import ConfigError, JobFailedError
from whest.estimator.spec import EstimatorSpec
from whest.isolation.launch import Surroundings
from whest.isolation.messages import Traced as Programs
from whest.isolation.messages import WorkerFailedError
from whest.isolation.process import Worker
from whest.isolation.vocabulary import FORMAT as PROGRAM_FORMAT
from whest.isolation.wire import PROGRAM
from whest.learner.size import LARGEST_WRITTEN
from whest.metering.walk import METER_VERSION
from whest.sealed.container import Versions
from whest.sealed.inspection import Listed, list_programs
from whest.sealed.purpose import Purpose
from whest.sealed.sealed import Traced, write_sealed


@dataclass(frozen=True)
class Order:
    """What is to be traced, and by which role of which worker."""

    purpose: Purpose
    role: str
    world: Surroundings
    seed: int
    recipe: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Author:
    name: str
    words: str


def seal(spec: EstimatorSpec, author: Author, orders: Sequence[Order]) -> tuple[bytes, list[list[Listed]]]:
    """The file, and the listing of each order's programs."""
    refuse_unsealable(spec)
    traced, listings = [], []
    for order in orders:
        programs = trace_in_worker(order)
        listed = list_programs(order.purpose, programs)
        flops = {program.name: program.by_namespace for program in listed}
        traced.append(Traced(order.purpose, programs, flops, order.seed, order.recipe))
        listings.append(listed)
    versions = Versions(__version__, version("jax"), METER_VERSION, PROGRAM_FORMAT)
    content = write_sealed(spec.name, author.name, author.words, spec.source_sha256, versions, traced)
    return content, listings


def refuse_unsealable(spec: EstimatorSpec) -> None:
    if spec.is_sealed:
        raise ConfigError(f"estimator.path={spec.path} is sealed already: copy the file")
    if spec.mode != "traced":
        raise ConfigError(
            f"estimator.mode={spec.mode} has no program that could be sealed: only a traced estimator is one program"
        )


def trace_in_worker(order: Order) -> Programs:
    """The programs as the worker sends them. What the estimator did wrong is the job's failure."""
    world, purpose = order.world, order.purpose
    most = None if purpose.task == "whitebox" else LARGEST_WRITTEN
    with closing(Worker(order.role, world)) as worker:
        try:
            worker.wait_until_ready()
            reply, arrays = worker.ask({"do": "trace"}, (), world.limits.setup_timeout_s, most, PROGRAM.arrays)
        except WorkerFailedError as error:
            limit = f" (setup_timeout_s={world.limits.setup_timeout_s:g})" if error.is_timeout else ""
            raise JobFailedError(f"it can't be traced for {purpose}: {error.failure.message}{limit}") from None
    if "failure" in reply:
        failure = reply["failure"]
        said = failure.get("message") if isinstance(failure, dict) else failure
        raise JobFailedError(f"it can't be traced for {purpose}: {str(said)[:2000]}")
    return reply, arrays
