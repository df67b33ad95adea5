"""Roads around the trace in eager mode: each is led back to the meter or closed while a `predict` runs.

JAX evaluates constants at trace time (`jax.ensure_compile_time_eval`) without asking the current trace: charged. A
function compiled ahead of time (`jax.jit(f).lower(x).compile()`) runs without any trace: refused.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax._src.core import EvalTrace

from whest.errors import UnmeterableError

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
