"""Traced mode: the whole `predict` is one XLA program, so its cost is known before it runs.

Weights, seed and key are tracers, so Python code can't read their values. Tracing and compiling happen once per shape
and are not part of the wall time. A warm-up call runs before anything is timed.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from jaxtyping import Array, Float, UInt32

from whest.cases.prediction import Failure, Prediction
from whest.cost import Cost, Timing
from whest.estimator.calling import check_output, checked_prediction, describe_error
from whest.estimator.contract import Estimator, MLPView, SetupContext
from whest.metering.jaxprs import sub_programs
from whest.metering.loops import count_rounds
from whest.metering.xla import FIGURES, Counted, count
from whest.mlp import MLP

Function = Callable[..., Any]
"""`(weights, seed, key_data) -> means`, for tracing."""

LARGEST_KEPT = 30_000
"""The most equations of a compiled program that is kept on disk, those inside loops and functions not counted. jax 0.10
crashed when it read back a program of 40,000 equations (matrix_core at 1024×16, unrolled). kerdock at 256×32 was read
back correctly when it had 24,000, and 42,000 with those inside."""

LARGE = 3_000
"""The least number of equations, with those inside loops and functions, of a program that is compiled with
LARGE_OPTIONS."""
LARGE_OPTIONS: dict[str, bool | int] = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
"""XLA's older code generator and fewer passes of LLVM. matrix_core at 256×8 compiles in .7 of the CPU time and half of
the memory with them, and its answer takes .8 of the time (`benchmarks/compile_times.py compile`)."""


@dataclass(frozen=True)
class Program:
    """A compiled `predict` for one shape."""

    estimate: Counted
    compile_time_s: float
    run: Callable[..., tuple[Array, Array | None]] | None
    """Returns the means and the rounds of data-dependent loops. None if the program costs more than the budget: it was
    refused and not compiled."""

    @cached_property
    def cost(self) -> Cost:
        """The cost known before the run: everything except the rounds of data-dependent loops."""
        return self.estimate.cost()

    @property
    def refused(self) -> bool:
        return self.run is None

    def predict(self, mlp: MLP) -> Prediction:
        if self.run is None:
            return Prediction(None, self.cost)
        arguments = jax.block_until_ready(program_arguments(mlp))
        try:
            started = time.perf_counter()
            pending = self.run(*arguments)
            dispatched = time.perf_counter()
            means, rounds = jax.block_until_ready(pending)
            finished = time.perf_counter()
        except Exception as error:
            return Prediction(None, self.cost, failure=describe_error(error))
        timing = Timing(backend_time_s=finished - dispatched, overhead_time_s=dispatched - started)
        cost = self.estimate.cost(np.asarray(rounds).tolist()) if rounds is not None else self.cost
        return checked_prediction(np.asarray(means), cost, timing)


def estimator_function(estimator: Estimator, budget: int) -> Function:
    """An estimator's `predict` as a function of arrays only."""

    def function(
        weights: Float[Array, "depth width width"], seed: UInt32[Array, ""], key_data: UInt32[Array, "2"]
    ) -> Float[Array, "depth width"]:
        view = MLPView(weights, seed, jax.random.wrap_key_data(key_data))
        return jnp.asarray(estimator.predict(view, budget))

    return function


def trace(function: Function, context: SetupContext) -> Any | Failure:
    """JAX's traced program. A failure is valid for every MLP of this shape."""
    try:
        traced = jax.jit(function).trace(*_argument_shapes(context.width, context.depth))
    except (Exception, SystemExit) as error:
        return describe_error(error)
    return check_output(traced.out_info, context) or traced


def compile_program(function: Function, context: SetupContext) -> Program | Failure:
    """Trace and meter the program; compile it if its cost is within the budget."""
    begun = begin_program(function, context)
    return begun.compiled() if isinstance(begun, Begun) else begun


@dataclass(frozen=True)
class Begun:
    """A traced and metered program within the budget, which is not compiled yet."""

    traced: Any
    estimate: Counted
    context: SetupContext
    started: float

    @property
    def is_kept(self) -> bool:
        """Whether JAX may keep the compiled program on disk."""
        return len(self.traced.jaxpr.eqns) <= LARGEST_KEPT

    def compiled(self) -> Program | Failure:
        traced, estimate = self.traced, self.estimate
        try:
            run = _compile_counting(traced.jaxpr, estimate, self.context) if estimate.loops else _compile_plain(traced)
        except Exception as error:
            return describe_error(error)
        return Program(estimate, time.perf_counter() - self.started, run)


