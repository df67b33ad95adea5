"""Recorded runs: read from `report.json` or MLflow, and compared with the logged values.

Nothing is scored here. If the parts of a run disagree, it keeps its figures and gets a `problem` in words. Boards and
comparisons decide what to do with it.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.document import REPORT, REPORT_SHA256, Json, case_rows, task_name
from whest.errors import ConfigError, WhestError
from whest.tracking.verify import logged_problem, own_problem

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


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
    """The parsed report.json; empty if it can't be read."""
    tags: Mapping[str, str]
    problem: str | None
    """The difference from the logged values, in words; None for an unchanged run."""

    @property
    def protocol_hash(self) -> str | None:
        return self._of("run_meta", "protocol_hash") or self.tags.get("protocol_hash")

    @property
    def rule(self) -> str | None:
        """The scoring rule's name."""
        return (self._of("run_config", "scoring") or {}).get("name") or self.tags.get("scoring")

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
        report = _parse(place.read_bytes())
    except OSError as error:
        raise UnreadableError(f"{place} can't be read ({error.strerror}): give a run's report.json or folder") from None
    except ValueError as error:
        raise UnreadableError(f"{place} is not a report ({error}): give the report.json of a whest run") from None
    config = report["run_config"]
    name = str(config["estimator"]["name"])
    return RecordedRun(str(place), name, str(config["participant"]), report, {}, own_problem(report))


def read_run(client: "MlflowClient", run_id: str) -> RecordedRun:
    """Read a run from MLflow by its id."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException:
        raise UnreadableError(
            f"there is no MLflow run {run_id} in {client.tracking_uri}: take an id from `make ui`"
        ) from None
    return _read(client, run)


def find_runs(client: "MlflowClient", experiment_ids: Sequence[str]) -> list[RecordedRun]:
    """The scored runs of these experiments, oldest first; without parent runs and runs of other programs."""
    return [_read(client, run) for run in _pages(client, experiment_ids) if _is_scored(run)]


def find_run_id(client: "MlflowClient", experiment_id: str, beginning: str, key: str) -> str:
    """The only scored run whose id starts with `beginning`. `key` is the config key, for the error message."""
    known = [str(run.info.run_id) for run in _pages(client, [experiment_id]) if _is_scored(run)]
    found = [run_id for run_id in known if run_id.startswith(beginning)]
    if len(found) != 1:
        many = f"matches {len(found)} runs" if found else f"is none of the {len(known)} runs"
        raise ConfigError(f"{key}={beginning} {many}: give a longer part of an id that a board or `make ui` shows")
    return found[0]


def _pages(client: "MlflowClient", experiment_ids: Sequence[str]) -> Iterator["Run"]:
    token = None
    while True:
        page = client.search_runs(
            list(experiment_ids), max_results=1000, order_by=["attributes.start_time ASC"], page_token=token
        )
        yield from page
        token = page.token
        if not token:
            return


def _is_scored(run: "Run") -> bool:
    return REPORT_SHA256 in run.data.params or REPORT_SHA256 in run.data.tags or "protocol_hash" in run.data.tags


def _read(client: "MlflowClient", run: "Run") -> RecordedRun:
    report, problem = _fetch(client, run)
    if report and problem is None:
        problem = own_problem(report) or logged_problem(run, report)
    config, tags = report.get("run_config", {}), dict(run.data.tags)
    participant = str(config.get("participant") or tags.get("participant") or "?")
    return RecordedRun(run.info.run_id, run.info.run_name or run.info.run_id, participant, report, tags, problem)


def _fetch(client: "MlflowClient", run: "Run") -> tuple[Json, str | None]:
    """The present report.json of the artifacts, and the problem if it is not the logged one."""
    from mlflow.exceptions import MlflowException

    with tempfile.TemporaryDirectory() as folder:
        try:
            content = Path(client.download_artifacts(run.info.run_id, REPORT, folder)).read_bytes()
        except (MlflowException, OSError):
            return {}, f"its {REPORT} is missing from the artifacts"
    logged = [kept[REPORT_SHA256] for kept in (run.data.params, run.data.tags) if REPORT_SHA256 in kept]
    found = hashlib.sha256(content).hexdigest()
    try:
        report = _parse(content)
    except ValueError as error:
        return {}, f"its {REPORT} is not a report ({error})"
    if not logged:
        return report, f"the logged sha256 of its {REPORT} is missing"
    different = [sha256 for sha256 in logged if sha256 != found]
    if different:
        return report, f"its {REPORT} has the sha256 {found[:12]}…, but {different[0][:12]}… was logged"
    return report, None


def _parse(content: bytes) -> Json:
    """Parse a report, and check that it has the parts that this module uses."""
    report = json.loads(content)
    wanted = {"run_meta": "protocol_hash", "run_config": "participant", "results": "score"}
    for part, name in wanted.items():
        if not isinstance(report, dict) or not isinstance(report.get(part), dict) or name not in report[part]:
            raise ValueError(f"it has no {part}.{name}")
    return report
