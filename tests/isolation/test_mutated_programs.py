"""Programs that somebody tampered with: refused or right, and never the end of the worker that reads them."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.byte_learners import Bigram, Busy
from tests.support.mutations import mutated
from whest.estimator.spec import EstimatorSpec
from whest.isolation import bounds
from whest.isolation.bounds import ForeignProgramError
from whest.isolation.learner import WorkerContext, written_programs
from whest.isolation.learning import loaded
from whest.isolation.messages import read_cost
from whest.isolation.portable import read_program, write_program
from whest.isolation.process import Worker, World
from whest.learner.contract import LearnerContext
from whest.learner.programs import flatten_learner, trace_programs
from whest.limits import WorkerLimits

CONTEXT = LearnerContext(10**9, 8, 4096, 1337)
SEED = 14
HANG_S, MOST_MB = 60.0, 1000.0
"""A worker with JAX holds about 400 MB before it reads anything."""
WORKERS_SHARE = 250
"""Programs that one worker reads."""


def sent_by(learner: Any) -> tuple[Any, list[np.ndarray]]:
    document, arrays = written_programs(trace_programs(flatten_learner(learner), CONTEXT))
    return json.loads(json.dumps(document)), arrays


def read_by_workers(documents: list[tuple[Any, list[np.ndarray]]], folder: Path) -> Iterator[Any]:
    """What real workers answer, under real limits: a crash, a hang or too much memory is a `WorkerFailedError`."""
    spec = EstimatorSpec("none", "traced", "tests.support.byte_learners.Bigram", None, {})
    context = WorkerContext(**vars(CONTEXT))
    world = World(spec, context, WorkerLimits(HANG_S, HANG_S, MOST_MB), (), folder)
    for start in range(0, len(documents), WORKERS_SHARE):
        with closing(Worker("learn", world)) as worker:
            worker.wait_until_ready()
            for document, arrays in documents[start : start + WORKERS_SHARE]:
                reply, _ = worker.ask({"do": "load", **document}, arrays, timeout_s=HANG_S)
                yield reply


def is_right(reply: Any, document: Any, arrays: list[np.ndarray]) -> bool:
    """The costs are those of the program that the document says: read here, and written and read again."""
    engine = loaded(document, arrays, CONTEXT)
    again = loaded(*written_programs(engine.programs), CONTEXT)
    return all(
        read_cost(reply[name]) == getattr(engine, name) == getattr(again, name)
        for name in ("update_cost", "forward_cost")
    )


@pytest.mark.parametrize("n", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_mutated_programs_are_refused_or_right(n: int, tmp_path: Path) -> None:
    draw = Random(SEED)
    honest = [sent_by(Bigram()), sent_by(Busy())]
    documents = []
    for i in range(n):
        document, arrays = honest[i % 2]
        documents.append((mutated(document, draw), arrays))
    verdicts: Counter[str] = Counter()
    for (document, arrays), reply in zip(documents, read_by_workers(documents, tmp_path), strict=True):
        if "failure" in reply:
            verdicts["refused"] += 1
            assert len(reply["failure"]) < 5000
        else:
            verdicts["right"] += 1
            assert is_right(reply, document, arrays), json.dumps(document)[:2000]
    assert verdicts["refused"] > n // 4
    assert verdicts["right"] > n // 50, "mutations that still make sense belong to the test"


def test_the_honest_programs_are_read(tmp_path: Path) -> None:
    honest = [sent_by(Bigram()), sent_by(Busy())]
    for (document, arrays), reply in zip(honest, read_by_workers(honest, tmp_path), strict=True):
        assert is_right(reply, document, arrays)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"tuple": [value]}
    return value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda eqn: eqn[3].update(deep=nested(100)), "nested more than 128 deep"),
        (lambda eqn: eqn[3].update(deep=nested(50_000)), "nested more than 128 deep"),
        (lambda eqn: eqn.__setitem__(4, "x" * 5000), "a text of 5,000 characters"),
        (lambda eqn: eqn[3].update({"x" * 5000: 1}), "a text of 5,000 characters"),
        (lambda eqn: eqn[3].update(n=10**30), "over 64 bits"),
        (lambda eqn: eqn[2].append(eqn[2][0]), "an equation is a list"),
        (lambda eqn: eqn.pop(), "an equation is a list"),
        (lambda eqn: eqn[3].update(inner={"equations": []}), "an object of four lists"),
    ],
)
def test_a_document_out_of_bounds_is_refused_before_it_is_built(change: Any, words: str) -> None:
    document, arrays = write_program(jax.make_jaxpr(lambda a: a @ a + 1)(np.eye(3)))
    change(document["program"]["equations"][0])
    with pytest.raises(ForeignProgramError, match=words):
        read_program(document, arrays)


def test_too_many_values_or_constants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    document, arrays = write_program(jax.make_jaxpr(lambda a: a @ a + 1)(np.eye(3)))
    with pytest.raises(ForeignProgramError, match="100,001 constants"):
        read_program(document, [np.zeros(0)] * 100_001)
    monkeypatch.setattr(bounds, "MOST_NODES", 20)
    with pytest.raises(ForeignProgramError, match="more than 20 values"):
        read_program(document, arrays)


@pytest.mark.parametrize(
    ("place", "odd"),
    [
        ((1, 0), 99),
        ((1, 0), {"array": -1}),
        ((1, 0), {"scalar": "a"}),
        ((3, "dimension_numbers"), {"tuple": 3}),
        ((3, "preferred_element_type"), {"dtype": "V800"}),
        ((3, "preferred_element_type"), {"dtype": "no such"}),
        ((3, "precision"), {"enum": "Precision", "name": "NO_SUCH"}),
        ((3, "precision"), {"lambda": "x"}),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(place: tuple[int, Any], odd: Any) -> None:
    document, arrays = write_program(jax.make_jaxpr(lambda a: a @ a)(jnp.eye(3)))
    document["program"]["equations"][0][place[0]][place[1]] = odd
    with pytest.raises(ForeignProgramError):
        jax.make_jaxpr(read_program(document, arrays))(np.eye(3))
