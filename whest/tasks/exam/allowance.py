"""The allowance of a training call: pure functions of the elapsed time and the FLOPs.

With a budget in FLOPs, a call gets its share of the updates. With a budget in seconds, a call may last until its limit
or the deadline; in the reserve before the deadline, no call begins.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import Field

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class WallClock:
    """A budget in seconds: the deadline, the longest call, and the reserve before the deadline."""

    budget_s: Seconds
    call_limit_s: Seconds
    reserve_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    def left_s(self, elapsed_s: float) -> float:
        return max(0.0, self.budget_s - elapsed_s)

    def allowance_s(self, elapsed_s: float) -> float | None:
        """The longest time of a call that begins now; None if it is refused."""
        if elapsed_s >= self.budget_s - self.reserve_s:
            return None
        return min(self.call_limit_s, self.left_s(elapsed_s))

    def is_in_time(self, elapsed_s: float) -> bool:
        return elapsed_s <= self.budget_s


def affordable(budget: float, flops_per_update: int) -> int:
    """The number of updates that a FLOP budget pays for."""
    return math.floor(budget / flops_per_update) if flops_per_update > 0 else 0


def steps_by_call(n_steps: int, n_calls: int) -> list[int]:
    """Divide `n_steps` updates equally between `n_calls` calls."""
    ends = [n_steps * call // n_calls for call in range(n_calls + 1)]
    return [end - start for start, end in pairwise(ends)]
