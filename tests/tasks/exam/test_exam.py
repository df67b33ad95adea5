"""An exam run in its real processes: what the trainer can reach, what is promoted and graded, what makes it invalid."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import psutil
import pytest

from tests.support.documents import check_document
from tests.support.exam_setup import EXAM, KNOWN, composed, write_files
from whest.api import score
from whest.boards.board import make_board
from whest.boards.entries import Entry, read_entry
from whest.boards.policies import AriPolicy
from whest.cases.exam import Candidate
from whest.cli.page import page_of_recorded
from whest.document import protocol_hash
from whest.errors import ConfigError
from whest.experiment import build, protocol_of
from whest.isolation.process import Launch, Worker
from whest.learner.contract import LearnerContext, TrainState
from whest.learner.programs import LearnerError
from whest.learner.size import LARGEST_DOCUMENT
from whest.tasks.exam.grading import grade
from whest.tasks.exam.plan import ExamWorld, Plan
from whest.tasks.exam.process.answering import Answerer
from whest.tasks.exam.process.bundle import Bundle, pack, unpack
from whest.tasks.exam.process.programs import write_programs
from whest.tasks.exam.process.roles import ROLES
from whest.tasks.exam.report import ExamReport
from whest.tasks.exam.task import Exam
from whest.tracking.recorded import RecordedRun, read_report


@dataclass(frozen=True)
class Ran:
    """A run whose recipe promotes the first of two candidates: it is untrained, and the second knows every pair."""

    folder: Path
    paths: dict[str, Path]
    report: ExamReport
    task: Exam

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    base = tmp_path_factory.mktemp("exam")
    paths = write_files(base)
    config = composed(paths, base / "outputs", "task.recipe.promote=1", "tracking=none")
    folder = base / "outputs" / "run"
    folder.mkdir(parents=True)
    report = score(config, folder)
    assert isinstance(report, ExamReport)
    task = build(config, folder).task
    assert isinstance(task, Exam)
    return Ran(folder, paths, report, task)


@pytest.fixture(scope="module")
def seen(ran: Ran) -> dict[str, Any]:
    """What the learner's own code saw of the process it was traced in: it smuggled it out among its parameters."""
    (kept,) = [array for array in unpack((ran.folder / "promoted.npz").read_bytes()).params if array.dtype == np.uint8]
    found: dict[str, Any] = json.loads(kept.tobytes())
    return found


def test_the_report_fits_its_types(ran: Ran) -> None:
    assert check_document(ran.folder / "report.json")["run_config"]["task"] == "exam"


# --- what the trainer can reach ---


@pytest.mark.parametrize("where", ["environ", "argv", "python_argv", "fds", "cwd", "sys.path", "mounts"])
def test_nothing_a_learner_can_look_at_leads_to_the_exam(ran: Ran, seen: dict[str, Any], where: str) -> None:
    told = json.dumps(seen[where])
    for trace in (ran.paths["exam"].name, ran.paths["exam"].parent.name, "secret-question", "secret-answer"):
        assert trace not in told
    assert str(ran.folder.parent) not in told, "the outputs folder holds reports of other runs"


def test_a_learner_that_knows_the_path_finds_nothing_there(ran: Ran, seen: dict[str, Any]) -> None:
    protections = ran.report.config["isolation"]["protections"]
    assert all(protections[name] for name in ("files", "network", "processes")), protections
    assert seen["content"] in ("FileNotFoundError", "PermissionError")
    assert set(seen["below"]) <= {str(ran.paths["learner"])}, "its own file is all there is of the user's folder"
    assert set(seen["processes"]) <= {"1"}


def test_the_process_that_trains_holds_nothing_of_the_exam(ran: Ran) -> None:
    """Looked at from outside, as it trains: arguments, environment, handles, mounts, and all of its memory."""
    plan = ran.task.plan
    learner = Counting()
    programs, constants = write_programs(learner, plan.context)
    worker = Worker("train", plan.world)
    try:
        worker.wait_until_ready()
        text = np.frombuffer(plan.material.text, np.uint8)
        worker.ask({"do": "load", "programs": programs}, [text, *constants])
        worker.ask({"do": "train", "steps": 3, "seconds": None, "left": 3, "total": 3})
        processes = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
        held = b"".join(everything_held(process.pid) for process in processes)
    finally:
        worker.close()
    assert KNOWN.encode() in held, "the search finds what is there"
    for trace in (ran.paths["exam"].name, ran.paths["exam"].parent.name, "secret-question", "secret-answer"):
        assert trace.encode() not in held
    assert plan.material.exam.sha256.encode() not in held


