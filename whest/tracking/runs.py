"""Tracking: log a report as one MLflow run.

All files are on disk before MLflow is called. So if the store or server fails, the run is not logged, but the result is
not lost.
"""

import json
import logging
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock

from whest.document import CHANGES, PAGE, PROVENANCE, REPORT, SOURCE, Json, case_score, milliseconds, report_metrics
from whest.errors import ConfigError, WhestError
from whest.notation import printable
from whest.report import AnyReport, ReportView
from whest.tracking.content import PARENT_FILE as PARENT_FILE
from whest.tracking.content import PARENT_VARIABLE as PARENT_VARIABLE
from whest.tracking.content import (
    SOURCE_TYPE,
    case_table,
    detail_metrics,
    run_params,
    run_status,
    run_tags,
    sha256_of,
    source_facts,
    sweep_tags,
)
from whest.tracking.content import SWEEP_JOB as SWEEP_JOB
from whest.tracking.live import OWNER, STALE_EVERY_S, Live, LiveRun, NotLive, end_stale, owner
from whest.tracking.naming import NOTE, describe_run, note, run_name
from whest.tracking.server import silence

if TYPE_CHECKING:
    from mlflow import MlflowClient as MlflowClient

LOG = logging.getLogger(__name__)
TABLES = "mlflow.loggedArtifacts"
"""MLflow's tag with the names of a run's tables."""
SQLITE = "sqlite:///"
MOST_METRICS, MOST_PARAMS = 800, 100
"""Metrics and params per call. MLflow takes 100 params, and 1000 entries in all."""


class Tracking(Protocol):
    def probe(self) -> None:
        """Warn before the run if it could not be stored."""
        ...

    def follow(self, name: str, folder: Path, started: datetime) -> Live:
        """The record of a run that starts now; without tracking.live it is made at the end."""
        ...

    def log(self, report: AnyReport, folder: Path, run_id: str | None = None) -> None:
        """Log a run that has ended, into the record that `follow` began, if it did."""
        ...


@dataclass(frozen=True)
class NoTracking:
    """`tracking=none`."""

    outputs: Path

    def probe(self) -> None:
        return None

    def follow(self, name: str, folder: Path, started: datetime) -> Live:
        return NotLive()

    def log(self, report: AnyReport, folder: Path, run_id: str | None = None) -> None:
        return None


@dataclass(frozen=True)
class MlflowTracking:
    """`tracking=mlflow`: SQLite under the outputs folder, or any tracking URI."""

    uri: str | None
    experiment: str
    outputs: Path
    live: bool = False

    @property
    def tracking_uri(self) -> str:
        return self.uri or f"{SQLITE}{self.outputs / 'mlflow.db'}"

    def probe(self) -> None:
        reason = silence(self.tracking_uri)
        if reason is not None:
            LOG.warning("MLflow at %s %s. The run goes on; job=log can store it later", self.tracking_uri, reason)

    def _later(self, folder: Path) -> str:
        store = f"tracking.uri={self.uri}" if self.uri else f"outputs_dir={self.outputs}"
        words = [f"path={folder}", store, f"tracking.experiment={self.experiment}"]
        return f"Log it later: python -m whest job=log {shlex.join(words)}"

    def follow(self, name: str, folder: Path, started: datetime) -> Live:
        if not self.live:
            return NotLive()
        try:
            client, experiment_id = self.connect()
            end_stale(client, experiment_id)
            tags = {OWNER: owner(), "estimator": name, "run_folder": str(folder), **sweep_tags(folder)}
            run = client.create_run(experiment_id, milliseconds(started), tags, f"{name}, running")
        except Exception as error:
            LOG.warning("MLflow at %s has no live record of this run (%s)", self.tracking_uri, type(error).__name__)
            return NotLive()
        return LiveRun(client, str(run.info.run_id))

    def log(self, report: AnyReport, folder: Path, run_id: str | None = None) -> None:
        try:
            client, experiment_id = self.connect()
            log_report(client, experiment_id, report, folder, run_id)
            end_stale(client, experiment_id, STALE_EVERY_S)
        except Exception as error:
            LOG.warning(
                "MLflow at %s did not store this run (%s: %s); the report is saved in %s. %s",
                self.tracking_uri,
                type(error).__name__,
                str(error).splitlines()[0] if str(error) else "",
                folder,
                self._later(folder),
            )

    def connect(self) -> tuple["MlflowClient", str]:
        """A client and the experiment's id. A new local store is made whole or not at all."""
        from mlflow import MlflowClient

        if not self.tracking_uri.startswith(SQLITE):
            self._require_answer()
            client = MlflowClient(self.tracking_uri)
            return client, _experiment_id(client, self.experiment, None)
        database = Path(self.tracking_uri.removeprefix(SQLITE))
        with _store_lock(database):
            if not database.exists():
                _create_store(database)
            client = MlflowClient(self.tracking_uri)
            return client, _experiment_id(client, self.experiment, database.parent / "mlartifacts")

    def _require_answer(self) -> None:
        """MLflow itself would try for minutes."""
        reason = silence(self.tracking_uri)
        if reason is not None:
            raise WhestError(f"tracking.uri={self.tracking_uri} {reason}: start the server, or check the address")

    def reopen(self) -> tuple["MlflowClient", str]:
        """A client and the experiment's id of an existing store. A job that only reads makes no new store."""
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        where = f"tracking.uri={self.tracking_uri}"
        if self.tracking_uri.startswith(SQLITE) and not Path(self.tracking_uri.removeprefix(SQLITE)).exists():
            raise ConfigError(f"{where} has no runs yet: score an estimator first, or choose another outputs_dir")
        self._require_answer()
        try:
            client = MlflowClient(self.tracking_uri)
            found = client.get_experiment_by_name(self.experiment)
            names = ", ".join(printable(experiment.name) for experiment in client.search_experiments())
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


