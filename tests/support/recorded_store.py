"""A real MLflow store with real runs. Each is scored once and logged as often as a test needs it."""

import atexit
import json
import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from whest.api import score
from whest.config.compose import compose
from whest.report import Report, save_report
from whest.tracking.recorded import RecordedRun, find_runs
from whest.tracking.runs import MlflowTracking

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
TINY = ("debug=tiny", "truth=plain", "truth.n_samples=2000")
"""Two fresh MLPs of 16x3."""


class Store:
    """Runs of two fresh MLPs of 16x3. A config is scored once; each `add` logs its report under a name and a date."""

    def __init__(self, outputs: Path) -> None:
        self.outputs, self.n_runs = outputs, 0

    @property
    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(f"sqlite:///{self.outputs / 'mlflow.db'}")

    def scored(self, estimator: str, *overrides: str) -> Path:
        """The folder of a run that was carried out, untracked."""
        return self._scored(estimator, *overrides)[0]

    @classmethod
    @cache
    def _scored(cls, *choice: str) -> tuple[Path, Report]:
        outputs = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, outputs, ignore_errors=True)
        config = compose(*TINY, f"estimator={choice[0]}", *choice[1:], f"outputs_dir={outputs}")
        folder = outputs / "run"
        folder.mkdir()
        return folder, score(config, folder)

    def add(self, estimator: str, *overrides: str, participant: str = "", hours: float = 0.0, **config: Any) -> str:
        """Log that run for `participant`, finished `hours` after noon. Returns its MLflow id."""
        _, report = self._scored(estimator, *overrides)
        finished = NOON + timedelta(hours=hours)
        meta = replace(report.meta, run_started_at_utc=finished - timedelta(seconds=3), run_finished_at_utc=finished)
        noted = {**report.config, "participant": participant or estimator, **config}
        self.n_runs += 1
        folder = self.outputs / "runs" / str(self.n_runs)
        folder.mkdir(parents=True)
        (folder / "figures").mkdir()
        report = replace(report, meta=meta, config=noted)
        save_report(report, folder)
        client, experiment_id = MlflowTracking(None, "whest", self.outputs).connect()
        known = {run.info.run_id for run in client.search_runs([experiment_id])}
        MlflowTracking(None, "whest", self.outputs).log(report, folder)
        (new,) = {run.info.run_id for run in client.search_runs([experiment_id])} - known
        return new

    def runs(self) -> list[RecordedRun]:
        client = self.client
        return find_runs(client, [experiment.experiment_id for experiment in client.search_experiments()])

    def artifact(self, run_id: str) -> Path:
        return Path(self.client.get_run(run_id).info.artifact_uri.removeprefix("file://")) / "report.json"

    def edit(self, run_id: str, **results: Any) -> None:
        """Change figures of the suite in the artifact."""
        document = json.loads(self.artifact(run_id).read_text())
        document["results"].update(results)
        self.artifact(run_id).write_text(json.dumps(document))
