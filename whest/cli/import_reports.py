"""`job=import path=…`: log WhestBench reports as MLflow runs, each one once, with a list of their errors."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.config.build import build_group
from whest.config.compose import command_of
from whest.config.settings import read_settings
from whest.display.console import say
from whest.document import PAGE
from whest.errors import ConfigError
from whest.notation import plus_minus
from whest.page.render import save_page
from whest.page.run import run_page
from whest.report import save_report
from whest.tracking.runs import MlflowTracking, log_report
from whest.whestbench.checks import find_problems
from whest.whestbench.imported import ImportedReport, import_report
from whest.whestbench.reports import NotAReportError, PeerReport, read_peer_report

if TYPE_CHECKING:
    from whest.tracking.runs import MlflowClient

ORIGINAL = "whestbench.json"
FOLDER = "imported"


@dataclass(frozen=True)
class Imported:
    """The outcome for one file."""

    path: Path
    run_id: str | None = None
    """None if the file is not a report."""
    report: ImportedReport | None = None
    """None if the report was imported before."""
    refusal: str | None = None


def import_reports(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: name a WhestBench report or a folder of reports, job=import path=DIR")
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    if not isinstance(tracking, MlflowTracking):
        raise ConfigError("job=import makes MLflow runs: leave out tracking=none, or set tracking=mlflow")
    is_named = any(word.lstrip("+").startswith("participant=") for word in overrides)
    participant = settings.participant if is_named else None
    for line in describe(import_all(settings.path, tracking, participant, command_of(overrides), settings.outputs)):
        say(line)


def import_all(
    path: Path, tracking: MlflowTracking, participant: str | None, command: str, outputs: Path
) -> list[Imported]:
    """Import every report at the path. All are read before the first is logged.

    A path that is not a report, or has none inside, is an error.
    """
    if not path.exists():
        raise ConfigError(f"path={path} does not exist: name a WhestBench report or a folder of reports")
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    read = [_read(file, is_alone=file == path) for file in files]
    if not any(isinstance(one, PeerReport) for one in read):
        raise NotAReportError(f"path={path} has {len(files)} JSON files, and none is a WhestBench report")
    client, experiment_id = tracking.connect()
    return [
        one if isinstance(one, Imported) else _import(one, client, experiment_id, participant, command, outputs)
        for one in read
    ]


def _read(path: Path, is_alone: bool) -> PeerReport | Imported:
    try:
        return read_peer_report(path)
    except NotAReportError as error:
        if is_alone:
            raise
        return Imported(path, refusal=str(error))


def _import(
    found: PeerReport,
    client: "MlflowClient",
    experiment_id: str,
    participant: str | None,
    command: str,
    outputs: Path,
) -> Imported:
    known = client.search_runs([experiment_id], f"tags.imported_sha256 = '{found.sha256}'", max_results=1)
    if known:
        return Imported(found.source, known[0].info.run_id)
    report = import_report(found, find_problems(found), participant, command)
    folder = outputs / FOLDER / found.sha256[:16]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(found.source, folder / ORIGINAL)
    save_report(report, folder)
    save_page(run_page(report.to_json(), report.view.page(report.to_json(), None)), folder / PAGE)
    return Imported(found.source, log_report(client, experiment_id, report, folder), report)


def describe(outcomes: Sequence[Imported], most: int = 12) -> list[str]:
    """One line per file, and below it the errors of the report, at most `most`."""
    lines = []
    for one in outcomes:
        if one.refusal is not None:
            lines.append(f"left out  {one.refusal}")
        elif one.report is None:
            lines.append(f"known     {one.path} is run {one.run_id} already")
        else:
            lines += _describe_one(one.path, str(one.run_id), one.report, most)
    return lines


def _describe_one(path: Path, run_id: str, report: ImportedReport, most: int) -> list[str]:
    score = plus_minus(report.score.score, report.score.score_se)
    problems = report.problems
    n_rows = len(report.document["results"]["per_mlp"])
    lines = [
        f"imported  {path} as run {run_id}: score {score}, {n_rows} MLPs, protocol {report.meta.protocol_hash}",
        *(f"          inconsistent: {problem}" for problem in problems[:most]),
    ]
    if len(problems) > most:
        lines.append(f"          and {len(problems) - most} more, in the run's tag `disagrees` and its report.json")
    return lines