def log_report(
    client: "MlflowClient", experiment_id: str, report: AnyReport, folder: Path, run_id: str | None = None
) -> str:
    """Log a run that has just ended."""
    return log_run(client, experiment_id, report.to_json(), report.view, folder, run_id)


def log_run(
    client: "MlflowClient",
    experiment_id: str,
    document: Json,
    view: "ReportView[Any]",
    folder: Path,
    run_id: str | None = None,
) -> str:
    """Make the MLflow run of a folder with a report.json, log everything and close it. Returns its id.

    `run_id` is the live record, if there is one.
    """
    from mlflow.entities import RunTag

    meta = document["run_meta"]
    started, finished = (
        milliseconds(datetime.fromisoformat(meta[f"run_{name}_at_utc"])) for name in ("started", "finished")
    )
    sha256 = sha256_of((folder / REPORT).read_bytes())
    tags = run_tags(document, folder, sha256)
    name, status = run_name(document, folder), "FAILED"
    if run_id is None:
        run_id = str(client.create_run(experiment_id, started, tags, name).info.run_id)
    else:
        client.log_batch(run_id, tags=[RunTag(key, text) for key, text in tags.items()])
        client.update_run(run_id, name=name)
    try:
        _log_dataset(client, run_id, document["run_config"])
        unit = case_score(document["results"])["unit"].lower()
        table = f"per_{unit}.json"
        kept = (REPORT, PAGE, "config.yaml", *view.files, PROVENANCE, CHANGES, "figures", SOURCE)
        _log_files(client, run_id, folder, kept, {table: table_json(case_table(view.case_figures(document)))})
        page = PAGE if (folder / PAGE).exists() else None
        last = {
            TABLES: json.dumps([{"path": table, "type": "table"}]),
            NOTE: note(describe_run(document), experiment_id, run_id, page),
        }
        metrics = report_metrics(document) | detail_metrics(document)
        _log_figures(client, run_id, metrics, view.series(document), run_params(document, sha256), last, finished)
        status = run_status(document)
    finally:
        client.set_terminated(run_id, status, end_time=finished)
    return run_id


def _log_files(
    client: "MlflowClient", run_id: str, folder: Path, names: Sequence[str], texts: Mapping[str, str]
) -> None:
    """Store files, folders of files and texts in one call: MLflow takes a folder, so here is one of links to them."""
    with tempfile.TemporaryDirectory(prefix="whest-") as place:
        staged = Path(place)
        for name, text in texts.items():
            (staged / name).write_text(text, encoding="utf-8")
        for path in (folder / name for name in names):
            for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
                if file.is_file():
                    link = staged / file.relative_to(folder)
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(file.absolute())
        client.log_artifacts(run_id, place)


def table_json(table: Mapping[str, list[Any]]) -> str:
    """What `client.log_table` writes, which makes a pandas frame and asks the store three times. The tag comes last."""
    return json.dumps({"columns": list(table), "data": [list(row) for row in zip(*table.values(), strict=True)]})


def _log_figures(
    client: "MlflowClient",
    run_id: str,
    suite: Mapping[str, float],
    series: Mapping[str, Sequence[float]],
    config: Mapping[str, Any],
    tags: Mapping[str, str],
    timestamp: int,
) -> None:
    """Metrics, params and the last tags, in one call if they are few: a call costs ten statements of SQL."""
    from mlflow.entities import Metric, Param, RunTag

    metrics = [Metric(name, value, timestamp, 0) for name, value in suite.items()]
    for name, values in series.items():
        metrics += [Metric(name, value, timestamp, step) for step, value in enumerate(values, start=1)]
    params = [Param(name, str(value)[:6000]) for name, value in config.items()]
    batches = max(-(-len(metrics) // MOST_METRICS), -(-len(params) // MOST_PARAMS), 1)
    for number in range(batches):
        own = [RunTag(name, text) for name, text in tags.items()] if number == batches - 1 else []
        figures = metrics[number * MOST_METRICS : (number + 1) * MOST_METRICS]
        client.log_batch(run_id, figures, params[number * MOST_PARAMS : (number + 1) * MOST_PARAMS], own)


def _log_dataset(client: "MlflowClient", run_id: str, config: Json) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    dataset = config["dataset"]
    entity = Dataset(
        name=dataset["name"],
        digest=dataset["sha256"][:32],
        source_type=SOURCE_TYPE,
        source=source_facts(config),
        profile=json.dumps({key: value for key, value in dataset.items() if key.startswith("n_")}),
    )
    given = [DatasetInput(entity, [InputTag("mlflow.data.context", "evaluation")])]
    try:
        client.log_inputs(run_id, given)
    except MlflowException:  # MLflow looks and then inserts, so two jobs may both insert a new dataset: now it is there
        client.log_inputs(run_id, given)