def begin_program(function: Function, context: SetupContext) -> Begun | Program | Failure:
    """Trace and meter the program. One that costs more than the budget is finished: it is refused."""
    started = time.perf_counter()
    traced = trace(function, context)
    if isinstance(traced, Failure):
        return traced
    try:
        estimate = _count(traced.jaxpr)
    except Exception as error:
        return describe_error(error)
    if estimate.cost().flops > context.flop_budget:
        return Program(estimate, time.perf_counter() - started, None)
    return Begun(traced, estimate, context, started)


class Compiling:
    """A program that is compiled in another thread, so that truth can be drawn meanwhile."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._result: Program | Failure | None = None
        self._thread = threading.Thread(target=self._compile, daemon=True)
        self._thread.start()

    def _compile(self) -> None:
        self._result = self._begun.compiled()

    def result(self) -> Program | Failure:
        self._thread.join()
        assert self._result is not None, "the compiler's thread ended without a result"
        return self._result


def _count(program: Any) -> Counted:
    """Both counts. XLA's figures are kept beside the compiled programs, where only trusted processes write."""
    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if folder is None:
        return count(program)
    FIGURES.load(Path(folder))
    counted = count(program)
    FIGURES.save(Path(folder))
    return counted


def _compile_plain(traced: Any) -> Callable[..., tuple[Array, None]]:
    compiled = _compile(traced)
    return lambda *arguments: (compiled(*arguments), None)


def _compile(traced: Any) -> Any:
    with _kept_on_disk(len(traced.jaxpr.eqns) <= LARGEST_KEPT):
        lowered = traced.lower()
        is_quick = jax.config.read("jax_disable_most_optimizations")  # somebody chose even fewer
        if _size(traced.jaxpr) >= LARGE and jax.default_backend() == "cpu" and not is_quick:
            with suppress(jax.errors.JaxRuntimeError):  # an option that this XLA doesn't know
                return lowered.compile(compiler_options=LARGE_OPTIONS)
        return lowered.compile()


def _size(program: Any) -> int:
    """The equations of a program, with those inside loops and functions."""
    return sum(1 + sum(map(_size, sub_programs(eqn) or ())) for eqn in program.jaxpr.eqns)


@contextmanager
def _kept_on_disk(is_kept: bool) -> Iterator[None]:
    """Use JAX's cache of compiled programs on disk, or switch it off."""
    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if is_kept or folder is None:
        yield
        return
    try:
        jax.config.update("jax_compilation_cache_dir", None)
        reset_cache()
        yield
    finally:
        jax.config.update("jax_compilation_cache_dir", folder)
        reset_cache()


@contextmanager
def fresh_compiler() -> Iterator[None]:
    """Compile anew what the cache on disk may have."""
    with _kept_on_disk(False):
        yield


def _compile_counting(program: Any, estimate: Counted, context: SetupContext) -> Callable[..., tuple[Array, Array]]:
    counting = count_rounds(program, list(estimate.loops))
    compiled = _compile(jax.jit(counting).trace(*_argument_shapes(context.width, context.depth)))

    def run(*arguments: Array) -> tuple[Array, Array]:
        (means,), rounds = compiled(*arguments)
        return means, rounds

    return run


def program_arguments(mlp: MLP) -> tuple[Array, Array, Array]:
    """The key is `jax.random.key(mlp.seed)`, passed as its two words."""
    key_data = np.array([0, mlp.seed], np.uint32)
    return jnp.asarray(mlp.weights), jnp.asarray(np.uint32(mlp.seed)), jnp.asarray(key_data)


def _argument_shapes(width: int, depth: int) -> tuple[jax.ShapeDtypeStruct, ...]:
    return (
        jax.ShapeDtypeStruct((depth, width, width), jnp.float32),
        jax.ShapeDtypeStruct((), jnp.uint32),
        jax.ShapeDtypeStruct((2,), jnp.uint32),
    )
