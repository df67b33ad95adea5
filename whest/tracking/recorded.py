"""Recorded runs: read from `report.json` or MLflow, and compared with the logged values.

Nothing here scores anything. A run whose parts no longer agree gets a `problem`, in words, and its report is not read
any further: nothing in it can be believed, and damaged figures must not stop the reader of a hundred other runs.
"""

import hashlib
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from whest.document import MANIFEST, REPORT, REPORT_SHA256, Json, case_rows, task_name
from whest.errors import ConfigError, WhestError
from whest.files import parse_document, read_bounded
from whest.tracking.parents import KIND
from whest.tracking.verify import expected_tags, find_problem, manifest_problem

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


LOG = logging.getLogger(__name__)
LARGEST_REPORT = 2**25
"""Bytes of a report.json."""


class UnreadableError(WhestError):
    """The run or report does not exist or can't be read."""


@dataclass(frozen=True)
class RecordedRun:
    """One run: its report, its tags and its problem, if any."""

    run_id: str
    """MLflow's id, or the path of the report if it was read from a file."""
    name: str
    participant: str
    report: Json
    """The parsed report.json; empty where there is none to be read, or where MLflow's run has a problem."""
    tags: Mapping[str, str]
    problem: str | None
    """The difference from the logged values, in words; None for an unchanged run."""

    @property
    def protocol_hash(self) -> str | None:
        return self.tags.get("protocol_hash") or self._of("run_meta", "protocol_hash")

    @property
    def rule(self) -> str | None:
        """The scoring rule's name."""
        return self.tags.get("scoring") or (self._of("run_config", "scoring") or {}).get("name")

    @property
    def task(self) -> str:
        """The task's name. Old reports don't have it: then there was only one task."""
        return task_name(self.report)

    @property
    def score(self) -> float | None:
        return self._of("results", "score")

    @property
    def score_se(self) -> float | None:
        return self._of("results", "score_se")

    @property
    def rows(self) -> list[Json]:
        """One row per case."""
        return case_rows(self.report.get("results", {}))

    @property
    def finished_at(self) -> datetime | None:
        stamp = self._of("run_meta", "run_finished_at_utc")
        return datetime.fromisoformat(stamp) if stamp else None

    def _of(self, part: str, name: str) -> Any:
        return self.report.get(part, {}).get(name)


def read_report(path: Path) -> RecordedRun:
    """Read a run from its report.json or its folder. Without MLflow, only the report itself can be checked."""
    place = path / REPORT if path.is_dir() else path
    try:
        report = _parse(read_bounded(place, LARGEST_REPORT))
        config = report["run_config"]
        name, participant = str(config["estimator"]["name"]), str(config["participant"])
    except OSError as error:
        raise UnreadableError(f"{place} can't be read ({error.strerror}): give a run's report.json or folder") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableError(f"{place} is not a report ({error}): give the report.json of a whest run") from None
    return RecordedRun(str(place), name, participant, report, {}, find_problem(report))