def everything_held(pid: int) -> bytes:
    place = Path(f"/proc/{pid}")
    if not place.exists():
        pytest.skip("no /proc here")
    told = [(place / name).read_bytes() for name in ("cmdline", "environ", "mountinfo")]
    told += [str(fd.readlink()).encode() for fd in (place / "fd").iterdir()]
    told.append(str((place / "cwd").readlink()).encode())
    try:
        told += readable_memory(place)
    except PermissionError:
        pytest.skip("this user may not look into the memory of a process")
    return b"\n".join(told)


def readable_memory(place: Path) -> list[bytes]:
    pieces = []
    with (place / "mem").open("rb", 0) as memory:
        for line in (place / "maps").read_text().splitlines():
            span, rights, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if not rights.startswith("rw") or end - start > 2**28 or "[v" in line:
                continue
            try:
                memory.seek(start)
                pieces.append(memory.read(end - start))
            except (OSError, ValueError, OverflowError):
                continue
    return pieces


@dataclass
class Counting:
    """A learner in this process."""

    rows_per_step: int = 2

    def init(self, key: Any) -> TrainState:
        return TrainState(jax.random.normal(key, (257, 256)), 0)

    def logits(self, params: Any, tokens: Any) -> Any:
        return params[tokens]

    def update(self, state: Any, batch: Any) -> TrainState:
        return TrainState(state.params, state.optimiser + 1)


def test_an_exam_where_the_trainer_must_look_is_refused(ran: Ran, tmp_path: Path) -> None:
    beside = ran.paths["learner"].parent / "exam.jsonl"
    beside.write_bytes(ran.paths["exam"].read_bytes())
    try:
        with pytest.raises(ConfigError, match=r"data\.exam=.* is in .*/learner, which the training process must see"):
            build(composed(ran.paths | {"exam": beside}, tmp_path), tmp_path)
    finally:
        beside.unlink()


# --- candidates, promotion, grading ---


def test_a_perfect_candidate_that_was_not_promoted_is_not_graded(ran: Ran) -> None:
    first, second = [entry for entry in ran.report.sitting.history if isinstance(entry, Candidate)]
    assert (first.validation_score, second.validation_score) == (0, 100)
    assert (ran.report.score.promoted, ran.report.score.score, ran.report.score.n_candidates) == (1, 0, 2)
    assert (ran.folder / "promoted.npz").read_bytes() == (ran.folder / "candidates" / "001.npz").read_bytes()


def test_the_other_candidate_would_have_answered(ran: Ran) -> None:
    bundle = (ran.folder / "candidates" / "002.npz").read_bytes()
    sitting = replace(ran.report.sitting, graded=2, bundle=bundle)
    cases = list(grade(ran.task.plan, sitting, EXAM))
    assert [case.is_right for case in cases] == [True] * 10 + [False] * 2
    assert all(case.answer is not None and case.answer.nats is not None for case in cases)
    assert [len(case.answer.given or b"") for case in cases if case.answer] == [len(q.answer) for q in EXAM]
    assert cases[0].sitting.gzipped_bytes == ran.report.sitting.history[-1].gzipped_bytes  # type: ignore[union-attr]


