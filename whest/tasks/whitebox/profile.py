"""A profile: seconds and FLOPs of one `predict` by label and operation, in words, as JSON and as a page."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from whest.cost import UNLABELLED, Cost
from whest.document import Json
from whest.notation import figure, text_table
from whest.page import Block, Cell, Column, Fact, Flame, Frame, Headline, Page, Section, Table, Text
from whest.page.blocks import Value
from whest.tasks.whitebox.counts import COUNTS, count_json, count_rows
from whest.tasks.whitebox.machine import Machine

MOST_ROWS = 15
REMAINDER = "between operations"
HOW = (
    "Seconds are XLA's own events of JAX's profiler, in the compiled program as it runs. XLA fuses neighbours into one "
    "kernel, whose time stands at the operation that ends it; FLOPs stand where the program's text has them. So a "
    "label compares both fairly, and a single operation only roughly."
)
BOUND = (
    "compute: the FLOPs at the machine's rate of products take longer than the bytes at its memory's rate. memory: the "
    "other way round. neither: it takes over four times the longer of the two, as small operations and look-ups do. "
    "A function such as exp is one FLOP here and many instructions there."
)


@dataclass(frozen=True)
class Compiled:
    """Seconds until a program can run, with nothing taken from a cache."""

    trace_s: float
    lower_s: float
    compile_s: float

    @property
    def total_s(self) -> float:
        return self.trace_s + self.lower_s + self.compile_s


@dataclass(frozen=True)
class Part:
    """One operation under one label, per call."""

    namespace: str
    operation: str
    seconds: float
    seconds_se: float
    flops: int
    n_bytes: float


@dataclass(frozen=True)
class Profile:
    """One estimator on one MLP on this machine."""

    title: str
    wall_s: float
    """The median call without the profiler."""
    profiled_s: float
    """The mean call under it, which the parts and the remainder add up to."""
    n_calls: int
    compiled: Compiled
    cost: Cost
    parts: Sequence[Part]
    machine: Machine

    @property
    def remainder_s(self) -> float:
        """Time in which no operation ran: dispatch, waiting, the profiler."""
        return self.profiled_s - sum(part.seconds for part in self.parts)

    @property
    def namespaces(self) -> list[Part]:
        """The parts of each label together; errors add up as if they were independent."""
        groups: dict[str, list[Part]] = defaultdict(list)
        for part in self.parts:
            groups[part.namespace].append(part)
        joined = [_together(name, parts) for name, parts in groups.items()]
        return sorted(joined, key=lambda part: (-part.seconds, part.namespace))

    def lines(self) -> list[str]:
        """The profile as text."""
        machine, compiled = self.machine, self.compiled
        share = self.cost.flops / self.wall_s / machine.flops_per_s
        return [
            f"{self.title}: {_time(self.wall_s)} per call, {figure(self.cost.flops)} FLOPs, "
            f"{share:.0%} of this machine's rate of products",
            *(f"FLOPs by {name:<12}{value}, {remark}" for name, value, remark in count_rows(self.cost)),
            f"compiling        {_time(compiled.total_s)}: tracing {_time(compiled.trace_s)}, lowering "
            f"{_time(compiled.lower_s)}, XLA {_time(compiled.compile_s)}; not part of a call",
            f"this machine     {figure(machine.flops_per_s)} FLOPs per s in products, "
            f"{figure(machine.bytes_per_s)} bytes per s from and to memory",
            text_table(
                ("label", "", "seconds", "share", "FLOPs", "FLOPs per s", "bound by"), self._label_rows(), left=2
            ),
            text_table(
                ("label", "operation", "seconds", "share", "FLOPs", "FLOPs per s", "bound by"), self._rows(), left=2
            ),
            f"under the profiler a call takes {self.profiled_s / self.wall_s:.2f} × as long; the parts and the "
            f"remainder add up to that, over {self.n_calls} calls",
        ]

    def _label_rows(self) -> list[tuple[str, ...]]:
        return [*map(self._row, self.namespaces), self._remainder_row()]

    def _rows(self) -> list[tuple[str, ...]]:
        timed = [part for part in self.parts if part.seconds or part.flops]
        rest = timed[MOST_ROWS:]
        more = [_together(f"{len(rest)} more", rest)] if rest else []
        return [*map(self._row, [*timed[:MOST_ROWS], *more]), self._remainder_row()]

    def _row(self, part: Part) -> tuple[str, ...]:
        rate = figure(part.flops / part.seconds) if part.flops and part.seconds else "–"
        return (
            part.namespace or UNLABELLED,
            part.operation,
            f"{_time(part.seconds)} ± {_time(part.seconds_se)}" if part.seconds else "–",
            f"{part.seconds / self.profiled_s:.1%}" if part.seconds else "–",
            figure(part.flops),
            rate,
            self._bound(part),
        )

    def _bound(self, part: Part) -> str:
        return self.machine.bound(part.flops, part.n_bytes, part.seconds) if part.seconds else "–"

    def _remainder_row(self) -> tuple[str, ...]:
        return REMAINDER, "", _time(self.remainder_s), f"{self.remainder_s / self.profiled_s:.1%}", "–", "–", "–"

    def page(self, command: str) -> Page:
        compiled, machine = self.compiled, self.machine
        facts = [
            Fact("compiling", _time(compiled.total_s), "tracing, lowering and XLA; not part of a call"),
            Fact("products", f"{figure(machine.flops_per_s)}/s", "this machine's FLOPs per second, 1024 × 1024"),
            Fact("memory", f"{figure(machine.bytes_per_s)}/s", "bytes read and written per second"),
        ]
        blocks: list[Block] = [
            Headline("per call", _time(self.wall_s), "median, without the profiler", facts=facts),
            Section("Where the time goes", [Flame(self._frames(), "Width is time under the profiler."), Text(HOW)]),
            Section("By label", [self._table(self.namespaces), Text(BOUND)]),
            Section("By operation", [self._table([part for part in self.parts if part.seconds or part.flops])]),
            Section("By price list", [Table(("list", "one MLP", ""), count_rows(self.cost), COUNTS)]),
        ]
        return Page(f"{self.title}, profiled", command, blocks, kind="profile")

    def _table(self, parts: Sequence[Part]) -> Table:
        error = Column("±", "standard error over calls")
        columns: list[Column | str] = ["label", "operation", "seconds", error, "share", "FLOPs", "bytes"]
        rest = self.remainder_s
        rows: list[list[Value | Cell]] = [
            [
                part.namespace or UNLABELLED,
                part.operation,
                part.seconds,
                part.seconds_se,
                Cell(f"{part.seconds / self.profiled_s:.2%}", part.seconds),
                part.flops,
                part.n_bytes,
                self._bound(part),
            ]
            for part in parts
        ]
        rows.append([REMAINDER, "", rest, None, Cell(f"{rest / self.profiled_s:.2%}", rest), None, None, "–"])
        return Table([*columns, "bound by"], rows, f"One call, the mean of {self.n_calls}.")

    def _frames(self) -> list[Frame]:
        """Labels as nested frames, their operations on top, and the remainder beside them."""
        inside = _frames([(_steps(part), part) for part in self.parts if part.seconds], self.profiled_s)
        rest = Frame(REMAINDER, self.remainder_s, self._said(self.remainder_s), colour="muted")
        return [Frame("a call", self.profiled_s, self._said(self.profiled_s), (*inside, rest), "ink")]

    def _said(self, seconds: float) -> str:
        return f"{_time(seconds)}, {seconds / self.profiled_s:.1%}"

    def to_json(self) -> Json:
        return {
            "schema_version": "1.0",
            "title": self.title,
            "wall_time_s": self.wall_s,
            "profiled_wall_time_s": self.profiled_s,
            "remainder_s": self.remainder_s,
            "n_calls": self.n_calls,
            "compile": asdict(self.compiled),
            "machine": asdict(self.machine),
            "cost": count_json(self.cost),
            "namespaces": [{**asdict(part), "bound_by": self._bound(part)} for part in self.namespaces],
            "operations": [{**asdict(part), "bound_by": self._bound(part)} for part in self.parts],
        }


def _together(name: str, parts: Sequence[Part]) -> Part:
    error = sum(part.seconds_se**2 for part in parts) ** 0.5
    seconds, n_bytes = sum(part.seconds for part in parts), sum(part.n_bytes for part in parts)
    return Part(name, "", seconds, error, sum(part.flops for part in parts), n_bytes)


def _steps(part: Part) -> tuple[str, ...]:
    return (*(part.namespace.split(".") if part.namespace else ()), part.operation)


def _frames(parts: Sequence[tuple[tuple[str, ...], Part]], whole: float) -> tuple[Frame, ...]:
    groups: dict[tuple[str, bool], list[tuple[tuple[str, ...], Part]]] = defaultdict(list)
    for steps, part in parts:
        groups[steps[0], len(steps) == 1].append((steps[1:], part))
    made = []
    for (name, is_operation), own in groups.items():
        seconds = sum(part.seconds for _, part in own)
        inner = () if is_operation else _frames(own, whole)
        said = f"{_time(seconds)}, {seconds / whole:.1%}"
        made.append(Frame(name, seconds, said, inner, "series-3" if is_operation else "accent"))
    return tuple(sorted(made, key=lambda frame: -frame.value))


def _time(seconds: float) -> str:
    """Seconds in a unit that suits them."""
    if abs(seconds) >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if abs(seconds) >= 1e-3 else f"{seconds * 1e6:.3g} µs"
