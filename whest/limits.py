"""Limits: what a case may spend, and what a worker may take."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """A round's rulebook: what a case may spend. A null cap is off."""

    budget: float
    lam: float
    wall_time_limit_s: float | None
    residual_wall_time_limit_s: float | None


@dataclass(frozen=True)
class WorkerLimits:
    """What a worker may take; null is no limit."""

    wall_time_limit_s: float | None
    setup_timeout_s: float | None
    memory_limit_mb: float | None
