"""Eager mode: `predict` as ordinary Python on concrete arrays, every operation charged as it runs.

A trace of our own stands where JAX would evaluate directly. It sees each primitive, a jitted call included, looks up
its price, stops the program at the operation that crosses the budget, and times the kernel. What is left of the wall
time is the estimator's own Python: the residual that λ prices.
"""

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from whest.cost import Charge, Cost, Timing
from whest.metering.internals import (
    ClosedJaxpr,
    Primitive,
    Trace,
    current_scopes,
    eval_trace,
    set_current_trace,
)
from whest.metering.loops import count_rounds
from whest.metering.roads import closed_roads, undisturbed
from whest.metering.xla import Counted, count


class BudgetSpentError(BaseException):
    """Raised at the operation that crosses the budget; not an `Exception`, so a broad except doesn't swallow it."""


@dataclass
class Row:
    """What one operation has cost so far in one namespace."""

    flops: float = 0.0
    calls: int = 0
    backend_time_s: float = 0.0
    overhead_time_s: float = 0.0
    residual_wall_time_s: float = 0.0

    def charge(self, namespace: str, operation: str) -> Charge:
        timing = Timing(self.backend_time_s, self.overhead_time_s, self.residual_wall_time_s)
        return Charge(namespace, operation, round(self.flops), self.calls, timing)


@dataclass
class Ledger:
    """A running account of one `predict`."""

    budget: float
    rows: dict[tuple[str, str], Row] = field(default_factory=lambda: defaultdict(Row))
    flops: float = 0.0
    flops_xla: float = 0.0
    xla_unknown: set[str] = field(default_factory=set)
    report: Callable[[float], None] = lambda flops: None
    """Told the FLOPs spent so far, for whoever must know them even if this process dies."""
    mark: float = 0.0
    """When the last accounted moment ended: what lies between it and the next operation is residual."""

    def add(self, prefix: str, cost: Cost) -> None:
        for charge in cost.charges:
            row = self.rows[_join(prefix, charge.namespace), charge.operation]
            row.flops += charge.flops
            row.calls += charge.calls
        self.flops += cost.flops
        self.flops_xla += cost.flops_xla or 0.0
        self.xla_unknown.update(cost.xla_unknown)
        self.report(self.flops)
        if self.flops > self.budget:
            raise BudgetSpentError

    def cost(self) -> Cost:
        charges = (row.charge(*place) for place, row in self.rows.items())
        dearest_first = tuple(sorted(charges, key=lambda charge: -charge.flops))
        return Cost(dearest_first, self.flops_xla, tuple(sorted(self.xla_unknown)))

    def timing(self) -> Timing:
        rows = self.rows.values()
        return Timing(
            sum(row.backend_time_s for row in rows),
            sum(row.overhead_time_s for row in rows),
            sum(row.residual_wall_time_s for row in rows),
        )


@dataclass(frozen=True)
class Metered:
    """The price of one signature, and how to run it where its loops must be counted."""

    estimate: Counted
    counted: Callable[..., Any] | None

    def evaluate(self, primitive: Primitive, args: Any, params: Any) -> tuple[Any, list[int]]:
        """The finished results, and how often each data-dependent loop went round."""
        if self.counted is None:
            return jax.block_until_ready(eval_trace.process_primitive(primitive, args, params)), []
        answers, rounds = jax.block_until_ready(self.counted(*args))
        return answers if primitive.multiple_results else answers[0], np.asarray(rounds).tolist()

    def cost_of_rounds(self, rounds: list[int]) -> Cost:
        """What the rounds add to the lower bound that was charged before the run."""
        return self.estimate.rounds_alone().cost(rounds)


