"""A stranger's learner in its workers: the same bits as here, and limits that hold."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.prism_rule import RULE
from whest.config.devices import prepare_precision
from whest.estimator.spec import EstimatorSpec
from whest.experiment import Experiment, run
from whest.isolation.choose import Isolation
from whest.isolation.learner import written_programs
from whest.isolation.protections import NAMES, WALLS, in_both
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.programs import LearnerError, flatten_learner, trace_programs
from whest.learner.size import program_bytes
from whest.limits import Limits, WorkerLimits
from whest.tasks.prequential.task import Prequential
from whest.tasks.prequential.text import GeneratedText
from whest.tracking.runs import NoTracking

TEXT = GeneratedText(5, 4096, 512).load()
SOURCE = ROOT / "tests" / "support" / "byte_learners.py"
PATIENT = WorkerLimits(600.0, 300.0, None)


def strangers_task(folder: Path, learner: str, limits: WorkerLimits = PATIENT, budget: float = 1e9) -> Prequential:
    """A learner from a file of somebody else's, in workers."""
    path = folder / f"{learner}.py"
    path.write_text("\n".join([SOURCE.read_text(), "", f"Estimator = {learner}", ""]))
    (folder / "outputs").mkdir()
    return Prequential(
        text=TEXT,
        estimator=EstimatorSpec("file", "traced", None, path, {}),
        limits=Limits(budget, 0.0, limits.wall_time_limit_s, None),
        context=LearnerContext(int(budget), 64, len(TEXT.train), 1337),
        isolation=Isolation("process", False),
        worker_limits=limits,
        bad_batch_charge=2.0,
        random_updates=1 / 16,
        outputs=folder / "outputs",
    )


def report_of(task: Prequential, folder: Path) -> Any:
    notes = {"round": "bytes", "seed": 1337, "participant": task.estimator.name}
    return run(Experiment(task, RULE, NoTracking(folder), notes, "test", {}, figures=True, page=True), folder)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Prequential]:
    """The same learner by workers, and in this process, at the precision that every run has."""
    prepare_precision(None)
    folder = tmp_path_factory.mktemp("both")
    task = strangers_task(folder, "Busy")
    here = replace(task, isolation=Isolation("none", False))
    return report_of(task, folder / "there"), report_of(here, folder / "here"), task


def test_a_worker_gives_the_same_bits(both: tuple[Any, Any, Prequential]) -> None:
    there, here, _ = both
    assert there.online_loss == here.online_loss
    assert there.score == here.score
    assert there.to_json()["results"]["examples"] == here.to_json()["results"]["examples"]


def test_the_report_has_the_workers_real_protections(both: tuple[Any, Any, Prequential]) -> None:
    there, here, _ = both
    found = there.config["isolation"]["protections"]
    assert tuple(found) == NAMES
    assert all(found[name] for name in WALLS)
    assert there.config["isolation"]["status"] == "protected"
    assert here.config["isolation"]["protections"] == {}


def test_a_protection_that_one_worker_lacks_was_not_in_force() -> None:
    both = in_both({"files": "namespaces+landlock", "network": "seccomp"}, {"files": "landlock", "disk": "tmpfs"})
    assert both == {**dict.fromkeys(NAMES, ""), "files": "landlock"}


def test_the_report_has_the_size_of_the_programs(both: tuple[Any, Any, Prequential]) -> None:
    there, here, task = both
    programs = trace_programs(flatten_learner(create_learner(task.estimator, task.context)), task.context)
    size = program_bytes(*written_programs(programs))
    assert there.to_json()["results"]["program_bytes"] == here.to_json()["results"]["program_bytes"] == size


@pytest.mark.slow
def test_what_a_worker_refuses_is_said_in_the_learners_words(tmp_path: Path) -> None:
    with pytest.raises(LearnerError, match="looks ahead"):
        report_of(strangers_task(tmp_path, "LooksAhead"), tmp_path / "run")


@pytest.mark.slow
def test_luggage_in_the_wiring_does_not_get_in(tmp_path: Path) -> None:
    with pytest.raises(LearnerError, match="bytes under gzip"):
        report_of(strangers_task(tmp_path, "Wired"), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "limits", "budget", "words"),
    [
        (
            "NeverBegins",
            WorkerLimits(600.0, 60.0, None),
            1e9,
            "compiling the learner took more than setup_timeout_s=60.0",
        ),
        (
            "NeverLearns",
            WorkerLimits(1.0, 300.0, None),
            1e18,
            "learning the stream took more than wall_time_limit_s=1.0",
        ),
        ("Hungry", WorkerLimits(600.0, 300.0, 1500.0), 1e9, "the limit is 1,500 MB: killed"),
    ],
)
def test_a_learner_over_a_limit_is_killed_and_its_failed_run_is_on_record(
    tmp_path: Path, learner: str, limits: WorkerLimits, budget: float, words: str
) -> None:
    report = report_of(strangers_task(tmp_path, learner, limits, budget), tmp_path / "run")
    document = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report.has_errors
    assert document["results"]["score"] is None
    assert words in document["results"]["failure"]
    assert document["results"]["program_bytes"] > 0
    assert document["run_config"]["isolation"]["protections"]["processes"]
    assert (tmp_path / "run" / "report.html").exists()
