"""A sealed program scores as its source does: the same FLOPs by namespace and the same predictions, to the bit."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.byte_learners import Bigram, TakesTime
from tests.support.estimators import BUNDLED, NODES, compiled, draw, make
from tests.support.sealing import (
    CONTEXT,
    LEARNERS,
    LEARNING,
    compiled_from,
    context_of,
    purpose_of,
    seal_estimator,
    seal_learner,
)
from whest.estimator.spec import EstimatorSpec, estimator_spec
from whest.isolation.learner import Sent, WorkerContext, weighed, written_programs
from whest.isolation.learning import WorkerEngine, loaded
from whest.isolation.process import Worker, World
from whest.isolation.traced import TracedProcessRunner
from whest.learner.contract import create_learner
from whest.learner.engine import TracedEngine
from whest.learner.programs import flatten_learner, trace_programs
from whest.limits import WorkerLimits
from whest.sealed.sealed import read_sealed

TINY = ("dataset=fresh", "dataset.n_mlps=2", "round.width=8", "round.depth=2", "round.n_samples=500", "truth=plain")
RULES = (*TINY, "budget=1e6", "seed=3", "tracking=none", "page=false")
QUICK = ("cov_prop", "monte_carlo")
HEAVY = [pytest.param(name, marks=pytest.mark.slow) for name in BUNDLED if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *HEAVY])
def test_an_estimator_answers_from_its_file_as_from_its_source(name: str) -> None:
    mlp = draw(5, CONTEXT.width, CONTEXT.depth)
    source = compiled(make(name), CONTEXT.width, CONTEXT.depth, CONTEXT.flop_budget)
    sealed = compiled_from(read_sealed(seal_estimator(name, CONTEXT)), CONTEXT)
    ours, theirs = sealed.predict(mlp), source.predict(mlp)
    assert (ours.cost, ours.cost.by_namespace) == (theirs.cost, theirs.cost.by_namespace)
    assert ours.means is not None
    assert theirs.means is not None
    assert ours.means.tobytes() == theirs.means.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", BUNDLED)
def test_an_estimator_answers_in_the_worker_of_a_sealed_program_as_here(name: str, tmp_path: Path) -> None:
    context = context_of(32, 4, 10**7)
    sealed = read_sealed(seal_estimator(name, context))
    programs = sealed.programs(sealed.entry(purpose_of(context), "path"))
    spec = EstimatorSpec(name, "traced", None, tmp_path / "it.whest", {})
    world = World(spec, context, WorkerLimits(None, None, None), (), tmp_path)
    mlp = draw(7, context.width, context.depth)
    theirs = compiled(make(name), context.width, context.depth, context.flop_budget).predict(mlp)
    with TracedProcessRunner(world, programs) as runner:
        ours = runner.predict(mlp)
        assert runner.protections["files"]
    assert ours.failure is None
    assert ours.cost == theirs.cost
    assert ours.means is not None
    assert theirs.means is not None
    assert ours.means.tobytes() == theirs.means.tobytes()


def learnt(engine: Any) -> list[bytes]:
    """Charges before and after some steps, and the logits at the end."""
    rows = np.random.default_rng(1).integers(32, 127, (3, engine.rows_per_step, LEARNING.row_length)).astype(np.uint8)
    engine.begin(LEARNING.seed, rows[0])
    left = np.float32([1.0, 0.5, 0.25])
    losses, moved = engine.steps(rows, rows[::-1].copy(), np.full(rows.shape[:2], 5, np.int32), left)
    shadow = engine.shadow(rows[:2], rows, left[:2])
    return [np.asarray(found).tobytes() for found in (losses, moved, shadow, engine.logits(rows[0]))]


@pytest.mark.parametrize(
    "name", [Bigram, TakesTime, *(pytest.param(name, marks=pytest.mark.slow) for name in LEARNERS)]
)
def test_a_learner_learns_from_its_file_as_from_its_source(name: Any) -> None:
    learner = create_learner(estimator_spec(NODES[name]), LEARNING) if isinstance(name, str) else name()
    source = trace_programs(flatten_learner(learner), LEARNING)
    sealed = read_sealed(seal_learner(learner))
    ours = loaded(*sealed.programs(sealed.header.entries[0]), LEARNING)
    theirs = loaded(*written_programs(source), LEARNING)
    assert (ours.update_cost, ours.forward_cost) == (source.update_cost, source.forward_cost)
    assert learnt(ours) == learnt(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_learns_in_its_worker_as_here(name: str, tmp_path: Path) -> None:
    sealed = read_sealed(seal_learner(create_learner(estimator_spec(NODES[name]), LEARNING)))
    message, arrays = sealed.programs(sealed.header.entries[0])
    spec = EstimatorSpec(name, "traced", None, tmp_path / "it.whest", {})
    world = World(spec, WorkerContext(**vars(LEARNING)), WorkerLimits(None, None, None), (), tmp_path)
    here = loaded(message, arrays, LEARNING)
    assert isinstance(here, TracedEngine)
    with closing(Worker("learn", world)) as worker:
        there = WorkerEngine(worker, world, Sent(message, arrays, weighed(message, arrays)))
        assert (there.update_cost, there.forward_cost) == (here.update_cost, here.forward_cost)
        assert learnt(there) == learnt(here)


def report_of(outcome: Any) -> Any:
    assert outcome.exit_code == 0, outcome.err
    return json.loads((outcome.folder / "report.json").read_text())


def test_seal_score_and_inspect_from_the_command_line(whest: Any, tmp_path: Path) -> None:
    file, page = tmp_path / "mine.whest", tmp_path / "mine.html"
    made = whest(
        "job=seal", "estimator=cov_prop", *RULES, f"output={file}", "seal.shapes=[8x2@1e6,4x2@1e6]", "seal.author=Ada"
    )
    assert made.exit_code == 0, made.err
    assert "sealed   8x2 with budget 1e6: predict " in made.out
    from_file = whest(f"estimator={file}", *RULES, f"hydra.run.dir={tmp_path / 'a'}")
    from_source = whest("estimator=cov_prop", *RULES, f"hydra.run.dir={tmp_path / 'b'}")
    ours, theirs = report_of(from_file), report_of(from_source)
    assert ours["run_meta"]["protocol_hash"] == theirs["run_meta"]["protocol_hash"]
    assert ours["run_config"]["isolation"]["status"] == "protected"
    assert ours["run_config"]["estimator"]["name"] == "mine"
    for one, other in zip(ours["results"]["per_mlp"], theirs["results"]["per_mlp"], strict=True):
        assert (one["flops_used"], one["final_layer_mse"]) == (other["flops_used"], other["final_layer_mse"])
    ours_means, their_means = (np.load(tmp_path / run / "predictions.npz") for run in "ab")
    assert all(ours_means[key].tobytes() == their_means[key].tobytes() for key in their_means.files)
    wrong = whest(f"estimator={file}", *RULES, "budget=2e6", f"hydra.run.dir={tmp_path / 'c'}")
    assert (wrong.exit_code, "sealed for 8x2 with budget 1e6; 4x2" in wrong.err) == (2, True)
    seen = whest("job=inspect", f"path={file}", f"output={page}", "tracking=none")
    assert seen.exit_code == 0, seen.err
    text = page.read_text()
    assert all(word in text for word in ("dot_general", "f32[2,8,8]", "propagate", "Ada", "luggage"))


def test_what_can_not_be_sealed_is_said(whest: Any, tmp_path: Path) -> None:
    output = f"output={tmp_path / 'x.whest'}"
    for words, said in (
        (("estimator=cov_prop",), "name the file to write, output=mine.whest"),
        (("estimator=cov_prop", "estimator.mode=eager", output), "only a traced estimator is one program"),
        (("estimator=cov_prop", output, "seal.shapes=[nine]"), "neither WIDTHxDEPTH@BUDGET"),
        (("experiment=prism", "data=generated", "estimator=ngram", output), "no program to seal"),
    ):
        ended = whest("job=seal", *words, "tracking=none")
        assert (ended.exit_code, said in ended.err) == (2, True), ended.err
    assert not (tmp_path / "x.whest").exists()
    (tmp_path / "x.whest").write_text("mine")
    ended = whest("job=seal", "estimator=cov_prop", output, "tracking=none")
    assert (ended.exit_code, "exists and is not overwritten: name another file" in ended.err) == (2, True), ended.err
    assert (tmp_path / "x.whest").read_text() == "mine"


def test_a_sealed_program_has_no_knobs_and_no_other_place_to_run(whest: Any, tmp_path: Path) -> None:
    file = tmp_path / "mine.whest"
    file.write_bytes(seal_estimator("zeros", context_of(8, 2, 10**6)))
    for words, said in (
        (("+estimator.knob=1",), "estimator.knob has no effect on the sealed program"),
        (("estimator.mode=eager",), "estimator.mode=eager has no effect on the sealed program"),
        (("isolation=none",), "which runs in a worker"),
        (("job=validate",), "job=inspect path="),
    ):
        ended = whest(f"estimator={file}", *RULES, *words)
        assert (ended.exit_code, said in ended.err) == (2, True), ended.err
