"""Roads around the trace in eager mode: each is led back to the meter or closed while a `predict` runs.

JAX evaluates constants at trace time (`jax.ensure_compile_time_eval`) without asking the current trace: charged. A
function compiled ahead of time (`jax.jit(f).lower(x).compile()`) runs without any trace: refused. Python that JAX calls
while it compiles or runs an operation would pass for compiling: listeners, log handlers and profilers are left out
meanwhile.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from whest.errors import UnmeterableError
from whest.metering.internals import EvalTrace, monitoring

Evaluate = Callable[[Any, Any, Any], Any]
"""Primitive, operands, parameters to results."""


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise UnmeterableError(
        "a function that was compiled ahead of time runs outside the meter, so eager mode refuses it: "
        "call the jitted function itself instead of .lower(...).compile()"
    )


@contextmanager
def closed_roads(is_busy: Callable[[], bool], charge: Evaluate) -> Iterator[None]:
    """Lead JAX's own evaluation to `charge` unless the meter is at work itself; refuse compiled functions."""
    evaluate, call, static_call = EvalTrace.process_primitive, jax.stages.Compiled.__call__, jax.stages.Compiled.call

    def charged(trace: Any, primitive: Any, args: Any, params: Any, /) -> Any:
        return evaluate(trace, primitive, args, params) if is_busy() else charge(primitive, args, params)

    EvalTrace.process_primitive = charged  # type: ignore[method-assign]
    jax.stages.Compiled.__call__ = _refuse  # type: ignore[method-assign]
    jax.stages.Compiled.call = staticmethod(_refuse)  # type: ignore[method-assign]
    try:
        yield
    finally:
        EvalTrace.process_primitive = evaluate  # type: ignore[method-assign]
        jax.stages.Compiled.__call__ = call  # type: ignore[method-assign]
        jax.stages.Compiled.call = staticmethod(static_call)  # type: ignore[method-assign]


LISTENERS = ("_event_listeners", "_event_duration_secs_listeners", "_event_time_span_listeners", "_scalar_listeners")


def _drop(logger: logging.Logger, record: logging.LogRecord) -> None:
    return None


@contextmanager
def undisturbed(clock: Callable[..., None]) -> Iterator[None]:
    """Nothing but `clock` hears of what JAX does in this block; profilers, tracers and loggers wait."""
    listeners = {name: getattr(monitoring, name) for name in LISTENERS if hasattr(monitoring, name)}
    profiler, tracer, handle = sys.getprofile(), sys.gettrace(), logging.Logger.handle
    sys.setprofile(None)
    sys.settrace(None)
    logging.Logger.handle = _drop  # type: ignore[method-assign, assignment]  # a level would stay in the loggers' own caches
    for name in listeners:
        setattr(monitoring, name, [clock] if "duration" in name else [])
    try:
        yield
    finally:
        for name, kept in listeners.items():
            setattr(monitoring, name, kept)
        logging.Logger.handle = handle  # type: ignore[method-assign]
        sys.settrace(tracer)
        sys.setprofile(profiler)
