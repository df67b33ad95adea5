"""Resuming a sweep: a finished job has a file with the hash of its inputs. The same inputs are not run again."""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from whest.document import Json
from whest.files import LARGEST_SOURCE, SWEEP_STATE, read_bounded
from whest.host import ESTIMATORS, PACKAGE

if TYPE_CHECKING:
    from whest.experiment import AnyExperiment
    from whest.report import AnyReport

POINT_FILE = "point.json"
PROBLEM_FILE = "problem.txt"
"""In the folder of a sweep's job that failed before its report: the reason."""
SWEEP_FILE = SWEEP_STATE
"""In the sweep's folder, beside the folders of its jobs."""


def point_hash(experiment: "AnyExperiment") -> str:
    """Hash the rules, the data, the estimator with its knobs, and all the code; not the host or the output folders."""
    from whest.experiment import protocol_of

    task, spec = experiment.task, experiment.task.estimator
    source = spec.source.parent if spec.source and not spec.is_bundled else None
    determined_by = {
        "protocol": protocol_of(experiment),
        "estimator": [spec.name, spec.mode, spec.target, spec.path and str(spec.path), dict(spec.knobs)],
        "source": spec.source_sha256,
        **task.determinants(),
        "notes": dict(experiment.notes),
        "code": [code_hash(PACKAGE), code_hash(ESTIMATORS)],
        "beside the estimator": hash_files(source.glob("*.py")) if source else None,
    }
    return hashlib.sha256(json.dumps(determined_by, sort_keys=True, default=str).encode()).hexdigest()


@cache
def code_hash(folder: Path) -> str:
    """The hash of all Python files of a package."""
    return hash_files(folder.rglob("*.py"))


def hash_files(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):  # a pipe that is called a.py would be waited for
        digest.update(f"{path.name}\0".encode() + read_bounded(path, LARGEST_SOURCE) + b"\0")
    return digest.hexdigest()


def finished_score(folder: Path, point: str) -> float | None:
    """The score of this point, if the folder has its finished job; None if the job must be run."""
    try:
        kept = json.loads((folder / POINT_FILE).read_text())
        report = (folder / "report.json").read_bytes()
    except (OSError, ValueError):
        return None
    same = kept["point"] == point and kept["report_sha256"] == hashlib.sha256(report).hexdigest()
    return float(kept["score"]) if same else None


def keep_problem(folder: Path, error: Exception) -> None:
    """Write down why a job ended without a report, for the sweep's table."""
    from whest.errors import WhestError
    from whest.files import write_atomically

    if not (folder / "report.json").exists():
        reason = str(error) if isinstance(error, WhestError) else f"{type(error).__name__}: {error}"
        write_atomically(folder / PROBLEM_FILE, reason.encode())


def forget_problem(folder: Path) -> None:
    """A job that is run again starts without the reason of the last time."""
    (folder / PROBLEM_FILE).unlink(missing_ok=True)


def is_sweeps_job(folder: Path) -> bool:
    return (folder.parent / SWEEP_FILE).exists()


def keep_point(folder: Path, point: str, report: "AnyReport", row: Json | None = None) -> None:
    """Mark the job as finished. This is written last, after the report and the MLflow run.

    `row` is the job's row of the sweep's table. Who makes the table then need not read the report.
    """
    from whest.files import write_atomically

    sha256 = hashlib.sha256((folder / "report.json").read_bytes()).hexdigest()
    kept = {"point": point, "report_sha256": sha256, "score": report.score.score, "row": row}
    write_atomically(folder / POINT_FILE, json.dumps(kept, indent=2).encode())


def kept_row(folder: Path) -> Json | None:
    """The row of a finished job, if its report is still the one that the row was made of."""
    try:
        kept = json.loads((folder / POINT_FILE).read_text())
        report = (folder / "report.json").read_bytes()
        is_same = kept["report_sha256"] == hashlib.sha256(report).hexdigest()
        return dict(kept["row"]) if is_same and kept["row"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
