"""Parent runs: one MLflow run for a sweep or a comparison, above the runs that belong to it."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whest.tracking.naming import NOTE, SCORE, note
from whest.tracking.runs import PARENT_FILE, MlflowTracking

LOG = logging.getLogger(__name__)
KIND = "whest.kind"
"""The tag that only parent runs have."""
MOST_METRICS = 500
"""Metrics per request."""
Measured = tuple[str, float, int]
"""A metric's name, its value and its step."""


def open_parent(tracking: MlflowTracking, kind: str, name: str, tags: Mapping[str, str]) -> str:
    """Create a parent run and return its id."""
    client, experiment_id = tracking.connect()
    run = client.create_run(experiment_id, run_name=name, tags={KIND: kind, **tags})
    return str(run.info.run_id)


def reopen_parent(
    tracking: MlflowTracking, kind: str, folder: Path, name: str = "", tags: Mapping[str, str] | None = None
) -> str:
    """The parent run of this folder, if there is one, else a new one."""
    kept = folder / PARENT_FILE
    if kept.exists():
        run_id = kept.read_text().strip()
        try:
            client, _ = tracking.connect()
            client.update_run(run_id, status="RUNNING")
            return run_id
        except Exception as error:
            LOG.warning("run %s of the %s is no longer in MLflow (%s): a new run is made", run_id, kind, error)
    run_id = open_parent(tracking, kind, name or f"{kind} {folder.name}", tags or {})
    kept.write_text(run_id)
    return run_id


def close_parent(
    tracking: MlflowTracking,
    run_id: str,
    metrics: Sequence[Measured] = (),
    table: Mapping[str, Sequence[Any]] | None = None,
    table_name: str = "",
    files: Sequence[Path] = (),
    children: Sequence[Path] = (),
    status: str = "FINISHED",
    score: str = "",
    words: str = "",
) -> None:
    """Log a parent's figures and files, make the runs with the folders `children` its children, and end the run.

    `score` is the text of the column with the scores, `words` the description. The first page among the files is
    linked there.
    """
    from mlflow.entities import Metric, RunTag

    client, experiment_id = tracking.connect()
    now = int(time.time() * 1000)
    entries = [Metric(name, float(value), now, step) for name, value, step in metrics]
    for first in range(0, len(entries), MOST_METRICS):
        client.log_batch(run_id, entries[first : first + MOST_METRICS])
    if table is not None:
        client.log_table(run_id, dict(table), table_name)
    for path in files:
        client.log_artifact(run_id, str(path))
    page = next((path.name for path in files if path.suffix == ".html"), None)
    told = {SCORE: score, NOTE: note(words, experiment_id, run_id, page) if words else ""}
    client.log_batch(run_id, tags=[RunTag(name, text) for name, text in told.items() if text])
    for folder in children:
        for child in client.search_runs([experiment_id], f"tags.run_folder = '{folder}'"):
            client.set_tag(child.info.run_id, "mlflow.parentRunId", run_id)
    client.set_terminated(run_id, status)
