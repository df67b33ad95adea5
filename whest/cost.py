"""What a program cost: FLOPs by namespace and operation, and where the time went."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Where the wall time went: the device's work, the harness's own, and everything else the estimator did."""

    backend_time_s: float = 0.0
    overhead_time_s: float = 0.0
    residual_wall_time_s: float = 0.0

    @property
    def wall_time_s(self) -> float:
        return self.backend_time_s + self.overhead_time_s + self.residual_wall_time_s


@dataclass(frozen=True)
class Charge:
    """What one operation cost in one namespace."""

    namespace: str
    """`jax.named_scope` names joined by dots; empty for unlabelled work."""
    operation: str
    flops: int
    calls: int
    timing: Timing | None = None
    """Where its time went; null in a traced program, which is one whole."""


@dataclass(frozen=True)
class Cost:
    """A program's charges, dearest first."""

    charges: tuple[Charge, ...]

    @property
    def flops(self) -> int:
        return sum(charge.flops for charge in self.charges)

    @property
    def by_operation(self) -> dict[str, int]:
        """FLOPs of each operation, dearest first."""
        return _summed((charge.operation, charge.flops) for charge in self.charges)

    @property
    def by_namespace(self) -> dict[str, int]:
        """FLOPs of each `jax.named_scope`, dearest first; '' holds unlabelled work."""
        return _summed((charge.namespace, charge.flops) for charge in self.charges)

    def __str__(self) -> str:
        from whest.cost_view import cost_text

        return cost_text(self)

    def _repr_html_(self) -> str:
        from whest.cost_view import cost_html

        return cost_html(self)


def _summed(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = defaultdict(int)
    for name, flops in pairs:
        totals[name] += flops
    return dict(sorted(totals.items(), key=lambda item: -item[1]))
