"""How an estimator is called: set it up, check its output, tear it down. Every error becomes a `Failure`."""

import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

import jax.numpy as jnp
import numpy as np

from whest.cases.prediction import ErrorCode, Failure, Prediction, ShapeMismatch
from whest.cost import Cost, Timing
from whest.errors import ConfigError, UnmeterableError
from whest.estimator.contract import Estimator, SetupContext
from whest.estimator.spec import EstimatorSpec
from whest.host import is_users_code


def set_up(spec: EstimatorSpec, context: SetupContext) -> Estimator | Failure:
    """Create the estimator and call its `setup`."""
    try:
        Path(context.scratch_dir).mkdir(parents=True, exist_ok=True)
        estimator = spec.create()
        setup = getattr(estimator, "setup", None)
        if setup is not None:
            setup(context)
    except (Exception, SystemExit) as error:
        if isinstance(error, ConfigError) and spec.is_trusted:
            raise
        return Failure("SETUP_ERROR", f"{type(error).__name__}: {error}", traceback.format_exc(), **place(error))
    return estimator


def tear_down(estimator: Estimator | None) -> None:
    """Call the estimator's `teardown`. An error in it does not change the score."""
    teardown = getattr(estimator, "teardown", None)
    if teardown is not None:
        with suppress(Exception):
            teardown()


def checked_prediction(means: np.ndarray, cost: Cost, timing: Timing) -> Prediction:
    """The output as float32 means, or a failure if a value isn't finite. The shape was checked before."""
    with np.errstate(over="ignore"):
        means = means.astype(np.float32)
    bad = int(np.sum(~np.isfinite(means)))
    if bad:
        message = f"the prediction has {bad} of {means.size} values that are NaN or infinite"
        return Prediction(None, cost, timing, Failure("NON_FINITE", message))
    return Prediction(means, cost, timing)


def check_output(output: Any, context: SetupContext) -> Failure | None:
    """A failure if the output has the wrong shape or isn't floating point."""
    expected, got = (context.depth, context.width), tuple(output.shape)
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
        hints.append("one layer too many: leave out the mean of the input")
    return hints or ["stack one row of `width` means per layer, in order: jnp.stack(rows)"]


def describe_error(error: BaseException) -> Failure:
    """An exception of the estimator, as the failure of its case."""
    if isinstance(error, UnmeterableError):
        return Failure("UNMETERABLE", str(error), **place(error))
    message = f"{type(error).__name__}: {error}"
    is_memory = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in message
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    code: ErrorCode = "OUT_OF_MEMORY" if is_memory else "PREDICT_ERROR"
    return Failure(code, message, "".join(lines), **place(error))


class Place(TypedDict):
    """What a failure tells of an exception."""

    exception: str
    where: str | None


def place(error: BaseException) -> Place:
    """The exception's class, and the last line of the estimator's own code that led to it."""
    return {"exception": type(error).__name__, "where": users_line(error)}


def users_line(error: BaseException) -> str | None:
    if isinstance(error, SyntaxError) and error.filename and is_users_code(error.filename):
        return f'File "{error.filename}", line {error.lineno}: {(error.text or "").strip()}'
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users_code(frame.filename)]
    if not frames:
        return None
    last = frames[-1]
    return f'File "{last.filename}", line {last.lineno}, in {last.name}: {last.line}'
