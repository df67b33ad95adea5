"""Where the seconds of a compiled program went: XLA's own events of a profiler's trace, by label and operation.

Every event names an instruction of the compiled program, whose text says which equation it was made for. At a moment in
which several threads work, each of their events gets an equal part, so the parts add up to no more than the wall time.
"""

import gzip
import json
import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

CALL = "whest-profiled-call"
"""The name of the annotation around each profiled call."""

END = "end: "
"""Before an instruction's name: the mark that it has ended."""

CONTAINERS = frozenset({"while", "call", "conditional", "async-start", "async-done"})
"""Instructions that only run others: their events contain those of their bodies."""

OPERATIONS = {"dot": "dot_general", "convolution": "conv_general_dilated", "custom-call": "library call"}
"""Names for instructions that say of no equation that they were made for it."""

BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s64": 8, "u64": 8, "f64": 8, "c64": 8}
"""Bytes of an element; 4 for other types, 16 for c128."""

INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%(?P<name>[\w.\-]+) = (?P<type>\(.*?\)|\S+) (?P<opcode>[\w\-]+)\((?P<rest>.*)$"
)
OP_NAME = re.compile(r'op_name="([^"]*)"')
SHAPE = re.compile(r"(pred|token|bf16|[a-z]+\d+)\[([\d,]*)\]")

Place = tuple[str, str]
"""Label and operation."""


@dataclass(frozen=True)
class Instruction:
    """One line of a compiled program."""

    place: Place
    opcode: str
    n_bytes: int
    """What it reads and writes, each operand and the result once."""


@dataclass(frozen=True)
class Spent:
    """What one call spent at a place."""

    seconds: float
    n_bytes: float


def read_instructions(text: str, labels: Iterable[str]) -> dict[str, Instruction]:
    """The instructions of a compiled program's text, with the author's labels among the words that XLA keeps."""
    words = {word for label in labels for word in label.split(".")}
    lines = [found for found in map(INSTRUCTION.match, text.splitlines()) if found is not None]
    sizes = {found["name"]: _size(found["type"]) for found in lines}
    made = {}
    for found in lines:
        arguments = found["rest"].split("), ", 1)[0]
        operands = [sizes.get(name, 0) for name in re.findall(r"%([\w.\-]+)", arguments)]
        named = OP_NAME.search(found["rest"])
        place = _place(named[1] if named else "", found["opcode"], words)
        made[found["name"]] = Instruction(place, found["opcode"], sizes[found["name"]] + sum(operands))
    return made


def _size(text: str) -> int:
    def one(kind: str, shape: str) -> int:
        width = 0 if kind == "token" else 16 if kind == "c128" else BYTES.get(kind, 4)
        return width * prod(int(n) for n in shape.split(",") if n)

    return sum(one(*found) for found in SHAPE.findall(text))


def _place(name: str, opcode: str, words: set[str]) -> Place:
    parts = name.split("/")
    if len(parts) < 2:  # an argument, or nothing
        return "", OPERATIONS.get(opcode, opcode)
    return ".".join(part for part in parts[:-1] if part in words), parts[-1].split("[")[0]


def read_events(folder: Path) -> list[Mapping[str, Any]]:
    """The finished events of the trace that JAX's profiler wrote under a folder."""
    files = sorted(folder.rglob("*.trace.json.gz"))
    kept = [path for path in files if "perfetto" not in path.name] or files
    if not kept:
        return []
    events = json.loads(gzip.decompress(kept[0].read_bytes()))["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


def calls_of(events: Sequence[Mapping[str, Any]], known: Mapping[str, Instruction]) -> list[dict[Place, Spent]]:
    """For each profiled call: what was spent at each place."""
    windows = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["name"] == CALL)
    timed = [
        (event["ts"], event["ts"] + event["dur"], name)
        for event in events
        if (name := event.get("args", {}).get("hlo_op", "")) in known
        and known[name].opcode not in CONTAINERS
        and not event["name"].startswith(END)
    ]
    ends: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["name"].startswith(END):
            ends[event["name"].removeprefix(END)].append(event["ts"])
    whole = [(begin, end, known[name]) for begin, end, name in finished(timed, ends)]
    return [_spent([it for it in whole if first <= it[0] < last], first, last) for first, last in windows]


def finished(
    timed: Sequence[tuple[float, float, str]], ends: Mapping[str, list[float]]
) -> list[tuple[float, float, str]]:
    """Events with their true ends.

    An instruction that goes on in other threads leaves its own thread first. It ends at its end mark, which XLA may
    set late: something that started after it left its thread proves that it had ended.
    """
    starts = sorted(begin for begin, _, _ in timed)
    marks = {name: sorted(places) for name, places in ends.items()}
    found = []
    for begin, end, name in timed:
        own = marks.get(name, [])
        place = bisect_left(own, begin)
        mark = own[place] if place < len(own) else math.inf
        after = bisect_left(starts, end)
        following = starts[after] if after < len(starts) else math.inf
        found.append((begin, max(end, min(mark, following)), name))
    return found


def _spent(events: Sequence[tuple[float, float, Instruction]], first: float, last: float) -> dict[Place, Spent]:
    seconds: dict[Place, float] = defaultdict(float)
    n_bytes: dict[Place, float] = defaultdict(float)
    moments: list[tuple[float, int, int]] = []
    for index, (begin, end, instruction) in enumerate(events):
        n_bytes[instruction.place] += instruction.n_bytes
        moments += [(begin, 1, index), (min(end, last), -1, index)]
    active: set[int] = set()
    before = first
    for moment, step, index in sorted(moments):
        for other in active:
            seconds[events[other][2].place] += (moment - before) / len(active) * 1e-6
        before = moment
        active.add(index) if step > 0 else active.discard(index)
    return {place: Spent(seconds[place], n_bytes[place]) for place in n_bytes}