def test_a_history_is_kept_line_by_line_and_every_call_was_told_what_is_left(ran: Ran) -> None:
    events = [json.loads(line) for line in (ran.folder / "history.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["call", "candidate", "promotion", "call", "candidate"]
    assert events == ran.document["results"]["training"]["history"]
    calls = [event for event in events if event["event"] == "call"]
    assert [call["flops_left"] for call in calls] == [1.2e7, 1.2e7 - calls[0]["flops_used"]]
    flops = ran.report.sitting.update_cost
    assert flops is not None
    assert sum(call["steps"] for call in calls) == math.floor(1.2e7 / flops.flops)


def test_a_report_checks_out_and_its_page_can_be_drawn_again(ran: Ran) -> None:
    assert read_report(ran.folder).problem is None
    page, _ = page_of_recorded(ran.folder)
    assert page.title.endswith(ran.report.config["dataset"]["name"])
    html = (ran.folder / "report.html").read_text()
    assert "Candidates" in html
    assert "secret-answer" not in html + (ran.folder / "report.json").read_text(), "an exam from outside is kept back"


def test_a_report_has_the_size_of_the_programs(ran: Ran) -> None:
    """All four under gzip; the table of what the learner saw is among them."""
    assert 1000 < ran.document["results"]["program_bytes"] < LARGEST_DOCUMENT


def test_a_changed_row_is_found(ran: Ran, tmp_path: Path) -> None:
    document = ran.document
    document["results"]["per_case"][0]["right"] = 100.0
    (tmp_path / "report.json").write_text(json.dumps(document))
    problem = read_report(tmp_path).problem
    assert problem is not None
    assert "but its rows give" in problem


@pytest.mark.parametrize(("limit", "refused"), [(10, "too large"), (16_000_000, None)])
def test_the_grader_weighs_a_bundle_itself(ran: Ran, limit: int, refused: str | None) -> None:
    content = np.frombuffer((ran.folder / "promoted.npz").read_bytes(), np.uint8)
    reply, _ = ROLES["grade"]({})({"do": "load", "bundle_limit_bytes": limit}, [content])
    assert reply.get("refused") == refused
    assert reply["gzipped_bytes"] > 10


def test_a_bundle_that_is_none_is_refused() -> None:
    reply, _ = ROLES["grade"]({})({"do": "load", "bundle_limit_bytes": 10**6}, [np.zeros(9, np.uint8)])
    assert "can't be opened" in reply["refused"]


def test_logits_that_are_not_finite_answer_nothing(ran: Ran) -> None:
    bundle = unpack((ran.folder / "promoted.npz").read_bytes())
    broken = [np.full_like(array, np.nan) if array.dtype == np.float32 else array for array in bundle.params]
    answer = Answerer(unpack(pack(Bundle(broken, bundle.program, bundle.constants, {})))).answer(EXAM[0])
    assert answer.given is None


class Absent(ExamWorld):
    def launch(self, role: str, scratch: Path) -> Launch:
        return replace(super().launch(role, scratch), then="whest.tasks.exam.no_such_module")


class NoGrader(Plan):
    @property
    def world(self) -> ExamWorld:
        return Absent(**vars(super().world))


def test_a_grader_that_dies_makes_the_run_invalid(ran: Ran) -> None:
    plan = NoGrader(**vars(ran.task.plan))
    cases = list(grade(plan, replace(ran.report.sitting, bundle=b"x"), EXAM))
    assert {case.failure.code for case in cases if case.failure} == {"INFRASTRUCTURE"}
    assert len(cases) == len(EXAM)


@pytest.mark.parametrize(
    ("logits", "update", "complaint"),
    [
        (lambda params, tokens: params[tokens][:, :, :7], None, "logits returned"),
        (None, lambda state, batch: TrainState(state.params[1:], state.optimiser), "update turned array"),
    ],
)
def test_a_learner_that_breaks_its_contract_is_told(logits: Any, update: Any, complaint: str) -> None:
    learner = Counting()
    learner.logits = logits or learner.logits  # type: ignore[method-assign]
    learner.update = update or learner.update  # type: ignore[method-assign]
    with pytest.raises(LearnerError, match=complaint):
        write_programs(learner, LearnerContext(10**6, 4, 10**6, 0))


# --- the track, the board ---


def test_one_byte_of_the_exam_makes_another_track(ran: Ran, tmp_path: Path) -> None:
    def track(*more: str) -> str:
        return protocol_hash(protocol_of(build(composed(ran.paths, tmp_path, *more), tmp_path)))

    before = track()
    assert before == track("seed=7", "task.recipe.promote=none", "task.recipe.calls=9") == track()
    content = ran.paths["exam"].read_bytes()
    try:
        ran.paths["exam"].write_bytes(content.replace(b"secret-answer", b"secret-answeR"))
        assert track() != before
    finally:
        ran.paths["exam"].write_bytes(content)
    for other in (
        "budget=2e7",
        "task.budget_by=wall",
        "task.bundle_limit_bytes=15000000",
        "data.seed=1 data.text=null",
    ):
        assert track(*other.split()) != before


def seeded(document: dict[str, Any], seed: int, score: float | None, **changes: Any) -> Entry:
    told = json.loads(json.dumps(document))
    told["run_config"]["seed"] = seed
    told["run_config"].update(changes)
    told["results"]["score"] = score
    told["results"]["invalid"] = "the disk was full" if score is None else None
    return read_entry(RecordedRun(f"run-{seed}", "x", "ada", told, {}, None))


def test_three_seeds_of_an_outside_exam_are_official_and_an_invalid_one_is_not_averaged(ran: Ran) -> None:
    policy = AriPolicy(protocol=None, deadline=None, supersedes=[], n_seeds=3, demo_counts=False)
    document = ran.document
    (row,) = make_board(policy, [seeded(document, seed, score) for seed, score in enumerate((40.0, 50.0, 0.0))]).rows
    assert (row.status, row.score, round(row.score_se or 0, 6)) == ("official", 30, 15.275252)
    two = [seeded(document, seed, score) for seed, score in enumerate((40.0, 50.0, None))]
    provisional, invalid = make_board(policy, two).rows
    assert (provisional.status, provisional.n_runs, provisional.score) == ("provisional", 2, 45)
    assert (invalid.status, invalid.note) == ("invalid", "the disk was full")


def test_another_recipe_is_another_row_and_a_demo_is_told_from_an_exam(ran: Ran) -> None:
    policy = AriPolicy(protocol=None, deadline=None, supersedes=[], n_seeds=3, demo_counts=False)
    document = ran.document
    other = {**document["run_config"]["recipe"], "calls": 9}
    entries = [seeded(document, 0, 1.0), seeded(document, 1, 1.0, recipe=other)]
    assert entries[0].config != entries[1].config
    demo = {**document["run_config"]["dataset"], "is_demo": True}
    (row,) = make_board(policy, [seeded(document, seed, 9.0, dataset=demo) for seed in range(3)]).rows
    assert (row.status, row.rank) == ("provisional", None)
    assert "demo" in row.note


# --- refusals ---


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("scoring=whest", r"scoring=whest can't score task=exam: use one of .*task=exam with scoring=ari or fherma"),
        ("data=generated", "task=exam needs .*: choose data=exam"),
        ("task.recipe.promote=3", r"task\.recipe\.promote=3 is larger than task\.recipe\.calls=2"),
        ("task.recipe.promote=best", r"task\.recipe\.promote .*got 'best'"),
        ("task.recipe.calls=0", r"task\.recipe\.calls .*got 0"),
        ("task.reserve_s=4000", r"task\.reserve_s=4000 must be less than task\.budget_s=3600"),
        ("data.exam=/nowhere/x.jsonl", r"data\.exam=/nowhere/x\.jsonl can't be read"),
        ("estimator=cov_prop", "estimator=cov_prop is no byte learner"),
        ("+task.recipe.speed=9", r"task\.recipe\.speed is not a key"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(ran: Ran, tmp_path: Path, override: str, complaint: str) -> None:
    from whest.config.compose import compose

    choices = {"estimator=cov_prop": ["task=exam", "data=exam", "scoring=ari", override]}
    if override in choices:
        config: dict[str, Any] = compose(*choices[override], f"outputs_dir={tmp_path}")
    elif override.startswith("data="):
        config = compose("task=exam", "scoring=ari", "estimator=byte_mlp", override, f"outputs_dir={tmp_path}")
    else:
        config = composed(ran.paths, tmp_path, override)
    with pytest.raises(ConfigError, match=complaint):
        build(config, tmp_path)


def test_a_learner_that_needs_its_context_is_given_it(ran: Ran) -> None:
    context = ran.task.plan.context
    assert isinstance(context, LearnerContext)
    assert (context.flop_budget, context.row_length, context.seed) == (12_000_000, 5, 1)
