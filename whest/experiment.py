"""An experiment, and the run that carries it out. Every run of whest starts here."""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from whest import __version__
from whest.config.build import Node, build_group, build_target
from whest.config.copies import yaml_text
from whest.config.devices import prepare_jax
from whest.config.settings import GROUPS, ReportOptions, Settings, TaskName, read_settings
from whest.dataset.sources import chosen_version, drawn_seed
from whest.document import CONFIG, PAGE, PROVENANCE, Json, protocol_hash
from whest.errors import ConfigError
from whest.gallery.refresh import refresh as refresh_gallery
from whest.host import code_version
from whest.progress import Progress, SilentProgress
from whest.provenance.record import keep_provenance
from whest.report import AnyReport, Report, RunMeta, save_report
from whest.scoring.score import Rule, Score
from whest.tasks.task import Task, fits, legal_pairs, task_builder
from whest.tracking.live import noted
from whest.tracking.naming import own_tags
from whest.tracking.runs import Tracking

LOG = logging.getLogger(__name__)
FIGURES = "figures"
"""The folder of the pictures, in the run's folder."""
CaseT = TypeVar("CaseT")
RuleT = TypeVar("RuleT", bound=Rule)
ScoreT = TypeVar("ScoreT", bound=Score)


@dataclass(frozen=True)
class Experiment(Generic[CaseT, RuleT, ScoreT]):
    """A task, the rule that scores it, and the place where the run is tracked."""

    task: Task[CaseT, RuleT, ScoreT]
    rule: RuleT
    tracking: Tracking
    notes: Mapping[str, Any]
    """Config values that the report repeats: round, seed, device, limits, participant."""
    command: str
    config: Node
    """The composed config, which is saved beside the report."""
    figures: bool = False
    """Whether the pictures are saved as PNG files."""
    page: bool = False
    """Whether report.html is made."""
    provenance: bool = False
    """Whether the estimator's source and the state of its repository are kept."""


AnyExperiment = Experiment[Any, Any, Any]
"""An experiment with any task."""


def build(config: Node, folder: Path, overrides: Sequence[str] = (), command: str = "") -> AnyExperiment:
    """Make the typed experiment of a composed config. `overrides` are the words of the command line."""
    settings = read_settings(config)
    prepare_jax(settings)
    refuse_missing_groups(config)
    config, command = with_drawn_seed(config, command)
    name = build_target(TaskName, {"name": config["task"].get("name")}, "task").name
    rule = build_group(config, "scoring")
    if not fits(name, rule):
        raise ConfigError(f"scoring={rule.name} can't score task={name}: use one of {legal_pairs()}")
    if settings.profile and name != "whitebox":
        raise ConfigError(f"profile=true is for task=whitebox, and this is task={name}: leave it out")
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    if settings.meter != "whest" and name != "whitebox":
        raise ConfigError(f"meter={settings.meter} works for task=whitebox, not for task={name}: leave it out")
    task = task_builder(name)(config, settings, folder, overrides)
    notes = {
        "round": config["round"]["name"],
        "seed": settings.seed,
        "device": settings.device,
        "memory_limit_mb": settings.memory_limit_mb,
        "setup_timeout_s": settings.setup_timeout_s,
        "participant": settings.participant,
    }
    names = build_target(ReportOptions, config["report"], "report").names
    notes |= {"report_names": names} if names != "whest" else {}
    notes |= own_words(settings)
    return Experiment(
        task, rule, tracking, notes, command, config, settings.figures, settings.page, settings.provenance
    )


def own_words(settings: Settings) -> dict[str, Any]:
    """The name, remark, ledger and labels that were given to the run. They change nothing in it."""
    given = {
        "name": settings.name,
        "notes": settings.notes,
        "hypothesis": settings.hypothesis,
        "decision": settings.decision,
        "tags": own_tags(settings.tags),
    }
    return {key: value for key, value in given.items() if value}


def with_drawn_seed(config: Node, command: str) -> tuple[Node, str]:
    """If the dataset needs a seed and none was given, draw one: config and command then repeat the same run.

    The version of a suite goes to the config only: the command stays as it was typed.
    """
    config = {**config, "dataset": {**config["dataset"], **chosen_version(config)}}
    drawn = drawn_seed(config)
    if not drawn:
        return config, command
    seeded = {**config, "dataset": {**config["dataset"], **drawn}}
    return seeded, f"{command} dataset.seed={drawn['seed']}" if command else ""


def refuse_missing_groups(config: Node) -> None:
    missing = [group for group in GROUPS if group not in config]
    if missing:
        raise ConfigError(f"{missing[0]} is missing from the config: choose one, {missing[0]}=…")


