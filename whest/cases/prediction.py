"""What a task yields: one result a case, with what it cost and, where it failed, why."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from whest.cost import Cost, Timing

ErrorCode = Literal[
    "PREDICT_ERROR",
    "BAD_SHAPE",
    "NON_FINITE",
    "UNMETERABLE",
    "WORKER_DIED",
    "OUT_OF_MEMORY",
    "SETUP_ERROR",
    "SETUP_TIMEOUT",
    "PREDICT_TIMEOUT",
    "WORKER_EOF",
    "SETUP_PROTOCOL_ERROR",
]
"""The last three are the peer's own, for its estimators: killed at the limit, dead in `predict`, dead in `setup`."""


@dataclass(frozen=True)
class ShapeMismatch:
    """What a wrong-shaped prediction looked like, and what usually causes it."""

    expected_shape: tuple[int, ...]
    got_shape: tuple[int, ...]
    cause_hints: tuple[str, ...]
    hint: str


@dataclass(frozen=True)
class Failure:
    """Why a case has no usable prediction."""

    code: ErrorCode
    message: str
    traceback: str | None = None
    shape: ShapeMismatch | None = None


@dataclass(frozen=True)
class Flags:
    """Why a case was zeroed; independent of each other, unless the runner's rule makes them exclusive."""

    budget_exhausted: bool
    time_exhausted: bool
    residual_wall_time_exhausted: bool
    combined_budget_exhausted: bool

    @property
    def any(self) -> bool:
        return (
            self.budget_exhausted
            or self.time_exhausted
            or self.residual_wall_time_exhausted
            or self.combined_budget_exhausted
        )


@dataclass(frozen=True)
class Prediction:
    """What an estimator answered for one MLP, and what that cost. `means` is null where it failed or was refused."""

    means: Float[np.ndarray, "depth width"] | None
    cost: Cost
    timing: Timing = field(default_factory=Timing)
    failure: Failure | None = None
    compile_time_s: float = 0.0
    """Tracing and compiling, on the case that had to wait for it; outside the wall time."""
    output: str = ""
    """What the estimator printed, where a worker caught it."""
    flags: Flags | None = None
    """The verdict of a runner with rules of its own on limits (the peer's); null leaves it to the task."""

    @property
    def refused(self) -> bool:
        """Over budget by its program alone, so it was never run."""
        return self.means is None and self.failure is None and self.timing.wall_time_s == 0
