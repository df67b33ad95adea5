"""The roles of an exam's processes: how each answers its messages."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict

import jax
import numpy as np

from whest.config.devices import prepare_precision
from whest.errors import WhestError
from whest.isolation.channel import Message
from whest.isolation.messages import read_spec, write_cost
from whest.learner.contract import LearnerContext, create_learner
from whest.tasks.exam.process.answering import Answerer
from whest.tasks.exam.process.bundle import gzipped_size, unpack
from whest.tasks.exam.process.programs import read_programs, write_programs
from whest.tasks.exam.process.training import Left, Training, count_right
from whest.tasks.exam.questions import read_questions

LEARNERS_FAULT = (WhestError, KeyError, IndexError, TypeError, ValueError, jax.errors.JaxRuntimeError)
"""Exceptions of a stranger's programs. They are the learner's fault, so they never make a run invalid."""
Answer = tuple[Message, list[np.ndarray]]
Role = Callable[[Message, Sequence[np.ndarray]], Answer]


def tracer(start: Message) -> Role:
    """Traces the learner. This is the only role that runs the learner's own code."""
    spec, context = read_spec(start["spec"]), LearnerContext(**start["context"])

    def answer(message: Message, arrays: Sequence[np.ndarray]) -> Answer:
        try:
            return write_programs(create_learner(spec, context), context)
        except (Exception, SystemExit) as error:
            reason = str(error) if isinstance(error, WhestError) else f"{type(error).__name__}: {error}"
            return {"failure": reason[:4000], "traceback": traceback.format_exc()[-8000:]}, []

    return answer


def trainer(start: Message) -> Role:
    """Trains: first it gets the text, the validation set and the programs, then one message per training call."""
    prepare_precision(start["cache"])
    training: Training | None = None
    learner, context = start["learner"], LearnerContext(**start["context"])
    validation = read_questions(start["validation"].encode(), "the validation set").questions

    def answer(message: Message, arrays: Sequence[np.ndarray]) -> Answer:
        nonlocal training
        if message["do"] == "load":
            text, *constants = arrays
            try:
                programs = read_programs(message["programs"], constants, context)
                training = Training(programs, context, text, start["seed"], start["random_updates"])
            except LEARNERS_FAULT as error:  # the program is malformed, or can't be metered or run
                return {"failure": f"{type(error).__name__}: {error}"}, []
            return {
                "cost": write_cost(training.update_cost),
                "n_params": training.n_params,
                "constant_bytes": training.constant_bytes,
                "first_bits": training.first_bits,
            }, []
        assert training is not None
        if message["do"] == "train":
            try:
                left = Left(message["left"], message["total"], by_clock=message["seconds"] is not None)
                return asdict(training.train(message["steps"], message["seconds"], left)), []
            except jax.errors.JaxRuntimeError as error:
                return {"failure": str(error)}, []
        bundle = training.package(learner)
        if len(bundle) > message["largest_bytes"]:
            return {"failure": f"a bundle of {len(bundle):,} bytes, at most {message['largest_bytes']:,} are sent"}, []
        return {"right": count_right(bundle, validation)}, [np.frombuffer(bundle, np.uint8)]

    return answer


def grader(start: Message) -> Role:
    """Grades: it gets a bundle and questions, and returns answers."""
    prepare_precision(None)
    answerer: Answerer | None = None

    def answer(message: Message, arrays: Sequence[np.ndarray]) -> Answer:
        nonlocal answerer
        if message["do"] == "load":
            content = arrays[0].tobytes()
            size = gzipped_size(content)
            if size > message["bundle_limit_bytes"]:
                return {"gzipped_bytes": size, "refused": "too large"}, []
            try:
                answerer = Answerer(unpack(content))
                answerer.logits(b"")  # compiles
            except Exception as error:
                return {"gzipped_bytes": size, "refused": f"{type(error).__name__}: {error}"[:1000]}, []
            return {"gzipped_bytes": size}, []
        assert answerer is not None
        (question,) = read_questions(message["question"].encode(), "the question").questions
        found = answerer.answer(question)
        given = None if found.given is None else found.given.hex()
        return {"given": given, "nats": found.nats, "wall_time_s": found.wall_time_s}, []

    return answer


ROLES: dict[str, Callable[[Message], Role]] = {"trace": tracer, "train": trainer, "grade": grader}