def run(
    experiment: Experiment[CaseT, RuleT, ScoreT],
    folder: Path,
    progress: Progress | None = None,
    show: Callable[[AnyReport], None] | None = None,
) -> Report[CaseT, ScoreT]:
    """Config in, report out: the task yields cases, the rule scores them; the report is shown, then saved and tracked.

    `show` prints the report. It comes first, because saving, drawing and MLflow take longer than scoring.
    """
    clock, task, progress = Clock(), experiment.task, progress or SilentProgress()
    experiment.tracking.probe()
    keep_config(experiment.config, folder)
    with experiment.tracking.follow(task.estimator.name, folder, clock.started_at) as live:
        cases, status = gather(noted(task.cases(progress), lambda case: task.score(experiment.rule, case).score, live))
        with unbroken():
            score = task.score(experiment.rule, cases)
            report = task.report(describe_run(experiment, clock, status), run_config(experiment, cases), cases, score)
            try:
                if show is not None:
                    show(report)
            finally:  # the terminal may be gone
                save_report(report, folder)
        with progress.stage("saving"):
            keep_files(experiment, report, folder)
        with progress.stage("saving to MLflow"):
            experiment.tracking.log(report, folder, live.run_id)
    refresh_gallery(Path(experiment.config.get("outputs_dir", folder)), folder)
    return report


def keep_config(config: Node, folder: Path) -> None:
    """Make the run's folder and write the composed config into it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(yaml_text(dict(config)), encoding="utf-8")


def gather(cases: Iterable[CaseT]) -> tuple[tuple[CaseT, ...], str]:
    """The finished cases and the run's status. After Ctrl-C, the cases that were finished before."""
    finished = []
    try:
        for case in cases:
            finished.append(case)
    except KeyboardInterrupt:
        return tuple(finished), "interrupted"
    return tuple(finished), "finished"


@contextmanager
def unbroken() -> Iterator[None]:
    """Ctrl-C and a scheduler's stop wait until the block is done: it takes milliseconds, and no score may be lost."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, frame: arrived.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if arrived:
            raise KeyboardInterrupt


def keep_files(experiment: AnyExperiment, report: AnyReport, folder: Path) -> None:
    """Write the files beside report.json. If one can't be made, warn only: the report is already saved."""
    with only_warn(folder, *report.view.files):
        report.view.save_files(report, folder)
    if experiment.provenance:
        with only_warn(folder, PROVENANCE):
            keep_provenance(experiment.task.estimator, folder)
    if report.never_ran:
        return
    if experiment.figures:
        with only_warn(folder, FIGURES):
            draw(report, folder)
    if experiment.page:
        with only_warn(folder, PAGE):
            save_run_page(report, folder)


@contextmanager
def only_warn(folder: Path, *names: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        files = ", ".join(str(folder / name) for name in names)
        LOG.warning("%s could not be made (%s: %s); the report is saved", files, type(error).__name__, error)


def draw(report: AnyReport, folder: Path) -> None:
    """The run's pictures as PNG files."""
    from whest.page.drawing import save_figures

    subject = f"{report.config['estimator']['name']} on {report.config['dataset']['name']}"
    save_figures(report.view.drawings(report), subject, folder / FIGURES)


def save_run_page(report: AnyReport, folder: Path) -> None:
    """Write report.html beside report.json."""
    from whest.page.render import save_page
    from whest.page.run import run_page

    document = report.to_json()
    save_page(run_page(document, report.view.page(document, report), folder), folder / PAGE)


class Clock:
    """The start of a run: a date for people, and a monotonic reading for the duration."""

    def __init__(self) -> None:
        self.started_at, self._started = datetime.now(UTC), time.monotonic()

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started


def describe_run(experiment: AnyExperiment, clock: Clock, status: str) -> RunMeta:
    protocol = protocol_of(experiment)
    return RunMeta(
        run_started_at_utc=clock.started_at,
        run_finished_at_utc=datetime.now(UTC),
        run_duration_s=clock.elapsed_s(),
        status=status,
        whest_version=__version__,
        code_version=code_version(),
        command=experiment.command,
        protocol_hash=protocol_hash(protocol),
        protocol=protocol,
    )


def protocol_of(experiment: AnyExperiment) -> Json:
    """The rules and data that two runs must share so that their scores are comparable."""
    task = experiment.task
    return {
        "task": {"name": task.name, "version": task.version},
        **task.protocol(),
        "scoring": describe_rule(experiment.rule),
        "limits": asdict(task.limits),
        "mode": task.estimator.mode,
        "require": sorted(task.require),
    }


def describe_rule(rule: Rule) -> Json:
    return {"name": rule.name, "version": rule.version, **asdict(rule)}


def run_config(experiment: AnyExperiment, cases: Sequence[Any]) -> Json:
    """The report's `run_config`."""
    task, spec = experiment.task, experiment.task.estimator
    return {
        "task": task.name,
        "flop_budget": task.limits.budget,
        "lambda_flops_per_second": task.limits.lam,
        "lambda_has_effect": spec.mode != "traced",
        "wall_time_limit_s": task.limits.wall_time_limit_s,
        "residual_wall_time_limit_s": task.limits.residual_wall_time_limit_s,
        **experiment.notes,
        "estimator": {
            "name": spec.name,
            "target": spec.target,
            "path": str(spec.path) if spec.path else None,
            "mode": spec.mode,
            "knobs": dict(spec.knobs),
            "source_sha256": spec.source_sha256,
        },
        **task.describe(cases),
        "scoring": describe_rule(experiment.rule),
    }
