"""Runs one compiled `predict` under JAX's profiler, and joins its seconds with its FLOPs."""

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np

from whest.cases.prediction import Failure
from whest.cost import Cost
from whest.errors import JobFailedError
from whest.estimator.calling import set_up, tear_down
from whest.estimator.traced import compile_program, estimator_function, fresh_compiler, program_arguments, trace
from whest.metering.lists import BESIDE, priced_by
from whest.mlp import MLP
from whest.tasks.whitebox.machine import measure_machine
from whest.tasks.whitebox.profile import Compiled, Part, Profile
from whest.tasks.whitebox.task import Whitebox
from whest.tasks.whitebox.timeline import CALL, Place, Spent, calls_of, read_events, read_instructions

N_CALLS, MOST_CALLS, LONG_S = 2, 20, 2.0
"""Calls with and without the profiler: as many as fit into so many seconds, between the two."""


def measure_profile(task: Whitebox) -> Profile:
    """The profile of an estimator on the first MLP of the dataset, in this process."""
    mlp = task.dataset.mlp(task.dataset.rows[0])
    made = set_up(task.estimator, task.context)
    if isinstance(made, Failure):
        raise JobFailedError("\n".join(["the estimator could not be set up", *made.lines]))
    try:
        function = estimator_function(made, task.context.flop_budget)
        with priced_by(f"{task.prices}{BESIDE}"):
            run, compiled = _compiled(function, task)  # first, so that JAX remembers nothing yet
            cost = _cost(function, task, mlp)
    finally:
        tear_down(made)
        with suppress(OSError):
            Path(task.context.scratch_dir).rmdir()  # unless something was left in it
    arguments = jax.block_until_ready(program_arguments(mlp))
    before = measure_machine()
    seconds = _timed(run, arguments)
    n_calls = len(seconds)
    known = read_instructions(run.as_text(), [charge.namespace for charge in cost.charges])
    walls, calls = _profiled(run, arguments, known, n_calls)
    parts = join_parts(cost, calls)
    return Profile(
        f"{task.estimator.name} on {task.dataset.width}×{task.dataset.depth}",
        median(seconds),
        float(np.mean(walls)),
        n_calls,
        compiled,
        cost,
        parts,
        before.better(measure_machine()),
    )


def _cost(function: Any, task: Whitebox, mlp: MLP) -> Cost:
    """By the rounds that loops really run on this MLP."""
    program = compile_program(function, task.context)
    if isinstance(program, Failure):
        raise JobFailedError("\n".join(["the estimator can't be compiled", *program.lines]))
    if program.refused:
        raise JobFailedError(f"the estimator costs {program.cost.flops:,} FLOPs, over budget={task.limits.budget:,.0f}")
    prediction = program.predict(mlp)
    if prediction.failure is not None:
        raise JobFailedError("\n".join(["the estimator failed on the first MLP", *prediction.failure.lines]))
    return prediction.cost


def _compiled(function: Any, task: Whitebox) -> tuple[Any, Compiled]:
    """The program compiled anew, for the seconds that it takes."""
    with fresh_compiler():
        started = time.perf_counter()
        traced = trace(lambda *arguments: function(*arguments), task.context)
        if isinstance(traced, Failure):
            raise JobFailedError("\n".join(["the estimator can't be traced", *traced.lines]))
        after_trace = time.perf_counter()
        lowered = traced.lower()
        after_lowering = time.perf_counter()
        run = lowered.compile()
        ended = time.perf_counter()
    return run, Compiled(after_trace - started, after_lowering - after_trace, ended - after_lowering)


def _timed(run: Any, arguments: Any) -> list[float]:
    jax.block_until_ready(run(*arguments))
    seconds: list[float] = []
    while len(seconds) < N_CALLS or (len(seconds) < MOST_CALLS and sum(seconds) < LONG_S):
        started = time.perf_counter()
        jax.block_until_ready(run(*arguments))
        seconds.append(time.perf_counter() - started)
    return seconds


def _profiled(run: Any, arguments: Any, known: Any, n_calls: int) -> tuple[list[float], list[dict[Place, Spent]]]:
    """The wall seconds of each profiled call, and what it spent where."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=_options()):
            jax.block_until_ready(run(*arguments))  # the profiler's own start is in the first call
            for _ in range(n_calls):
                with jax.profiler.TraceAnnotation(CALL):
                    jax.block_until_ready(run(*arguments))
        events = read_events(Path(folder))
    walls = [event["dur"] * 1e-6 for event in events if event["name"] == CALL]
    if len(walls) != n_calls:
        raise JobFailedError("JAX's profiler left no trace of the calls: job=profile needs one that writes trace.json")
    return walls, calls_of(events, known)


def _options() -> jax.profiler.ProfileOptions:
    """No events of Python's own functions: there are many, and each takes time."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return options


def join_parts(cost: Cost, calls: Sequence[dict[Place, Spent]]) -> list[Part]:
    """Seconds per call with their standard error, and FLOPs, by label and operation; the longest first."""
    flops: dict[Place, int] = {}
    for charge in cost.charges:
        place = charge.namespace, charge.operation
        flops[place] = flops.get(place, 0) + charge.flops
    parts = []
    for place in {*flops, *(place for call in calls for place in call)}:
        spent = [call.get(place, Spent(0.0, 0.0)) for call in calls]
        seconds = np.array([it.seconds for it in spent])
        error = float(seconds.std(ddof=1) / len(seconds) ** 0.5) if len(seconds) > 1 else 0.0
        n_bytes = float(np.mean([it.n_bytes for it in spent]))
        parts.append(Part(*place, float(seconds.mean()), error, flops.get(place, 0), n_bytes))
    return sorted(parts, key=lambda part: (-part.seconds, -part.flops, part.namespace, part.operation))
