"""An experiment, and the run that carries it out. Every run of whest starts here."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from omegaconf import OmegaConf

from whest import __version__
from whest.config.build import Node, build_group, build_target
from whest.config.devices import prepare_jax
from whest.config.settings import GROUPS, TaskName, read_settings
from whest.document import CONFIG, PAGE, Json, protocol_hash
from whest.errors import ConfigError
from whest.host import code_version
from whest.page.drawing import save_figures
from whest.page.render import save_page
from whest.page.run import run_page
from whest.progress import Progress, SilentProgress
from whest.report import AnyReport, Report, RunMeta, save_report
from whest.scoring.score import Rule, Score
from whest.tasks.task import Task, fits, legal_pairs, task_builder
from whest.tracking.runs import Tracking

LOG = logging.getLogger(__name__)
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


AnyExperiment = Experiment[Any, Any, Any]
"""An experiment with any task."""


def build(config: Node, folder: Path, overrides: Sequence[str] = (), command: str = "") -> AnyExperiment:
    """Make the typed experiment of a composed config. `overrides` are the words of the command line."""
    settings = read_settings(config)
    prepare_jax(settings)
    refuse_missing_groups(config)
    name = build_target(TaskName, {"name": config["task"].get("name")}, "task").name
    rule = build_group(config, "scoring")
    if not fits(name, rule):
        raise ConfigError(f"scoring={rule.name} can't score task={name}: use one of {legal_pairs()}")
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    task = task_builder(name)(config, settings, folder, overrides)
    notes = {
        "round": config["round"]["name"],
        "seed": settings.seed,
        "device": settings.device,
        "memory_limit_mb": settings.memory_limit_mb,
        "setup_timeout_s": settings.setup_timeout_s,
        "participant": settings.participant,
    }
    return Experiment(task, rule, tracking, notes, command, config)


def refuse_missing_groups(config: Node) -> None:
    missing = [group for group in GROUPS if group not in config]
    if missing:
        raise ConfigError(f"{missing[0]} is missing from the config: choose one, {missing[0]}=…")


def run(
    experiment: Experiment[CaseT, RuleT, ScoreT], folder: Path, progress: Progress | None = None
) -> Report[CaseT, ScoreT]:
    """Config in, report out: the task yields cases, the rule scores them, the report is saved, drawn and tracked."""
    clock, task = Clock(), experiment.task
    keep_config(experiment.config, folder)
    cases, status = gather(task.cases(progress or SilentProgress()))
    score = task.score(experiment.rule, cases)
    report = task.report(describe_run(experiment, clock, status), run_config(experiment, cases), cases, score)
    save_report(report, folder)
    report.view.save_files(report, folder)
    draw(report, folder)
    save_run_page(report, folder)
    experiment.tracking.log(report, folder)
    return report


def keep_config(config: Node, folder: Path) -> None:
    """Make the run's folder and write the composed config into it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG).write_text(OmegaConf.to_yaml(OmegaConf.create(dict(config))))


def gather(cases: Iterable[CaseT]) -> tuple[tuple[CaseT, ...], str]:
    """The finished cases and the run's status. After Ctrl-C, the cases that were finished before."""
    finished = []
    try:
        for case in cases:
            finished.append(case)
    except KeyboardInterrupt:
        return tuple(finished), "interrupted"
    return tuple(finished), "finished"


def draw(report: AnyReport, folder: Path) -> None:
    """The run's pictures as PNG files."""
    subject = f"{report.config['estimator']['name']} on {report.config['dataset']['name']}"
    save_figures(report.view.drawings(report), subject, folder / "figures")


def save_run_page(report: AnyReport, folder: Path) -> None:
    """Write report.html beside report.json. If that fails, warn only: the report is already saved."""
    try:
        document = report.to_json()
        parts = report.view.page(document, report)
        save_page(run_page(document, parts, folder), folder / PAGE)
    except Exception as error:
        LOG.warning("%s could not be made (%s: %s); the report is saved", folder / PAGE, type(error).__name__, error)


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
