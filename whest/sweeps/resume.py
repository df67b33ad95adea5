"""A sweep's points: a job that was finished is known by the hash of what determines it, and is not run again."""

import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from whest.host import PACKAGE

if TYPE_CHECKING:
    from whest.experiment import AnyExperiment
    from whest.report import AnyReport

POINT_FILE = "point.json"

SWEEP_FILE = "sweep_state.json"
"""In a sweep's folder, above its jobs."""


def point_hash(experiment: "AnyExperiment") -> str:
    """The rules, the data, the estimator with its knobs, and the code of them all; not the host, nor where files go."""
    from whest.experiment import protocol_of

    task, spec = experiment.task, experiment.task.estimator
    source = spec.source.parent if spec.source and not spec.is_bundled else None
    determined_by = {
        "protocol": protocol_of(experiment),
        "estimator": [spec.name, spec.mode, spec.target, spec.path and str(spec.path), dict(spec.knobs)],
        "source": spec.source_sha256,
        **task.determinants(),
        "notes": dict(experiment.notes),
        "code": [code_hash(PACKAGE), code_hash(PACKAGE.parent / "estimators")],
        "beside the estimator": hash_files(source.glob("*.py")) if source else None,
    }
    return hashlib.sha256(json.dumps(determined_by, sort_keys=True, default=str).encode()).hexdigest()


@cache
def code_hash(folder: Path) -> str:
    """A package's Python files, all of them."""
    return hash_files(folder.rglob("*.py"))


def hash_files(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def finished_score(folder: Path, point: str) -> float | None:
    """The score of this very point, where a sweep that was stopped had finished it; null where it must be run."""
    try:
        kept = json.loads((folder / POINT_FILE).read_text())
        report = (folder / "report.json").read_bytes()
    except (OSError, ValueError):
        return None
    same = kept["point"] == point and kept["report_sha256"] == hashlib.sha256(report).hexdigest()
    return float(kept["score"]) if same else None


def is_sweeps_job(folder: Path) -> bool:
    return (folder.parent / SWEEP_FILE).exists()


def keep_point(folder: Path, point: str, report: "AnyReport") -> None:
    """Written last, when the report is on disk and MLflow has heard of it: what carries this file is finished."""
    from whest.files import write_atomically

    sha256 = hashlib.sha256((folder / "report.json").read_bytes()).hexdigest()
    kept = {"point": point, "report_sha256": sha256, "score": report.score.score}
    write_atomically(folder / POINT_FILE, json.dumps(kept, indent=2).encode())
