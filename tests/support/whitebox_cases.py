"""White-box cases to score: one by hand, and suites of any kind for hypothesis."""

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st

from whest.cases.prediction import ErrorCode, Failure, Prediction
from whest.cases.whitebox import WhiteboxCase
from whest.cost import Charge, Cost, Timing
from whest.limits import Limits
from whest.truth.truth import Truth

BUDGET = 1000.0
FLOPS_PER_SAMPLE = 10.0


def make_truth(*layers: Sequence[float], error: float = 0.0, avg_variance: float = 1.0) -> Truth:
    means = np.array(layers, np.float32)
    return Truth(means, np.full_like(means, error), avg_variance, 100)


def make_case(
    truth: Truth, means: Any = None, flops: int = 0, timing: Timing | None = None, failure: Failure | None = None
) -> WhiteboxCase:
    """`means` None without a failure: refused before the run."""
    values = None if means is None else np.atleast_2d(np.array(means, np.float32))
    cost = Cost((Charge("", "dot_general", flops, 1),) if flops else ())
    return WhiteboxCase(0, "megan-chang", truth, Prediction(values, cost, timing or Timing(), failure), None)


reals = st.floats(-1e6, 1e6, width=32)
times = st.floats(0, 10)


@st.composite
def suites(draw: st.DrawFn, min_size: int = 1) -> list[WhiteboxCase]:
    """Cases of one shape: answered, refused or failed, cheap or dear."""
    depth, width = draw(st.integers(1, 3)), draw(st.integers(1, 4))

    def layers() -> np.ndarray:
        values = draw(st.lists(reals, min_size=depth * width, max_size=depth * width))
        return np.array(values, np.float32).reshape(depth, width)

    def case() -> WhiteboxCase:
        truth = Truth(layers(), np.abs(layers()), draw(st.floats(0, 1e6)), 100)
        flops = draw(st.integers(0, 2 * int(BUDGET)))
        timing = Timing(draw(times), draw(times), draw(times))
        kind = draw(st.sampled_from(["answered", "answered", "refused", "failed"]))
        if kind == "refused":
            return make_case(truth, flops=int(BUDGET) + 1 + flops)
        if kind == "failed":
            return make_case(truth, None, flops, timing, Failure(draw(st.sampled_from(get_args(ErrorCode))), "broke"))
        return make_case(truth, layers(), flops, timing)

    return [case() for _ in range(draw(st.integers(min_size, 4)))]


rulebooks = st.builds(
    Limits,
    budget=st.just(BUDGET),
    lam=st.sampled_from([0.0, 1.0, 100.0]),
    wall_time_limit_s=st.none() | st.floats(0.1, 30),
    residual_wall_time_limit_s=st.none() | st.floats(0.1, 10),
)
