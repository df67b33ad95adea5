"""Limits of an exam's processes: what is too slow or too large is the learner's failure, never an invalid run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.byte_learners import endless
from tests.support.exam_setup import EXAM, composed, write_files
from tests.support.places import ROOT
from whest.cases.exam import ExamCase, Refusal, Sitting
from whest.experiment import build
from whest.isolation.portable import write_program
from whest.learner.contract import N_BYTES
from whest.limits import WorkerLimits
from whest.tasks.exam.grading import grade
from whest.tasks.exam.plan import Plan
from whest.tasks.exam.process.bundle import Bundle, pack
from whest.tasks.exam.session import Session

pytestmark = pytest.mark.slow

SOURCE = ROOT / "tests" / "support" / "byte_learners.py"


PATIENT = WorkerLimits(60.0, 300.0, None)


def plan_in(folder: Path, learner: str = "Bigram", limits: WorkerLimits = PATIENT) -> Plan:
    paths = write_files(folder)
    paths["learner"].write_text("\n".join([SOURCE.read_text(), "", f"Estimator = {learner}", ""]))
    task = build(composed(paths, folder / "outputs", "tracking=none"), folder / "run").task
    return replace(task.plan, worker_limits=limits)


def held(plan: Plan, folder: Path) -> Sitting:
    return Session(plan, folder / "run").hold()


def test_a_learner_that_never_begins_scores_nothing(tmp_path: Path) -> None:
    sitting = held(plan_in(tmp_path, "NeverBegins", WorkerLimits(60.0, 60.0, None)), tmp_path)
    assert sitting.failure is not None
    assert (sitting.failure.code, sitting.failure.message) == (
        "TIME",
        "compiling took more than setup_timeout_s=60: killed",
    )


def test_a_call_without_end_is_ended_by_flops_too(tmp_path: Path) -> None:
    plan = replace(plan_in(tmp_path, "NeverLearns"), budget=1e18, call_limit_s=2.0)
    sitting = held(plan, tmp_path)
    (refusal,) = [entry for entry in sitting.history if isinstance(entry, Refusal)]
    assert "took more than 2 s" in refusal.reason
    assert sitting.failure is not None
    assert sitting.failure.code == "NOTHING_PROMOTED"


def test_luggage_in_the_wiring_scores_nothing(tmp_path: Path) -> None:
    sitting = held(plan_in(tmp_path, "Wired"), tmp_path)
    assert sitting.failure is not None
    assert sitting.failure.code == "LEARNER_ERROR"
    assert "bytes under gzip" in sitting.failure.message


def graded(logits: Callable[[Any], Any], plan: Plan) -> list[ExamCase]:
    """The questions, put to a bundle that answers with a number of its own for every byte."""

    def program(tokens: Any) -> list[Any]:
        return [jnp.broadcast_to(logits(tokens), (*tokens.shape, N_BYTES))]

    document, constants = write_program(jax.make_jaxpr(program)(jax.ShapeDtypeStruct((1, 8), np.int32)))
    return list(grade(plan, Sitting(bundle=pack(Bundle([], document, constants, {}))), EXAM))


def never(tokens: Any) -> Any:
    return endless(tokens[0, 0].astype(jnp.float32))


def never_when_asked(tokens: Any) -> Any:
    """Harmless while the bundle is opened, when only BOS is shown."""
    return jax.lax.cond(tokens[0, 1] > 0, never, lambda tokens: jnp.float32(0), tokens)


def hungry(tokens: Any) -> Any:
    return jnp.sort(jnp.cumsum(jnp.full(2**29, tokens[0, 0].astype(jnp.float32))))[-1]


@pytest.mark.parametrize(
    ("logits", "limits", "code"),
    [
        (never, WorkerLimits(60.0, 20.0, None), "TIME"),
        (never_when_asked, WorkerLimits(1.0, 300.0, None), "TIME"),
        (hungry, WorkerLimits(300.0, 300.0, 1500.0), "OUT_OF_MEMORY"),
    ],
)
def test_a_model_over_a_limit_fails_its_questions(
    tmp_path: Path, logits: Callable[[Any], Any], limits: WorkerLimits, code: str
) -> None:
    cases = graded(logits, plan_in(tmp_path, limits=limits))
    assert len(cases) == len(EXAM)
    assert {case.failure.code for case in cases if case.failure} == {code}
    assert all(case.failure for case in cases)
