"""`job=score`: run the experiment and print its report. A sweep's finished job is not run again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.compose import command_of
from whest.config.settings import read_settings
from whest.display.console import open_console, print_report, say
from whest.display.progress import open_progress
from whest.errors import JobFailedError
from whest.experiment import build, run
from whest.sweeps.resume import finished_score, is_sweeps_job, keep_point, point_hash
from whest.tracking.runs import NoTracking


def score(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> float | None:
    """Run the experiment. Returns the score, for an optimising sweeper."""
    experiment = build(config, folder, overrides, command_of(overrides))
    point = point_hash(experiment) if is_sweeps_job(folder) else None
    found = finished_score(folder, point) if point and read_settings(config).resume else None
    if found is not None:
        say(f"job {folder.name} was finished before, score {found:.3g}")
        return found
    console = open_console()
    with open_progress(console) as progress:
        report = run(experiment, folder, progress)
    is_tracked = not isinstance(experiment.tracking, NoTracking)
    print_report(report, folder, console, read_settings(config).show_mlps, is_tracked)
    if report.meta.status == "interrupted":
        raise KeyboardInterrupt  # everything is saved; this stops a sweep too
    if report.problem is not None:
        raise JobFailedError(report.problem)
    if point and report.score.score is not None:
        keep_point(folder, point, report)
    return report.score.score
