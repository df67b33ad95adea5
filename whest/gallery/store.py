"""Entries from an MLflow store, for runs whose folders are elsewhere: from tags, params and metrics alone."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from whest.document import PAGE
from whest.gallery.entry import LONGEST_NOTE, Entry, Kind, as_tags, clip, ledger, round_words
from whest.gallery.index import newest_first
from whest.tracking.local import is_persons
from whest.tracking.parents import KIND
from whest.tracking.recorded import list_runs
from whest.tracking.runs import MlflowTracking

PAGES = {"run": PAGE, "sweep": "sweep.html", "comparison": "comparison.html"}
STATUS = {"FINISHED": "finished", "KILLED": "interrupted", "FAILED": "failed"}


def store_entries(tracking: MlflowTracking) -> list[Entry]:
    """Every scored run, sweep and comparison of the experiment, the newest first."""
    client, experiment_id = tracking.reopen()
    runs = list_runs(client, experiment_id)
    return newest_first([_entry(run) for run in runs if run.data.tags.get(KIND, "run") in PAGES])


def _entry(run: Any) -> Entry:
    tags, params, metrics = run.data.tags, run.data.params, run.data.metrics
    kind: Kind = tags[KIND] if tags.get(KIND) in PAGES else "run"
    started = datetime.fromtimestamp((run.info.start_time or 0) / 1000, UTC)
    better = "higher" if tags.get("scoring") in ("fherma", "ari") else "lower"
    return Entry(
        path=f"mlflow/{run.info.run_id}",
        kind=kind,
        name=clip(tags.get("estimator") or run.info.run_name or run.info.run_id),
        started=started.isoformat(timespec="seconds"),
        round=round_words(clip(tags.get("round")), *(_whole(metrics, name) for name in ("width", "depth"))),
        dataset=clip(params.get("dataset.name")),
        rule=clip(tags.get("scoring")),
        protocol=clip(tags.get("protocol_hash") or tags.get("compared_protocol"), 40),
        budget=_figure(metrics, "flop_budget"),
        score=_figure(metrics, "score"),
        score_se=_figure(metrics, "score_se"),
        is_lower_better=better == "lower",
        n_cases=round(_figure(metrics, "n_mlps") or 0),
        unit="MLP",
        n_failed=round(_figure(metrics, "n_failed_mlps") or _figure(metrics, "n_failed_cases") or 0),
        status=STATUS.get(run.info.status, run.info.status.lower()),
        tags=as_tags({key: value for key, value in sorted(tags.items()) if is_persons(key)}),
        notes=clip("; ".join([*ledger(tags), *([tags["notes"]] if tags.get("notes") else [])]), LONGEST_NOTE),
        participant=clip(tags.get("participant")),
        words=clip(tags.get("verdict"), 300),
        page=_page(run.info.artifact_uri or "", PAGES[kind]),
        part_of=f"mlflow/{tags['mlflow.parentRunId']}" if "mlflow.parentRunId" in tags else "",
        run_id=run.info.run_id,
    )


def _page(artifacts: str, name: str) -> str:
    """The absolute path of the run's page, if its artifacts are files of this machine."""
    parts = urlsplit(artifacts)
    if parts.scheme not in ("", "file") or not parts.path:
        return ""
    page = Path(unquote(parts.path)) / name
    return str(page) if page.is_file() else ""


def _whole(metrics: Mapping[str, float], name: str) -> int | None:
    value = _figure(metrics, name)
    return None if value is None else int(value)


def _figure(metrics: Mapping[str, float], name: str) -> float | None:
    value = metrics.get(name)
    return value if value is not None and math.isfinite(value) else None
