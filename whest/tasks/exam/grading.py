"""Grading: a separate process gets the promoted bundle and the questions, and answers each from its prefix."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from whest.cases.exam import Answer, ExamCase, ExamFailure, Question, Sitting
from whest.isolation.channel import Message
from whest.isolation.messages import WorkerFailedError
from whest.isolation.process import Worker
from whest.tasks.exam.plan import Plan
from whest.tasks.exam.questions import write_questions

LOAD_TIMEOUT_S, QUESTION_TIMEOUT_S = 600.0, 600.0


def grade(plan: Plan, sitting: Sitting, questions: Sequence[Question]) -> Iterator[ExamCase]:
    """One case per question. If the session failed, all questions fail. If the grader fails, the run is invalid."""
    if sitting.failure is not None or sitting.bundle is None:
        yield from _all_failed(sitting, questions, sitting.failure)
        return
    grader = Worker("grade", plan.world)
    done = 0
    try:
        reply, _ = _load(grader, plan, sitting.bundle)
        sitting = replace(sitting, gzipped_bytes=int(reply["gzipped_bytes"]))
        if "refused" in reply:
            yield from _all_failed(sitting, questions, _refusal(plan, sitting, str(reply["refused"])))
            return
        for index, question in enumerate(questions):
            yield _graded(grader, plan, sitting, index, question)
            done += 1
    except WorkerFailedError as error:
        failure = ExamFailure("INFRASTRUCTURE", f"grading: {error.failure.message}", error.failure.traceback)
        yield from list(_all_failed(sitting, questions, failure))[done:]
    finally:
        grader.close()


def _load(grader: Worker, plan: Plan, bundle: bytes) -> tuple[Message, list[np.ndarray]]:
    grader.wait_until_ready()
    message = {"do": "load", "bundle_limit_bytes": plan.bundle_limit_bytes}
    return grader.ask(message, [np.frombuffer(bundle, np.uint8)], timeout_s=LOAD_TIMEOUT_S)


def _refusal(plan: Plan, sitting: Sitting, reason: str) -> ExamFailure:
    if reason != "too large":
        return ExamFailure("BAD_BUNDLE", reason)
    size, limit = sitting.gzipped_bytes, plan.bundle_limit_bytes
    return ExamFailure("TOO_LARGE", f"the bundle has {size:,} bytes gzipped, the limit is {limit:,}")


def _graded(grader: Worker, plan: Plan, sitting: Sitting, index: int, question: Question) -> ExamCase:
    asked = {"do": "answer", "question": write_questions([question]).decode()}
    reply, _ = grader.ask(asked, timeout_s=QUESTION_TIMEOUT_S)
    given = None if reply["given"] is None else bytes.fromhex(str(reply["given"]))
    nats = None if reply["nats"] is None else float(reply["nats"])
    answer = Answer(given, nats, float(reply["wall_time_s"]))
    limit, failure = plan.worker_limits.wall_time_limit_s, None
    if given is None:
        failure = ExamFailure("NON_FINITE", "the model's logits are not finite")
    elif limit is not None and answer.wall_time_s > limit:
        failure = ExamFailure("TIME", f"it took {answer.wall_time_s:.4g} s, the limit is {limit:g} s")
    return ExamCase(index, question, answer, failure, sitting)


def _all_failed(sitting: Sitting, questions: Sequence[Question], failure: ExamFailure | None) -> Iterator[ExamCase]:
    for index, question in enumerate(questions):
        yield ExamCase(index, question, None, failure, sitting)
