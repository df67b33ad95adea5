"""Tracking: log a report as one MLflow run.

All files are on disk before MLflow is called. So if the store or server fails, the run is not logged, but the result is
not lost.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock

from whest.document import PAGE, REPORT, REPORT_SHA256, flatten, milliseconds, report_metrics
from whest.errors import ConfigError, WhestError
from whest.notation import plus_minus
from whest.report import AnyReport

if TYPE_CHECKING:
    from mlflow import MlflowClient as MlflowClient

LOG = logging.getLogger(__name__)
PARENT_FILE = "parent_run_id"
"""In a sweep's folder: the id of its MLflow parent run. Hydra composes each job anew, so a file carries the id."""
PARENT_VARIABLE = "WHEST_PARENT_RUN"
"""The same in a job's environment, for machines that don't share the folder."""
SWEEP_JOB = "sweep_job"
TABLES = "mlflow.loggedArtifacts"
"""MLflow's tag with the names of a run's tables."""
SQLITE = "sqlite:///"


class Tracking(Protocol):
    def log(self, report: AnyReport, folder: Path) -> None: ...


@dataclass(frozen=True)
class NoTracking:
    """`tracking=none`."""

    outputs: Path

    def log(self, report: AnyReport, folder: Path) -> None:
        return None


@dataclass(frozen=True)
class MlflowTracking:
    """`tracking=mlflow`: SQLite under the outputs folder, or any tracking URI."""

    uri: str | None
    experiment: str
    outputs: Path

    @property
    def tracking_uri(self) -> str:
        return self.uri or f"{SQLITE}{self.outputs / 'mlflow.db'}"

    def log(self, report: AnyReport, folder: Path) -> None:
        try:
            client, experiment_id = self.connect()
            log_report(client, experiment_id, report, folder)
        except Exception as error:
            LOG.warning(
                "MLflow at %s did not store this run (%s: %s); the report is saved in %s",
                self.tracking_uri,
                type(error).__name__,
                str(error).splitlines()[0] if str(error) else "",
                folder,
            )

    def connect(self) -> tuple["MlflowClient", str]:
        """A client and the experiment's id. A new local store is made whole or not at all."""
        from mlflow import MlflowClient

        if not self.tracking_uri.startswith(SQLITE):
            client = MlflowClient(self.tracking_uri)
            return client, _experiment_id(client, self.experiment, None)
        database = Path(self.tracking_uri.removeprefix(SQLITE))
        with _store_lock(database):
            if not database.exists():
                _create_store(database)
            client = MlflowClient(self.tracking_uri)
            return client, _experiment_id(client, self.experiment, database.parent / "mlartifacts")

    def reopen(self) -> tuple["MlflowClient", str]:
        """A client and the experiment's id of an existing store. A job that only reads makes no new store."""
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        where = f"tracking.uri={self.tracking_uri}"
        if self.tracking_uri.startswith(SQLITE) and not Path(self.tracking_uri.removeprefix(SQLITE)).exists():
            raise ConfigError(f"{where} has no runs yet: score an estimator first, or choose another outputs_dir")
        try:
            client = MlflowClient(self.tracking_uri)
            found = client.get_experiment_by_name(self.experiment)
            names = ", ".join(experiment.name for experiment in client.search_experiments())
        except (MlflowException, SQLAlchemyError) as error:
            raise WhestError(f"{where} can't be read ({str(error).splitlines()[0]}): check the address") from None
        if found is None or found.lifecycle_stage == "deleted":
            raise ConfigError(
                f"tracking.experiment={self.experiment} is not in {self.tracking_uri}: choose one of {names}"
            )
        return client, str(found.experiment_id)


@contextmanager
def _store_lock(database: Path) -> Iterator[None]:
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(database.with_suffix(".lock"), timeout=120):
        yield