def read_run(client: "MlflowClient", run_id: str) -> RecordedRun:
    """Read a run from MLflow by its id."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException:
        raise UnreadableError(
            f"there is no MLflow run {run_id} in {client.tracking_uri}: take an id from `python -m whest job=runs`"
        ) from None
    return _read(client, run)


def find_runs(client: "MlflowClient", experiment_ids: Sequence[str]) -> list[RecordedRun]:
    """The scored runs of these experiments, oldest first; without parent runs and runs of other programs."""
    return [_read(client, run) for run in _pages(client, experiment_ids) if _is_scored(run)]


def list_runs(client: "MlflowClient", experiment_id: str) -> list["Run"]:
    """The scored runs and the parent runs of an experiment, as MLflow has them: no report is read."""
    return [run for run in _pages(client, [experiment_id]) if _is_scored(run) or KIND in run.data.tags]


def find_run_id(client: "MlflowClient", experiment_id: str, beginning: str, key: str) -> str:
    """The only scored run whose id starts with `beginning`. `key` is the config key, for the error message."""
    known = [str(run.info.run_id) for run in _pages(client, [experiment_id]) if _is_scored(run)]
    found = [run_id for run_id in known if run_id.startswith(beginning)]
    if len(found) != 1:
        many = f"matches {len(found)} runs" if found else f"is none of the {len(known)} runs"
        raise ConfigError(
            f"{key}={beginning} {many}: give a longer part of an id that a board or `python -m whest job=runs` shows"
        )
    return found[0]


def _pages(client: "MlflowClient", experiment_ids: Sequence[str]) -> Iterator["Run"]:
    from mlflow.exceptions import MlflowException

    token, readable = None, ""
    while True:
        order = ["attributes.start_time ASC"]
        try:
            page = client.search_runs(
                list(experiment_ids), readable, max_results=1000, order_by=order, page_token=token
            )
        except MlflowException as error:  # a row without a start hides all others of its page
            if readable:
                raise
            reason = str(error).splitlines()[0]
            LOG.warning(
                "MLflow can't list every run of %s: a damaged one is left out (%s)", client.tracking_uri, reason
            )
            token, readable = None, "attributes.start_time >= 0"
            continue
        yield from page
        token = page.token
        if not token:
            return


def _is_scored(run: "Run") -> bool:
    return REPORT_SHA256 in run.data.params or REPORT_SHA256 in run.data.tags or "protocol_hash" in run.data.tags


def _read(client: "MlflowClient", run: "Run") -> RecordedRun:
    """One run of the store. Whatever is wrong with it is its own problem, and not that of the others."""
    try:
        found = check_run(run, _fetch(client, run))
        if found.problem is None and found.rule == "prism":
            problem = manifest_problem(found.report, _fetch(client, run, MANIFEST))
            return found if problem is None else replace(found, report={}, problem=problem)
        return found
    except Exception as error:  # MLflow itself fails in many ways on a damaged row
        problem = f"it can't be read ({type(error).__name__}: {str(error)[:200]})"
        tags = {str(name): str(value) for name, value in run.data.tags.items()}
        return RecordedRun(str(run.info.run_id), str(run.info.run_id), tags.get("participant", "?"), {}, tags, problem)


def check_run(run: "Run", content: bytes | None) -> RecordedRun:
    """A run of MLflow with the content of its report.json. Its report is there to be read if every check holds."""
    report, problem = _judge(run, content)
    tags = {**run.data.tags, **_own_tags(report)}
    told = report.get("run_config", {}).get("participant") if problem is None else None
    participant = str(tags.get("participant") or told or "?")
    name = run.info.run_name or run.info.run_id
    return RecordedRun(run.info.run_id, name, participant, report if problem is None else {}, tags, problem)


def _own_tags(report: Json) -> dict[str, str]:
    """The tags of an unchanged report: a changed tag must not move its run to another board, or out of sight."""
    try:
        return {name: str(value) for name, value in expected_tags(report).items()} if report else {}
    except (KeyError, TypeError, AttributeError):
        return {}


def _judge(run: "Run", content: bytes | None) -> tuple[Json, str | None]:
    """The report, and what is wrong with it, found before anything else looks at it."""
    if content is None:
        return {}, f"its {REPORT} is missing from the artifacts, or too large to be one"
    logged = [kept[REPORT_SHA256] for kept in (run.data.params, run.data.tags) if REPORT_SHA256 in kept]
    found = hashlib.sha256(content).hexdigest()
    different = [sha256 for sha256 in logged if sha256 != found]
    try:
        report = _parse(content)
    except ValueError as error:
        return {}, f"its {REPORT} is not a report ({error})"
    if REPORT_SHA256 not in run.data.params:
        return {}, f"its param {REPORT_SHA256} is gone"
    if different:
        return {}, f"its {REPORT} has the sha256 {found[:12]}…, logged was {different[0][:12]}…"
    return report, find_problem(report, run)


def _fetch(client: "MlflowClient", run: "Run", name: str = REPORT) -> bytes | None:
    """The artifact, whatever it holds now; None where there is none that can be read."""
    from mlflow.exceptions import MlflowException

    place = str(run.info.artifact_uri)
    try:
        if place.startswith(("file:", "/")):  # nothing is copied, however large it says it is
            return read_bounded(Path(unquote(urlsplit(place).path)) / name, LARGEST_REPORT)
        listed = {item.path: item.file_size for item in client.list_artifacts(run.info.run_id)}
        if name not in listed or (listed[name] or 0) > LARGEST_REPORT:
            return None
        with tempfile.TemporaryDirectory() as folder:
            return read_bounded(Path(client.download_artifacts(run.info.run_id, name, folder)), LARGEST_REPORT)
    except (MlflowException, OSError, ValueError):
        return None


def _parse(content: bytes) -> Json:
    """A report with the parts that everything here leans on."""
    report = parse_document(content)
    wanted = {"run_meta": "protocol_hash", "run_config": "participant", "results": "score"}
    for part, name in wanted.items():
        if not isinstance(report, dict) or not isinstance(report.get(part), dict) or name not in report[part]:
            raise ValueError(f"it has no {part}.{name}")
    return report


LARGEST_ARTIFACT, MOST_ARTIFACTS = 2**28, 500
"""Bytes of one artifact that is fetched, and how many are."""


def fetch_folder(
    client: "MlflowClient", run_id: str, folder: Path, files: Sequence[str], folders: Sequence[str]
) -> None:
    """Copy a run's report and these artifacts, as far as it has them, into a folder of ours."""
    listed = {item.path: item for item in client.list_artifacts(run_id)}
    wanted = [listed[name] for name in (REPORT, *files, *folders) if name in listed]
    for _ in range(MOST_ARTIFACTS):
        if not wanted:
            return
        item = wanted.pop()
        if item.is_dir:
            wanted += client.list_artifacts(run_id, item.path)
        elif (item.file_size or 0) <= LARGEST_ARTIFACT:
            client.download_artifacts(run_id, item.path, str(folder))
