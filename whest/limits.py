"""The limits of a case and of a worker."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one case may spend under the rules of a round. None means no limit."""

    budget: float
    lam: float
    wall_time_limit_s: float | None
    residual_wall_time_limit_s: float | None


@dataclass(frozen=True)
class WorkerLimits:
    """The time and memory that a worker may use. None means no limit."""

    wall_time_limit_s: float | None
    setup_timeout_s: float | None
    memory_limit_mb: float | None
