"""`job=import path=…`: log WhestBench reports as MLflow runs, each one once, with a list of their errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.config.build import build_group
from whest.config.compose import command_of
from whest.config.settings import read_settings
from whest.display.console import say
from whest.document import PAGE, report_metrics
from whest.errors import ConfigError
from whest.files import write_atomically
from whest.notation import count, plus_minus
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
    read = [_read(file, path, participant, command) for file in files]
    if not any(isinstance(one, Read) for one in read):
        raise NotAReportError(f"path={path} has {len(files)} JSON files, and none is a WhestBench report")
    client, experiment_id = tracking.connect()
    fates = []
    for one in read:
        if isinstance(one, Imported):
            fates.append(one)
        else:
            fates.append(_import(one, client, experiment_id, outputs))
    return fates


@dataclass(frozen=True)
class Read:
    """A report that was read, checked and translated."""

    found: PeerReport
    report: ImportedReport


def _read(file: Path, given: Path, participant: str | None, command: str) -> Read | Imported:
    """One file. Of a folder, what isn't a report is left out and said; so is a link out of it."""
    try:
        if given.is_dir() and not file.resolve().is_relative_to(given.resolve()):
            raise NotAReportError(f"path={file} is a link out of {given}: put the file itself there")
        found = read_peer_report(file)
        return Read(found, _translated(found, participant, command))
    except NotAReportError as error:
        if file == given:
            raise
        return Imported(file, refusal=str(error))


def _translated(found: PeerReport, participant: str | None, command: str) -> ImportedReport:
    """Under our names. Figures of a kind that none of them has are refused here, before anything is written."""
    try:
        report = import_report(found, find_problems(found), participant, command)
        report_metrics(report.document)
    except Exception as error:  # values within a report fail in as many ways as there are values
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise NotAReportError(
            f"path={found.source} is not a WhestBench report: its figures are damaged ({reason})"
        ) from error
    return report


def _import(one: Read, client: "MlflowClient", experiment_id: str, outputs: Path) -> Imported:
    found, report = one.found, one.report
    known = client.search_runs([experiment_id], f"tags.imported_sha256 = '{found.sha256}'", max_results=1)
    if known:
        return Imported(found.source, known[0].info.run_id)
    folder = outputs / FOLDER / found.sha256[:16]
    write_atomically(folder / ORIGINAL, found.content)
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
    rows = count(len(report.document["results"]["per_mlp"]), "MLP")
    lines = [
        f"imported  {path} as run {run_id}: score {score}, {rows}, protocol {report.meta.protocol_hash}",
        *(f"          inconsistent: {problem}" for problem in problems[:most]),
    ]
    if len(problems) > most:
        lines.append(f"          and {len(problems) - most} more, in the run's tag `disagrees` and its report.json")
    return lines
