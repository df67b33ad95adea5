"""What a sealed program computes, found by building it in a worker: costs, operations, constants, and a suspicion.

Whether a program looks like a table of answers is judged by four rules (`RULES`). They are hints for a reader: a table
can be hidden from them, and an honest program can trip one.
"""

import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from whest.cost import Cost
from whest.errors import JobFailedError
from whest.estimator.spec import BUNDLED, EstimatorSpec
from whest.isolation.channel import Message
from whest.isolation.furniture import devices, furniture, importable
from whest.isolation.influence import Finding
from whest.isolation.launch import Launch, Room, bare_environment
from whest.isolation.listing import Row
from whest.isolation.messages import WorkerFailedError, read_cost
from whest.isolation.process import Worker
from whest.limits import WorkerLimits
from whest.notation import printable
from whest.sealed.carried import Carried, carried_by
from whest.sealed.container import Entry
from whest.sealed.programs import named_programs
from whest.sealed.purpose import Purpose
from whest.sealed.sealed import Programs, Sealed

ANSWERS = 4
"""Constants that could hold so many answers are worth a look."""
RULES = {
    "luggage": f"its constants hold {ANSWERS} answers or more under gzip, lone numbers included",
    "lookup": "it reads a constant of at least one answer's size at a place that the weights decide",
    "choice": "it takes or leaves a constant of at least one answer's size as the weights decide",
    "blind": "its answer does not depend on the weights",
}
TIMEOUT_S = 600.0
LIMITS = WorkerLimits(None, TIMEOUT_S, 8000.0)


@dataclass(frozen=True)
class Constant:
    """An array that a program brings along."""

    program: str
    dtype: str
    shape: tuple[int, ...]
    n_bytes: int
    packed_bytes: int
    """Under deflate: what it could know."""


@dataclass(frozen=True)
class Listed:
    """One program as its worker listed it."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    cost: Cost
    n_open_loops: int
    """Loops whose rounds depend on the data; the cost has one test of each."""
    n_operations: int
    rows: Sequence[Row]
    findings: Sequence[Finding]

    @property
    def by_namespace(self) -> dict[str, int]:
        return self.cost.by_namespace


@dataclass(frozen=True)
class Suspicion:
    """A rule that a program trips, and by what."""

    rule: str
    what: str


@dataclass(frozen=True)
class Inspected:
    """One entry of a sealed file, looked into."""

    entry: Entry
    programs: Sequence[Listed]
    constants: Sequence[Constant]
    suspicions: Sequence[Suspicion]
    carried: Carried
    """What a contest counts."""

    @property
    def claims_hold(self) -> bool:
        """Whether the FLOPs that the file states are those that were counted."""
        return self.entry.flops == {program.name: program.by_namespace for program in self.programs}


@dataclass(frozen=True)
class ListingWorld:
    """The surroundings of a worker that lists: walls, and no estimator."""

    limits: WorkerLimits = LIMITS
    require: tuple[str, ...] = ()

    def launch(self, role: str, scratch: Path) -> Launch:
        spec = EstimatorSpec("listing", "traced", f"{BUNDLED}.zeros.Zeros", None, {})
        allowed = furniture(spec)
        room, paths = Room(allowed, devices=devices("cpu")), importable(spec, allowed)
        inside = {"JAX_PLATFORMS": "cpu"}
        environment = bare_environment(scratch)
        return Launch("whest.isolation.worker", environment, {}, room, paths=paths, set_inside=inside)


def inspect_sealed(sealed: Sealed) -> list[Inspected]:
    """Every entry of a file, each listed in a worker of its own."""
    return [inspect_programs(entry, sealed.programs(entry)) for entry in sealed.header.entries]


def inspect_programs(entry: Entry, programs: Programs) -> Inspected:
    message, arrays = programs
    spans = named_programs(entry.purpose.task, message, len(arrays))
    listed = list_programs(entry.purpose, programs)
    constants = [
        constant_of(name, array)
        for name, (_, span) in spans.items()
        for array in arrays[slice(*span)]
        if array.size > 1
    ]
    constants.sort(key=lambda constant: -constant.n_bytes)
    carried = carried_by(message, arrays)
    suspicions = suspicions_of(entry.purpose, listed, constants, carried.numbers)
    return Inspected(entry, listed, constants, suspicions, carried)


def constant_of(program: str, array: np.ndarray) -> Constant:
    packed = len(zlib.compress(array.tobytes(), 6))
    return Constant(program, array.dtype.name, array.shape, array.nbytes, min(packed, array.nbytes))


def list_programs(purpose: Purpose, programs: Programs) -> list[Listed]:
    """Have a worker build, meter and list the programs. One that can't be built is an error that says why."""
    message, arrays = programs
    asked = {"do": "list", "programs": named_programs(purpose.task, message, len(arrays))}
    with closing(Worker("list", ListingWorld())) as worker:
        try:
            worker.wait_until_ready()
            reply, _ = worker.ask(asked, arrays, timeout_s=TIMEOUT_S)
        except WorkerFailedError as error:
            raise JobFailedError(f"the program can't be listed: {error.failure.message}") from None
    return [read_listed(name, reply.get("programs")) for name in asked["programs"]]


def read_listed(name: str, replies: Any) -> Listed:
    """A worker's answer, believed only as far as its form is right."""
    answer = replies.get(name) if isinstance(replies, Mapping) else None
    fields: Message = answer if isinstance(answer, dict) else {}
    if "failure" in fields:
        raise JobFailedError(f"its program {name} can't be used: {printable(str(fields['failure']))}")
    try:
        rows = TypeAdapter(list[tuple[int, str, str, str, str, float | None, int | None]]).validate_python(
            fields["rows"]
        )
        texts = TypeAdapter(list[str]).validate_python([*fields["inputs"], *fields["outputs"]])
        return Listed(
            name,
            texts[: len(fields["inputs"])],
            texts[len(fields["inputs"]) :],
            read_cost(fields["cost"]),
            int(fields["n_open_loops"]),
            int(fields["n_operations"]),
            [Row(*row) for row in rows],
            TypeAdapter(list[Finding]).validate_python(fields["findings"]),
        )
    except (KeyError, TypeError, ValueError, ValidationError, WorkerFailedError) as error:
        raise JobFailedError(f"the worker that lists {name} gave no listing ({type(error).__name__})") from None


def suspicions_of(
    purpose: Purpose, listed: Sequence[Listed], constants: Sequence[Constant], number_bytes: int = 0
) -> list[Suspicion]:
    """The rules that a white-box program trips; a learner's constants are limited instead (docs/learners.md)."""
    if purpose.task != "whitebox":
        return []
    answer = (purpose.width or 0) * (purpose.depth or 0)
    packed = sum(constant.packed_bytes for constant in constants) + number_bytes
    found = []
    if packed >= ANSWERS * 4 * answer:
        held = f"{packed:,} bytes of constants under deflate, an answer has {4 * answer:,}"
        found.append(Suspicion("luggage", held))
    for finding in listed[0].findings:
        if finding.rule == "blind" or finding.n_values >= answer:
            size = f" ({finding.n_values:,} numbers)" if finding.n_values else ""
            found.append(Suspicion(finding.rule, printable(finding.what) + size))
    return found
