"""Traced mode: the whole of `predict` is one XLA program, so its cost is known before it runs.

Weights, seed and key are tracers, which no host code can look into. Tracing and compiling happen once a shape and
outside the wall time; a warm-up call runs before anything is timed.
"""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

from whest.case import Failure, Prediction, ShapeMismatch, Timing
from whest.errors import UnmeterableError
from whest.estimator import Estimator, MLPView
from whest.meter import Cost, cost_of
from whest.mlp import MLP

Arguments = tuple[Array, Array, Array]
NOTHING_SPENT = Cost(())


@dataclass(frozen=True)
class Program:
    """A compiled `predict` for one shape."""

    cost: Cost
    compile_time_s: float
    run: Callable[..., Array] | None
    """Null when the program costs more than the budget: it is refused, not compiled."""

    def predict(self, mlp: MLP) -> Prediction:
        if self.run is None:
            return Prediction(None, self.cost)
        arguments = jax.block_until_ready(_arguments(mlp))
        try:
            started = time.perf_counter()
            pending = self.run(*arguments)
            dispatched = time.perf_counter()
            jax.block_until_ready(pending)
            finished = time.perf_counter()
        except Exception as error:
            return Prediction(None, self.cost, failure=_failure(error))
        timing = Timing(backend_time_s=finished - dispatched, overhead_time_s=dispatched - started)
        means = np.asarray(pending)
        if not np.isfinite(means).all():
            bad = int(np.sum(~np.isfinite(means)))
            message = f"the prediction has {bad} of {means.size} values that are NaN or infinite"
            return Prediction(None, self.cost, timing, Failure("NON_FINITE", message))
        return Prediction(means, self.cost, timing)


def compile_program(estimator: Estimator, width: int, depth: int, budget: float) -> Program | Failure:
    """Trace, meter and, where the budget allows it, compile; a failure holds for every MLP of this shape."""

    def program(
        weights: Float[Array, "depth width width"], seed: UInt32[Array, ""], key_data: UInt32[Array, "2"]
    ) -> Float[Array, "depth width"]:
        view = MLPView(weights, seed, jax.random.wrap_key_data(key_data))
        return jnp.asarray(estimator.predict(view, int(budget)))

    started = time.perf_counter()
    try:
        traced = jax.jit(program).trace(*_argument_shapes(width, depth))
        mismatch = _check_output(traced.out_info, width, depth)
        if mismatch is not None:
            return mismatch
        cost = cost_of(traced.jaxpr)
        if cost.flops > budget:
            return Program(cost, time.perf_counter() - started, None)
        compiled = traced.lower().compile()
    except Exception as error:
        return _failure(error)
    return Program(cost, time.perf_counter() - started, compiled)


def _arguments(mlp: MLP) -> Arguments:
    """The key is `jax.random.key(mlp.seed)`, passed as its two words."""
    key_data = np.array([0, mlp.seed], np.uint32)
    return jnp.asarray(mlp.weights), jnp.asarray(np.uint32(mlp.seed)), jnp.asarray(key_data)


def _argument_shapes(width: int, depth: int) -> tuple[jax.ShapeDtypeStruct, ...]:
    return (
        jax.ShapeDtypeStruct((depth, width, width), jnp.float32),
        jax.ShapeDtypeStruct((), jnp.uint32),
        jax.ShapeDtypeStruct((2,), jnp.uint32),
    )


def _check_output(output: Any, width: int, depth: int) -> Failure | None:
    expected, got = (depth, width), tuple(output.shape)
    if got != expected:
        mismatch = ShapeMismatch(
            expected, got, tuple(_shape_hints(expected, got)), "predict must return (depth, width)"
        )
        return Failure("BAD_SHAPE", f"predict returned shape {got}, expected {expected}", shape=mismatch)
    if not jnp.issubdtype(output.dtype, jnp.floating):
        return Failure("PREDICT_ERROR", f"predict returned {output.dtype} values, expected floating point")
    return None


def _shape_hints(expected: tuple[int, ...], got: tuple[int, ...]) -> list[str]:
    hints = []
    if got == expected[::-1]:
        hints.append("the axes are swapped: return means.T")
    if got == expected[1:]:
        hints.append("only one layer was returned: stack the means of every layer, the first included")
    if len(got) == 2 and got[0] == expected[0] + 1:
        hints.append("one layer too many: the input's mean is not part of the answer")
    return hints or ["stack one row of `width` means a layer, in order: jnp.stack(rows)"]


def _failure(error: Exception) -> Failure:
    if isinstance(error, UnmeterableError):
        return Failure("UNMETERABLE", str(error))
    message = f"{type(error).__name__}: {error}"
    code = "OUT_OF_MEMORY" if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in message else "PREDICT_ERROR"
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return Failure(code, message, "".join(lines))  # type: ignore[arg-type]
