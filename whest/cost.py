"""The cost of a program: FLOPs by namespace and operation, and where the time went."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from whest.notation import html_table, text_table

MOST_ROWS = 20
"""The number of charges shown; the others are added up in a last row."""
UNLABELLED = "–"
COLUMNS = ("namespace", "operation", "FLOPs", "share", "calls")


@dataclass(frozen=True)
class Timing:
    """The parts of the wall time: the device's work, the harness's work, and everything else the estimator did."""

    backend_time_s: float = 0.0
    overhead_time_s: float = 0.0
    residual_wall_time_s: float = 0.0

    @property
    def wall_time_s(self) -> float:
        return self.backend_time_s + self.overhead_time_s + self.residual_wall_time_s


@dataclass(frozen=True)
class Charge:
    """The cost of one operation in one namespace."""

    namespace: str
    """`jax.named_scope` names joined by dots; empty for unlabelled work."""
    operation: str
    flops: int
    calls: int
    timing: Timing | None = None
    """Where its time went; None in a traced program, which is timed as a whole."""


@dataclass(frozen=True)
class Cost:
    """A program's charges, the most expensive first, and XLA's count beside them."""

    charges: tuple[Charge, ...]
    flops_xla: float | None = None
    """XLA's figures for the same operations, each lowered alone; None if nobody asked XLA."""
    xla_unknown: tuple[str, ...] = ()
    """Operations without a figure of XLA's, which count 0 in it."""
    flops_peer: float | None = None
    """The same program by flopscope's price list; None if nobody asked, or it has no price for an operation."""
    peer_unpriced: tuple[str, ...] = ()
    """Operations that flopscope's list has no price for."""

    @cached_property
    def flops(self) -> int:
        return sum(charge.flops for charge in self.charges)

    @property
    def by_operation(self) -> dict[str, int]:
        """FLOPs of each operation, the most expensive first."""
        return _summed((charge.operation, charge.flops) for charge in self.charges)

    @property
    def by_namespace(self) -> dict[str, int]:
        """FLOPs of each `jax.named_scope`, the most expensive first; '' holds unlabelled work."""
        return _summed((charge.namespace, charge.flops) for charge in self.charges)

    def __str__(self) -> str:
        return cost_text(self)

    def _repr_html_(self) -> str:
        return cost_html(self)


def cost_rows(cost: Cost) -> list[tuple[str, ...]]:
    """The most expensive charges, and one row for all others."""
    total = max(cost.flops, 1)

    def row(namespace: str, operation: str, flops: int, calls: int) -> tuple[str, ...]:
        return namespace or UNLABELLED, operation, f"{flops:,}", f"{flops / total:.1%}", f"{calls:,}"

    paid = [charge for charge in cost.charges if charge.flops]
    rows = [row(charge.namespace, charge.operation, charge.flops, charge.calls) for charge in paid[:MOST_ROWS]]
    rest = paid[MOST_ROWS:]
    if rest:
        calls = sum(charge.calls for charge in rest)
        rows.append(row("", f"{len(rest)} more", sum(charge.flops for charge in rest), calls))
    return rows


def cost_text(cost: Cost) -> str:
    return f"{_title(cost)}\n{text_table(COLUMNS, cost_rows(cost), left=2)}"


def cost_html(cost: Cost) -> str:
    return html_table(COLUMNS, cost_rows(cost), caption=_title(cost), left=2)


def _summed(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = defaultdict(int)
    for name, flops in pairs:
        totals[name] += flops
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def _title(cost: Cost) -> str:
    free = sum(not charge.flops for charge in cost.charges)
    return f"{cost.flops:,} FLOPs" + (f", {free} kinds of operations cost nothing" if free else "")
