"""A prediction for one case: its means, its cost and, if it failed, the reason."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from whest.cost import Cost, Timing
from whest.notation import printable

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
"""The last three are WhestBench's own codes for its estimators: killed at the time limit, died in `predict`, died in
`setup`."""


@dataclass(frozen=True)
class ShapeMismatch:
    """The shape of a prediction with a wrong shape, and its usual causes."""

    expected_shape: tuple[int, ...]
    got_shape: tuple[int, ...]
    cause_hints: tuple[str, ...]
    hint: str


TRACER_ERRORS = (
    "ConcretizationTypeError",
    "NonConcreteBooleanIndexError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
)
"""JAX's errors for Python code that needs the value of a traced array."""

TRACED_VALUE = (
    "predict is traced once, without values: choose with lax.cond or jnp.where, compute with jnp instead of np, or run "
    "it as ordinary Python with estimator.mode=eager"
)


OWN_LIMITS = {
    "SETUP_TIMEOUT": "the limit is setup_timeout_s: raise it, or do less before the first prediction",
    "PREDICT_TIMEOUT": "the limit is wall_time_limit_s: raise it, or do less",
}
"""The key of the config behind a failure at a limit."""


@dataclass(frozen=True)
class Failure:
    """Why a case has no usable prediction."""

    code: ErrorCode
    message: str
    traceback: str | None = None
    shape: ShapeMismatch | None = None
    exception: str | None = None
    """The class of the exception, if there was one."""
    where: str | None = None
    """The last line of the estimator's own code: file, line, function and source."""

    @property
    def summary(self) -> str:
        """The code and the first line of the message: JAX's messages have many."""
        return f"{self.code}: {(self.message.splitlines() or [''])[0]}"

    @property
    def lines(self) -> list[str]:
        """The summary, and the user's own line if it is known, without anything that a terminal would act on."""
        return [f"  {printable(self.summary)}", *([f"  {printable(self.where)}"] if self.where else [])]

    @property
    def hints(self) -> tuple[str, ...]:
        """What to do about it."""
        causes = self.shape.cause_hints if self.shape is not None else ()
        late = (OWN_LIMITS[self.code],) if self.code in OWN_LIMITS else ()
        return (*causes, *((TRACED_VALUE,) if self.exception in TRACER_ERRORS else ()), *late)


@dataclass(frozen=True)
class Flags:
    """The limits that a case exceeded. Several can be set, unless the runner's rules allow only one."""

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
    """An estimator's prediction for one MLP, and its cost. `means` is None if it failed or was refused."""

    means: Float[np.ndarray, "depth width"] | None
    cost: Cost
    timing: Timing = field(default_factory=Timing)
    failure: Failure | None = None
    compile_time_s: float = 0.0
    """Time for tracing and compiling, on the first case that needed it. It is not part of the wall time."""
    output: str = ""
    """The estimator's printed text, if it ran in a worker."""
    flags: Flags | None = None
    """Flags from a runner that has its own rules for limits (WhestBench). If None, the limits are checked later."""

    @property
    def refused(self) -> bool:
        """Whether it was not run because the counted cost of its program is over the budget."""
        return self.means is None and self.failure is None and self.timing.wall_time_s == 0
