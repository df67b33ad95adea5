"""Checks of the storage: free disk space, writable folders, caches, MLflow's store."""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from whest.checks.finding import Finding
from whest.config.settings import CACHES
from whest.errors import WhestError
from whest.tracking.runs import SQLITE, MlflowTracking, Tracking
from whest.truth.cache import read_entry

LEAST_FREE, LITTLE_FREE = 200e6, 2e9
"""In bytes. Below the first, a run can fail while it writes; below the second, the space will soon be used up."""
LARGE_CACHE = 20e9


def check_disk(outputs: Path) -> Finding:
    place = next(folder for folder in (outputs, *outputs.parents) if folder.exists())
    return judge_disk(shutil.disk_usage(place).free, outputs)


def judge_disk(free: float, outputs: Path) -> Finding:
    detail = f"{free / 1e9:.1f} GB free for {outputs}"
    remedy = "free some space (python -m whest job=clean empties the caches), or choose another outputs_dir"
    if free < LEAST_FREE:
        return Finding("disk", "fail", detail, remedy)
    return Finding("disk", "warn", detail, remedy) if free < LITTLE_FREE else Finding("disk", "ok", detail)


def check_writable(folder: Path, name: str) -> Finding:
    """Write a file in the folder, as a run would. New folders are removed again."""
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
    detail = f"{size / 1e6:.1f} MB in {len(files)} files"
    bad = [path.name for path in files if holds_truth and path.suffix == ".npz" and read_entry(path) is None]
    remedy = "python -m whest job=clean empties it; whest makes the files again when it needs them"
    if bad:
        damaged = f"{detail}, {len(bad)} of them damaged ({bad[0]}): they will be drawn again"
        return Finding(name, "warn", damaged, remedy)
    return (
        Finding(name, "warn", f"{detail}, which is much", remedy) if size > LARGE_CACHE else Finding(name, "ok", detail)
    )


def check_store(tracking: Tracking) -> Finding:
    """Open the store as a run would, and count its runs. A store that does not exist yet is fine."""
    if not isinstance(tracking, MlflowTracking):
        return Finding("MLflow store", "ok", "not used (tracking=none)")
    uri = tracking.tracking_uri
    database = Path(uri.removeprefix(SQLITE))
    if uri.startswith(SQLITE):
        if not database.exists():
            return Finding("MLflow store", "ok", f"{database} does not exist yet: the first run makes it")
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
    """SQLite's own check of the file, before MLflow opens and migrates it."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
            (said,) = store.execute("pragma quick_check").fetchone()
            store.execute("select count(*) from runs").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None if said == "ok" else str(said)


def _remedy(database: Path) -> str:
    return (
        f"move {database} away and run again, to make a new one; the reports are separate files and stay. "
        "For a server, check tracking.uri"
    )
