"""`job=log`: store a run in MLflow from its folder, for example one whose server did not answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.build import build_group
from whest.config.settings import read_settings
from whest.display.console import say
from whest.document import REPORT, REPORT_SHA256
from whest.errors import ConfigError
from whest.tasks.task import view_of
from whest.tracking.content import sha256_of
from whest.tracking.recorded import read_report
from whest.tracking.runs import MlflowTracking, log_run


def log(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: name a run's folder, job=log path=RUN_DIR")
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    if not isinstance(tracking, MlflowTracking):
        raise ConfigError("tracking=none stores nothing: use job=log with tracking=mlflow")
    if not settings.path.exists():
        raise ConfigError(f"path={settings.path} is no file or folder: name a run's folder, job=runs lists them")
    place = settings.path.absolute().parent if settings.path.is_file() else settings.path.absolute()
    run_id, is_new = log_folder(tracking, place)
    say(f"{'logged as run' if is_new else 'known already, as run'} {run_id} in {tracking.tracking_uri}")


def log_folder(tracking: MlflowTracking, folder: Path) -> tuple[str, bool]:
    """The MLflow run of a run's folder, and whether it is new: the same report is stored once."""
    document = read_report(folder).report
    client, experiment_id = tracking.connect()
    sha256 = sha256_of((folder / REPORT).read_bytes())
    known = client.search_runs([experiment_id], f"tags.{REPORT_SHA256} = '{sha256}'", max_results=1)
    if known:
        return str(known[0].info.run_id), False
    return log_run(client, experiment_id, document, view_of(document), folder), True
