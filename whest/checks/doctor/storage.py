"""Where things are kept: room on the disk, folders that can be written, caches, MLflow's store."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np

from whest.checks.finding import Finding
from whest.config.settings import CACHES
from whest.errors import WhestError
from whest.tracking.runs import SQLITE, MlflowTracking, Tracking

LEAST_FREE, LITTLE_FREE = 200e6, 2e9
"""Bytes: below the first a run can fail as it writes, below the second it won't last."""

LARGE_CACHE = 20e9


def check_disk(outputs: Path) -> Finding:
    place = next(folder for folder in (outputs, *outputs.parents) if folder.exists())
    return judge_disk(shutil.disk_usage(place).free, outputs)


def judge_disk(free: float, outputs: Path) -> Finding:
    told = f"{free / 1e9:.1f} GB free for {outputs}"
    remedy = "make room (python -m whest job=clean empties the caches), or choose another outputs_dir"
    if free < LEAST_FREE:
        return Finding("disk", "fail", told, remedy)
    return Finding("disk", "warn", told, remedy) if free < LITTLE_FREE else Finding("disk", "ok", told)


def check_writable(folder: Path, name: str) -> Finding:
    """Write a file where a run would; what had to be made for it is taken back."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"whest")
    except OSError as error:
        remedy = f"chmod u+w {folder}, or choose another outputs_dir"
        return Finding(name, "fail", f"{folder} can't be written ({error.strerror})", remedy)
    finally:
        for place in made:
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()
    return Finding(name, "ok", f"{folder} can be written")


def check_caches(outputs: Path) -> list[Finding]:
    findings = []
    for name, meaning in CACHES.items():
        folder = outputs / "cache" / name
        writable = check_writable(folder, f"cache of {meaning}")
        if writable.status != "ok":
            findings.append(writable)
            continue
        files = [path for path in folder.rglob("*") if path.is_file()]
        findings.append(_judge_cache(writable.name, files, name == "truth"))
    return findings


def _judge_cache(name: str, files: list[Path], holds_truth: bool) -> Finding:
    size = sum(path.stat().st_size for path in files)
    told = f"{size / 1e6:.1f} MB in {len(files)} files"
    bad = [path.name for path in files if holds_truth and path.suffix == ".npz" and not _is_readable(path)]
    remedy = "python -m whest job=clean empties it; what is needed is made again"
    if bad:
        return Finding(name, "warn", f"{told}, {len(bad)} of them damaged ({bad[0]}): they will be drawn again", remedy)
    return Finding(name, "warn", f"{told}, which is a lot", remedy) if size > LARGE_CACHE else Finding(name, "ok", told)


def _is_readable(path: Path) -> bool:
    """Whether an entry can be opened; whether its digest is right is looked at when it is used."""
    try:
        with np.load(path, allow_pickle=False) as entry:
            return bool(entry.files)
    except Exception:
        return False


def check_store(tracking: Tracking) -> Finding:
    """Open the store as a run would, and count what it holds; a store that isn't there yet is no fault."""
    if not isinstance(tracking, MlflowTracking):
        return Finding("MLflow store", "ok", "tracking=none keeps no runs")
    uri = tracking.tracking_uri
    database = Path(uri.removeprefix(SQLITE))
    if uri.startswith(SQLITE):
        if not database.exists():
            return Finding("MLflow store", "ok", f"{database} isn't there yet: the first run makes it")
        trouble = _sqlite_trouble(database)
        if trouble is not None:
            return Finding("MLflow store", "fail", f"{database}: {trouble}", _remedy(database))
    try:
        client, experiment_id = tracking.reopen()
        runs = client.search_runs([experiment_id], max_results=10_000)
    except WhestError as error:
        return Finding("MLflow store", "fail", str(error), _remedy(database))
    except Exception as error:
        return Finding("MLflow store", "fail", f"{uri}: {type(error).__name__}: {error}"[:300], _remedy(database))
    return Finding("MLflow store", "ok", f"{uri} holds {len(runs)} runs of {tracking.experiment}")


def _sqlite_trouble(database: Path) -> str | None:
    """What SQLite itself says of the file, before MLflow would migrate it."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
            (said,) = store.execute("pragma quick_check").fetchone()
            store.execute("select count(*) from runs").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None if said == "ok" else str(said)


def _remedy(database: Path) -> str:
    return (
        f"move {database} away and run again: a new one is made. Reports are files of their own and stay; "
        "for a server see whether tracking.uri is right"
    )
