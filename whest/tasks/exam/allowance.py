"""What a training call may use up: pure functions of a clock's reading and of FLOPs spent.

By FLOPs, a call gets its share of the updates that the budget pays for. By wall time, a call may be as long as the
limit on calls and the time left allow; in the last minutes, the reserve, nothing new begins.
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
        """How long a call that is asked for now may run; null where it is refused."""
        if elapsed_s >= self.budget_s - self.reserve_s:
            return None
        return min(self.call_limit_s, self.left_s(elapsed_s))

    def is_in_time(self, elapsed_s: float) -> bool:
        return elapsed_s <= self.budget_s


def affordable(budget: float, flops_per_update: int) -> int:
    """Updates that a FLOP budget pays for."""
    return math.floor(budget / flops_per_update) if flops_per_update > 0 else 0


def steps_by_call(n_steps: int, n_calls: int) -> list[int]:
    """The updates of each of so many equal calls; together all of them."""
    ends = [n_steps * call // n_calls for call in range(n_calls + 1)]
    return [end - start for start, end in pairwise(ends)]
