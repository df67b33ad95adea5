"""`job=score`: run the experiment and print its report. A sweep's finished job is not run again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from whest.config.compose import command_of
from whest.config.settings import read_settings
from whest.display.console import (
    next_steps,
    open_console,
    print_cases,
    print_next,
    print_places,
    print_report,
    say,
    tell_report,
)
from whest.display.progress import open_progress
from whest.errors import JobFailedError
from whest.report import AnyReport
from whest.sweeps.pace import job_line, line_of_before
from whest.sweeps.resume import finished_score, is_sweeps_job, keep_point, point_hash
from whest.tracking.runs import NoTracking


def score(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> float | None:
    """Run the experiment. Returns the score, for an optimising sweeper."""
    settings, console = read_settings(config), open_console()
    with open_progress(console) as progress:
        with progress.stage("starting JAX"):
            from whest.experiment import build, run

            experiment = build(config, folder, overrides, command_of(overrides))
        point = point_hash(experiment) if is_sweeps_job(folder) else None
        found = finished_score(folder, point) if point and settings.resume else None
        if found is not None:
            say(line_of_before(folder, found))
            return found

        def show(report: AnyReport) -> None:
            if point is None:
                print_report(report, console, settings.show_mlps)
            else:
                print_job(report, job_line(report, folder, overrides), console, settings.show_mlps)

        report = run(experiment, folder, progress, show)
    steps = next_steps(report, not isinstance(experiment.tracking, NoTracking))
    tell_report(report, folder, steps)
    if point is None:
        print_places(report, folder, console)
        print_next(steps, console)
    if report.meta.status == "interrupted":
        raise KeyboardInterrupt  # everything is saved; this stops a sweep too
    if report.problem is not None:
        raise JobFailedError(report.problem)
    if point and report.score.score is not None:
        from whest.sweeps.table import remember  # the table's statistics are slow to import, and a single run has none

        row = remember(folder.absolute(), overrides, report.to_json())
        keep_point(folder, point, report, row)
    return report.score.score


def print_job(report: AnyReport, line: str, console: Console, show_cases: bool) -> None:
    """A sweep's job in one line, and its problems. The table at the end of the sweep has the rest."""
    console.print(line, markup=False, soft_wrap=True)
    for complaint in report.view.complaints(report):
        console.print(complaint)
    if show_cases:
        print_cases(report, console)