class MeteringTrace(Trace):
    """Charges every primitive, then lets JAX evaluate it."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self.is_busy = False
        """Pricing or running an operation that was charged: what JAX evaluates meanwhile belongs to it."""

    def process_primitive(self, primitive: Primitive, args: Any, params: Any, /) -> Any:
        self.is_busy = True
        try:
            with undisturbed(COMPILER.listen):
                return self._charge(primitive, args, params)
        finally:
            self.is_busy = False

    def _charge(self, primitive: Primitive, args: Any, params: Any) -> Any:
        entered, ledger, label = time.perf_counter(), self._ledger, _current_label()
        row = ledger.rows[label, primitive.name]
        row.residual_wall_time_s += _seconds(ledger.mark, entered)
        kernel_s = 0.0
        try:
            metered = price_signature(primitive, args, params)
            ledger.add(label, metered.estimate.cost())
            started = time.perf_counter()
            results, rounds = metered.evaluate(primitive, args, params)
            kernel_s = _seconds(started, time.perf_counter())
            ledger.add(label, metered.cost_of_rounds(rounds))
            return results
        finally:
            ledger.mark = time.perf_counter()
            row.backend_time_s += kernel_s
            row.overhead_time_s += max(0.0, _seconds(entered, ledger.mark) - kernel_s)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **_: Any) -> Any:
        with set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **_: Any) -> Any:
        with set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_call(self, primitive: Any, f: Any, tracers: Any, params: Any, /) -> Any:
        with set_current_trace(self):
            return f.call_wrapped(*tracers)

    def stage_value(self, value: Any) -> Any:
        self.is_busy = True
        try:
            return eval_trace.stage_value(value)
        finally:
            self.is_busy = False


_PRICES: dict[Any, Metered] = {}


def price_signature(primitive: Primitive, args: Any, params: Mapping[str, Any]) -> Metered:
    """The price of an operation on operands of these shapes, remembered."""
    shapes = tuple(jax.typeof(arg) for arg in args)
    key = (primitive, shapes, _freeze(params))
    found = _PRICES.get(key)
    if found is None:
        found = _PRICES[key] = _price(primitive, shapes, params)
    return found


def _price(primitive: Primitive, shapes: tuple[Any, ...], params: Mapping[str, Any]) -> Metered:
    with set_current_trace(eval_trace):
        program: ClosedJaxpr = jax.make_jaxpr(lambda *args: primitive.bind(*args, **params))(*shapes)
        estimate = count(program)
        counted = jax.jit(count_rounds(program, list(estimate.loops))) if estimate.loops else None
    return Metered(estimate, counted)


def _freeze(params: Mapping[str, Any]) -> Any:
    """Parameters as part of a key: by value where they have one, else by identity."""
    return tuple((name, value if _hashable(value) else _Identity(value)) for name, value in sorted(params.items()))


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class _Identity:
    value: Any

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value


class CompilerClock:
    """When JAX was tracing, lowering or compiling, so that nobody is charged for it."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    def listen(self, event: str, duration_secs: float, **_: str | int) -> None:
        if "/compile" in event or "/jit" in event:
            ended = time.perf_counter()
            self._spans.append((ended - duration_secs, ended))

    def forget(self) -> None:
        self._spans.clear()

    def seconds_between(self, start: float, end: float) -> float:
        """Time within [start, end] that lies in a span; spans nest, so their union counts."""
        total, reached = 0.0, start
        for began, ended in sorted(span for span in self._spans if span[1] > start and span[0] < end):
            total += max(0.0, min(ended, end) - max(began, reached))
            reached = max(reached, min(ended, end))
        return total


COMPILER = CompilerClock()

jax.monitoring.register_event_duration_secs_listener(COMPILER.listen)


def _seconds(start: float, end: float) -> float:
    """Time that passed, compilation left out."""
    return max(0.0, end - start - COMPILER.seconds_between(start, end))


def _current_label() -> str:
    return ".".join(name.replace("/", ".") for name in current_scopes())


def _join(*labels: str) -> str:
    return ".".join(label for label in labels if label)


@contextmanager
def metered(ledger: Ledger) -> Iterator[None]:
    """Charge everything JAX does in this block to the ledger; no garbage collection interrupts it."""
    COMPILER.forget()
    gc.collect()
    gc.disable()
    ledger.mark = time.perf_counter()
    try:
        trace = MeteringTrace(ledger)
        with closed_roads(lambda: trace.is_busy, trace.process_primitive), set_current_trace(trace):
            yield
    finally:
        ledger.rows["", "python"].residual_wall_time_s += _seconds(ledger.mark, time.perf_counter())
        gc.enable()
