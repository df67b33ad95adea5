"""Sealed files for tests, made in this process: what `job=seal` writes, without its workers."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.estimators import make
from whest.estimator.contract import SetupContext
from whest.estimator.traced import Program, compile_program, estimator_function, trace
from whest.isolation.learner import written_programs
from whest.isolation.portable import read_program, write_program
from whest.isolation.wire import LENGTH
from whest.learner.contract import LearnerContext
from whest.learner.programs import flatten_learner, trace_programs
from whest.sealed.container import DIGEST, MAGIC, Versions
from whest.sealed.purpose import Purpose
from whest.sealed.sealed import Sealed, Traced, read_sealed, write_sealed

VERSIONS = Versions("0.1.0", "0.10.2", 3, 2)
CONTEXT = SetupContext(16, 3, 10**6, 0.0, None, None, 0, "", None)
LEARNING = LearnerContext(10**10, 16, 4096, 1337)
LEARNERS = ("byte_attention", "byte_contexts", "byte_mlp", "byte_ssm")


def context_of(width: int, depth: int, budget: int) -> SetupContext:
    return replace(CONTEXT, width=width, depth=depth, flop_budget=budget)


def purpose_of(context: SetupContext) -> Purpose:
    return Purpose("whitebox", context.flop_budget, width=context.width, depth=context.depth)


def seal_function(function: Callable[..., Any], context: SetupContext, name: str = "mine") -> bytes:
    traced = trace(function, context)
    document, arrays = write_program(traced.jaxpr)
    return seal_programs({"program": document}, arrays, purpose_of(context), name)


def seal_estimator(name: str, context: SetupContext) -> bytes:
    return seal_function(estimator_function(make(name), context.flop_budget), context, name)


def seal_learner(learner: Any, context: LearnerContext = LEARNING) -> bytes:
    message, arrays = written_programs(trace_programs(flatten_learner(learner), context))
    rows = {"row_length": context.row_length, "n_bytes": context.n_bytes}
    return seal_programs(message, arrays, Purpose("prequential", context.flop_budget, **rows))


def seal_programs(message: Any, arrays: list[np.ndarray], purpose: Purpose, name: str = "mine") -> bytes:
    return write_sealed(name, "Ada", "", None, VERSIONS, [Traced(purpose, (message, arrays), {}, 0)])


def compiled_from(sealed: Sealed, context: SetupContext) -> Program:
    """As the worker of a sealed program does it."""
    message, arrays = sealed.programs(sealed.entry(purpose_of(context), "path"))
    function = read_program(message["program"], arrays)
    program = compile_program(lambda *args: function(*args)[0], context)
    assert isinstance(program, Program), program
    return program


def parts_of(content: bytes) -> tuple[Any, Any, list[np.ndarray]]:
    """The header as JSON, and the first entry's message and arrays, to be changed."""
    start = len(MAGIC) + DIGEST
    (length,) = LENGTH.unpack_from(content, start)
    header = json.loads(content[start + LENGTH.size : start + LENGTH.size + length])
    sealed = read_sealed(content)
    message, arrays = sealed.programs(sealed.header.entries[0])
    return header, message, arrays


def with_header(content: bytes, header: Any) -> bytes:
    """The file with another header and the right digest, as an attacker would write it."""
    start = len(MAGIC) + DIGEST
    (length,) = LENGTH.unpack_from(content, start)
    text = json.dumps(header).encode()
    rest = LENGTH.pack(len(text)) + text + content[start + LENGTH.size + length :]
    return MAGIC + hashlib.sha256(rest).digest() + rest
