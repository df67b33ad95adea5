"""An experiment, and the run that carries it out."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whest import __version__
from whest.case import WhiteboxCase
from whest.figures import save_figures
from whest.host import code_version
from whest.meter import METER_VERSION
from whest.page.run import save_run_page
from whest.predictions import save_predictions
from whest.progress import Progress, SilentProgress
from whest.recorded import protocol_hash
from whest.report import Report, RunMeta, save_report
from whest.sampling import flops_per_sample
from whest.scoring.whitebox import WhiteboxRule
from whest.tasks.whitebox import Whitebox
from whest.tracking import Tracking
from whest.truth import describe_sampler


@dataclass(frozen=True)
class Experiment:
    """A task to carry out, the rule that scores it, and where it is remembered."""

    task: Whitebox
    rule: WhiteboxRule
    tracking: Tracking
    notes: Mapping[str, Any]
    """What the report repeats of the config: round, seed, device, isolation, caps, participant."""
    command: str


def run(experiment: Experiment, folder: Path, progress: Progress | None = None) -> Report:
    """Config in, report out: the task yields cases, the rule scores them, the report says it, tracking remembers it."""
    clock = Clock()
    cases, status = gather(experiment.task.cases(progress or SilentProgress()))
    sample_price = flops_per_sample(experiment.task.context.width, experiment.task.context.depth)
    score = experiment.rule.score(cases, experiment.task.limits, sample_price)
    meta = describe_run(experiment, clock, status)
    report = Report("score", meta, run_config(experiment, cases), experiment.task.limits, cases, score, sample_price)
    save_report(report, folder)
    save_predictions(report, folder)
    save_figures(report, folder / "figures")
    save_run_page(report, folder)
    experiment.tracking.log(report, folder)
    return report


def gather(cases: Iterable[WhiteboxCase]) -> tuple[tuple[WhiteboxCase, ...], str]:
    """The finished cases; Ctrl-C keeps what there is."""
    finished = []
    try:
        for case in cases:
            finished.append(case)
    except KeyboardInterrupt:
        return tuple(finished), "interrupted"
    return tuple(finished), "finished"


class Clock:
    """When a run began: as a date for people, as a monotonic reading for its duration."""

    def __init__(self) -> None:
        self.started_at, self._started = datetime.now(UTC), time.monotonic()

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started


def describe_run(experiment: Experiment, clock: Clock, status: str) -> RunMeta:
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


def protocol_of(experiment: Experiment) -> dict[str, Any]:
    """What two runs must share for their scores to be comparable."""
    task = experiment.task
    sampled = not task.dataset.has_truth or task.sampler.resample
    return {
        "task": {"name": task.name, "version": task.version},
        "dataset": task.dataset.sha256,
        "truth": describe_sampler(task.sampler) if sampled else "baked",
        "scoring": {"name": experiment.rule.name, "version": experiment.rule.version, **asdict(experiment.rule)},
        "limits": asdict(task.limits),
        "meter": {"name": "xla-traced", "version": METER_VERSION},
    }


def run_config(experiment: Experiment, cases: Sequence[WhiteboxCase]) -> dict[str, Any]:
    """The report's `run_config`."""
    task, spec = experiment.task, experiment.task.estimator
    return {
        "n_mlps": task.dataset.n_mlps,
        "width": task.dataset.width,
        "depth": task.dataset.depth,
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
        "isolation": {
            "kind": task.isolation.kind,
            "worker": task.isolation.is_process(spec),
            "fresh": task.isolation.fresh,
            "protections": dict(cases[0].protections) if cases else {},
        },
        "dataset": task.dataset.describe(),
        "truth": {**describe_sampler(task.sampler), "resample": task.sampler.resample},
        "scoring": {"name": experiment.rule.name, "version": experiment.rule.version, **asdict(experiment.rule)},
    }