def _create_store(database: Path) -> None:
    """Make the database in a draft file, then move it into place: neither a race nor a kill leaves half of one."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    quiet = [logging.getLogger(name) for name in ("alembic.runtime.migration", "mlflow.store.db.utils")]
    for logger in quiet:
        logger.setLevel(logging.WARNING)
    draft = database.with_suffix(".draft.db")
    draft.unlink(missing_ok=True)
    store = SqlAlchemyStore(f"{SQLITE}{draft}", str(database.parent / "mlartifacts"))
    store.engine.dispose()
    draft.replace(database)


def _experiment_id(client: "MlflowClient", name: str, artifacts: Path | None) -> str:
    found = client.get_experiment_by_name(name)
    if found is not None and found.lifecycle_stage == "deleted":
        raise WhestError(f"tracking.experiment={name} was deleted in MLflow: restore it, or choose another name")
    if found is not None:
        return str(found.experiment_id)
    return str(client.create_experiment(name, artifact_location=artifacts.as_uri() if artifacts else None))


def log_report(client: "MlflowClient", experiment_id: str, report: AnyReport, folder: Path) -> str:
    """Make the MLflow run, log everything and close it. Returns its id."""
    from mlflow.entities import RunTag

    started, finished = milliseconds(report.meta.run_started_at_utc), milliseconds(report.meta.run_finished_at_utc)
    written = (folder / REPORT).read_bytes()
    sha256 = hashlib.sha256(written).hexdigest()
    tags = _tags(report, folder) | {REPORT_SHA256: sha256}
    run = client.create_run(experiment_id, start_time=started, tags=tags, run_name=_run_name(report))
    status = "FAILED"
    try:
        params = flatten(report.config) | {REPORT_SHA256: sha256}  # a param of MLflow can't be changed later
        _log_figures(client, run.info.run_id, report_metrics(json.loads(written)), params, report, finished)
        _log_dataset(client, run.info.run_id, report)
        table = f"per_{report.score.by_case.unit.lower()}.json"
        _log_table(client, run.info.run_id, _case_table(report), table)
        if (folder / "figures").exists():
            client.log_artifacts(run.info.run_id, str(folder / "figures"), "figures")
        for name in (REPORT, PAGE, "config.yaml", *report.view.files):
            if (folder / name).exists():
                client.log_artifact(run.info.run_id, str(folder / name))
        last = {TABLES: json.dumps([{"path": table, "type": "table"}])}
        last["mlflow.note.content"] = run_note(experiment_id, run.info.run_id, report)
        client.log_batch(run.info.run_id, tags=[RunTag(name, text) for name, text in last.items()])
        status = {"finished": "FINISHED", "interrupted": "KILLED"}[report.meta.status]
        if report.has_errors and status == "FINISHED":
            status = "FAILED"
    finally:
        client.set_terminated(run.info.run_id, status, end_time=finished)
    return str(run.info.run_id)


def _log_table(client: "MlflowClient", run_id: str, table: Mapping[str, list[Any]], name: str) -> None:
    """What `client.log_table` writes, which makes a pandas frame and asks the store three times. The tag comes last."""
    rows = [list(row) for row in zip(*table.values(), strict=True)]
    client.log_text(run_id, json.dumps({"columns": list(table), "data": rows}), name)


def run_note(experiment_id: str, run_id: str, report: AnyReport) -> str:
    """A run's description in Markdown: its score and a link to its page, relative so that it works on any server."""
    score = plus_minus(report.score.score, report.score.score_se)
    return f"**{score}** · [open this run's page](#/experiments/{experiment_id}/runs/{run_id}/artifacts/{PAGE})"


def _log_figures(
    client: "MlflowClient",
    run_id: str,
    suite: Mapping[str, float],
    config: Mapping[str, Any],
    report: AnyReport,
    timestamp: int,
) -> None:
    from mlflow.entities import Metric, Param

    metrics = [Metric(name, value, timestamp, 0) for name, value in suite.items()]
    for name, values in report.series().items():
        metrics += [Metric(name, value, timestamp, step) for step, value in enumerate(values, start=1)]
    params = [Param(name, str(value)[:6000]) for name, value in config.items()]
    for first in range(0, max(len(metrics), len(params)), 100):
        client.log_batch(run_id, metrics[first : first + 100], params[first : first + 100])


def _tags(report: AnyReport, folder: Path) -> dict[str, str]:
    tags = {
        "estimator": report.config["estimator"]["name"],
        "round": report.config["round"],
        "participant": report.config["participant"],
        "scoring": report.config["scoring"]["name"],
        "protocol_hash": report.meta.protocol_hash,
        "protection": report.config.get("isolation", {}).get("status", "unprotected"),
        "code_version": report.meta.code_version or report.meta.whest_version,
        "run_folder": str(folder),
        "command": report.meta.command,
        "mlflow.source.name": report.meta.command,
        **report.tags(),
    }
    parent, parent_id = folder.parent / PARENT_FILE, os.environ.get(PARENT_VARIABLE)
    if parent_id or parent.exists():
        tags |= {"mlflow.parentRunId": parent_id or parent.read_text().strip(), SWEEP_JOB: folder.name}
    return tags


def _run_name(report: AnyReport) -> str:
    return f"{report.config['estimator']['name']} {report.config['round']} B={report.limits.budget:.3g}"


def _log_dataset(client: "MlflowClient", run_id: str, report: AnyReport) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    dataset = report.config["dataset"]
    entity = Dataset(
        name=dataset["name"],
        digest=dataset["sha256"][:32],
        source_type="local" if dataset.get("path") else "seeds",
        source=json.dumps({key: dataset.get(key) for key in ("path", "seed", "seed_protocol", "split")}),
        profile=json.dumps({key: value for key, value in dataset.items() if key.startswith("n_")}),
    )
    client.log_inputs(run_id, [DatasetInput(entity, [InputTag("mlflow.data.context", "evaluation")])])


def _case_table(report: AnyReport) -> dict[str, list[Any]]:
    rows = report.view.case_figures(report)
    return {column: [row[column] for row in rows] for column in (rows[0] if rows else {"case": None})}
