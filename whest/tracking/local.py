"""The local MLflow store, read without MLflow: the ids, tags and notes of its runs, for a list of many runs.

MLflow takes seconds to import. Here a missing, damaged or unknown store is an empty one: it is never changed.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from whest.document import REPORT_SHA256
from whest.tracking.naming import OWN_TAGS
from whest.tracking.parents import KIND

NOTES = "notes"


@dataclass(frozen=True)
class LocalRun:
    """A run of the store."""

    run_id: str
    tags: tuple[str, ...] = ()
    """The tags that people gave it, as `key=value`."""
    notes: str = ""


@dataclass(frozen=True)
class LocalRuns:
    """The runs of the store, by the hash of their report and by the end of their folder's path."""

    outputs: Path
    by_sha256: Mapping[str, LocalRun] = field(default_factory=dict)
    by_folder: Mapping[str, LocalRun] = field(default_factory=dict)

    def find(self, sha256: str, path: str) -> LocalRun | None:
        """The run of a report, or else of a folder below outputs."""
        return self.by_sha256.get(sha256) or self.by_folder.get(str(self.outputs / path))


def read_local_runs(outputs: Path) -> LocalRuns:
    """The runs of `outputs/mlflow.db` that were not deleted."""
    database = outputs / "mlflow.db"
    if not database.is_file():
        return LocalRuns(outputs)
    query = (
        "select tags.run_uuid, tags.key, substr(tags.value, 1, 500) from tags join runs using (run_uuid) "
        "where runs.lifecycle_stage = 'active'"
    )
    tags: dict[str, dict[str, str]] = {}
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as store:
            for run_id, key, value in store.execute(query):
                tags.setdefault(str(run_id), {})[str(key)] = str(value)
    except sqlite3.Error:
        return LocalRuns(outputs)
    runs = {run_id: _run(run_id, own) for run_id, own in tags.items()}
    return LocalRuns(
        outputs,
        {own[REPORT_SHA256]: runs[run_id] for run_id, own in tags.items() if REPORT_SHA256 in own},
        {own["run_folder"]: runs[run_id] for run_id, own in tags.items() if "run_folder" in own},
    )


def _run(run_id: str, tags: Mapping[str, str]) -> LocalRun:
    own = [f"{key}={value}" if value else key for key, value in sorted(tags.items()) if is_persons(key)]
    return LocalRun(run_id, tuple(tag[:60] for tag in own[:12]), tags.get(NOTES, ""))


def is_persons(key: str) -> bool:
    """Whether a person gave this tag, and not whest or MLflow."""
    return key not in {*OWN_TAGS, KIND, NOTES} and not key.startswith(("mlflow.", "verdict/", "whest."))
