"""A sweep's table: one row per job, the best jobs of each protocol, the Pareto front of error and compute."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from omegaconf import OmegaConf

from whest.config.commands import words_of
from whest.document import REPORT, Json, case_key, case_rows, case_score, front_of, n_failed
from whest.notation import inert
from whest.scoring.paired import Paired
from whest.scoring.serial import SERIAL
from whest.sweeps.resume import PROBLEM_FILE, kept_row

T = TypeVar("T")
UNFINISHED = "left no report"
"""The problem of a job that is still running, or that was killed."""
COLUMNS = (
    "job",
    "overrides",
    "estimator",
    "label",
    "flop_budget",
    "score",
    "score_se",
    "measure",
    "error",
    "error_se",
    "compute",
    "sampling_mse_at_budget",
    "n_failed",
    "best",
    "on_front",
    "status",
    "problem",
)


@dataclass(frozen=True)
class SweepRow:
    """One job of a sweep. A job without a report has a status, a problem and no figures."""

    job: int
    overrides: str
    status: str
    estimator: str | None = None
    label: str | None = None
    """The estimator and all other varied words except the budget."""
    flop_budget: float | None = None
    score: float | None = None
    score_se: float | None = None
    measure: str | None = None
    """The name of the error's figure: final-layer MSE, bits per byte, wrong answers."""
    error: float | None = None
    error_se: float | None = None
    compute: float | None = None
    sampling_mse_at_budget: float | None = None
    n_failed: int | None = None
    best: str | None = None
    """best, or tied: the difference from the best of the same protocol is not resolved."""
    on_front: bool = False
    """True if no other job has a smaller error with as little compute."""
    problem: str | None = None
    dataset: str | None = None
    started_at: str | None = None
    protocol_hash: str | None = None
    multiplier_floor: float | None = None
    lower_is_better: bool = True
    scores: Mapping[str, float] = field(default_factory=dict)
    """The figure of each case, by the case's name. `case_is_lower_better` says its direction."""
    case_is_lower_better: bool = True
    is_serial: bool = False
    """Whether the cases are blocks of a stream, in its order."""


State = tuple[tuple[int, int, int], ...]
OVERRIDES = Path(".hydra", "overrides.yaml")
MOST_KNOWN = 10_000
_KNOWN: dict[Path, tuple[State, SweepRow]] = {}
"""The rows of finished jobs that this process has read: a running sweep's page is written many times."""


def read_sweep(folder: Path, elsewhere: Mapping[int, Json] | None = None) -> list[SweepRow]:
    """One row per job, in order. `elsewhere` has the reports of jobs whose folders are on other machines."""
    jobs = {int(path.name): path for path in folder.iterdir() if path.name.isdigit()}
    remote = elsewhere or {}
    rows = [_read_job(job, jobs.get(job), remote.get(job)) for job in sorted(jobs.keys() | remote.keys())]
    return mark_front(mark_best(label_rows(rows)))


def _read_job(job: int, folder: Path | None, elsewhere: Json | None) -> SweepRow:
    state = _state(folder) if folder else None
    if folder is None or state is None:
        return _read_anew(job, folder, elsewhere)
    known = _KNOWN.get(folder)
    if known is None or known[0] != state:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[folder] = state, _read_anew(job, folder, elsewhere)
    return known[1]


def remember(folder: Path, overrides: Sequence[str], report: Json) -> Json | None:
    """Keep the row of a job that this process has just finished: its report need not be read for the table.

    Returns the row as plain data, for the tables of other processes; None if the folder is no job's.
    """
    state = _state(folder)
    if state is None or not folder.name.isdigit():
        return None
    row = row_of(int(folder.name), " ".join(overrides), report)
    if len(_KNOWN) < MOST_KNOWN:
        _KNOWN[folder] = state, row
    return vars(row)


def _state(folder: Path) -> State | None:
    """What a finished job's files look like from outside; None if it has none."""
    try:
        found = [(folder / name).stat() for name in (REPORT, OVERRIDES)]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)


def _read_anew(job: int, folder: Path | None, elsewhere: Json | None) -> SweepRow:
    kept = kept_row(folder) if folder else None
    if kept is not None and kept.keys() == SweepRow.__dataclass_fields__.keys() and kept["job"] == job:
        return SweepRow(**kept)
    stored = folder / OVERRIDES if folder else None
    overrides = " ".join(OmegaConf.load(stored)) if stored and stored.exists() else ""
    try:
        report = json.loads((folder / REPORT).read_text()) if folder else elsewhere
    except (OSError, ValueError):
        report = elsewhere
    return row_of(job, overrides, report) if report else SweepRow(job, overrides, "failed", problem=_reason(folder))


def _reason(folder: Path | None) -> str:
    """Why a job has no report: on one line, as a table needs it."""
    kept = folder / PROBLEM_FILE if folder else None
    return " ".join(kept.read_text(encoding="utf-8").split()) if kept and kept.exists() else UNFINISHED


def row_of(job: int, overrides: str, report: Json) -> SweepRow:
    results, config = report["results"], report["run_config"]
    failed = next((row["error_code"] for row in case_rows(results) if row.get("error_code")), None)
    by_case, front = case_score(results), front_of(results)
    flags = [name.replace("_", " ") for name, n in results["failure_breakdown"].items() if n and name != "error"]
    return SweepRow(
        job=job,
        overrides=overrides or " ".join(words_of(report["run_meta"]["command"])),
        status="failed" if results["failure_breakdown"]["error"] else report["run_meta"]["status"],
        estimator=config["estimator"]["name"],
        label=config["estimator"]["name"],
        flop_budget=config["flop_budget"],
        score=results["score"],
        score_se=results["score_se"],
        **front,
        sampling_mse_at_budget=results.get("sampling_mse_at_budget"),
        n_failed=n_failed(results),
        problem=failed or ", ".join(flags) or None,
        dataset=config["dataset"]["name"],
        started_at=report["run_meta"]["run_started_at_utc"],
        protocol_hash=report["run_meta"]["protocol_hash"],
        multiplier_floor=config["scoring"].get("multiplier_floor"),
        lower_is_better=results["direction"] == "lower",
        scores={
            case_key(row)[1]: row[by_case["field"]]
            for row in case_rows(results)
            if row.get(by_case["field"]) is not None
        },
        case_is_lower_better=by_case["direction"] == "lower",
        is_serial=by_case["unit"] in SERIAL,
    )


def label_rows(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Name each curve: the estimator, and the words that differ between jobs, without the budget."""
    words = [_varied(row.overrides) for row in rows]
    shared = set.intersection(*map(set, words)) if words else set()
    return [
        replace(row, label=" ".join([row.estimator, *(w for w in own if w not in shared)])) if row.estimator else row
        for row, own in zip(rows, words, strict=True)
    ]


def _varied(overrides: str) -> list[str]:
    words = [word for word in overrides.split() if word.partition("=")[0] not in ("estimator", "budget")]
    return [word.removeprefix("estimator.") for word in words]


def mark_best(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Mark the best score of each protocol, and the scores that are not resolved from it on the same cases."""
    tops: dict[str, SweepRow] = {}
    for row in rows:
        if row.score is None or row.protocol_hash is None or row.status != "finished":
            continue
        top = tops.get(row.protocol_hash)
        if top is None or (row.score < top.score if row.lower_is_better else row.score > top.score):  # type: ignore[operator]
            tops[row.protocol_hash] = row
    return [_marked(row, tops.get(row.protocol_hash or "")) for row in rows]


def _marked(row: SweepRow, top: SweepRow | None) -> SweepRow:
    if top is None or row.score is None or row.status != "finished":
        return row
    if row is top:
        return replace(row, best="best")
    shared = [case for case in row.scores if case in top.scores]
    if len(shared) < 2:
        return row
    a, b = (np.array([one.scores[case] for case in shared], dtype=float) for one in (row, top))
    paired = Paired(a, b, row.case_is_lower_better, is_serial=row.is_serial)
    return row if paired.is_resolved else replace(row, best="tied")


def best_of(rows: Sequence[SweepRow]) -> list[tuple[SweepRow, list[SweepRow]]]:
    """The best job of each protocol, in order of budget, and the jobs that are not resolved from it."""
    tops = sorted((row for row in rows if row.best == "best"), key=lambda row: row.flop_budget or 0)
    ties: dict[str | None, list[SweepRow]] = {}
    for row in rows:
        if row.best == "tied":
            ties.setdefault(row.protocol_hash, []).append(row)
    return [(top, ties.get(top.protocol_hash, [])) for top in tops]


def spread(items: Sequence[T], most: int) -> list[T]:
    """All items, or so many of them from the first to the last, in even steps."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def mark_front(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Mark the Pareto front of error against compute."""
    points = {
        row.job: (row.compute, row.error)
        for row in rows
        if row.compute is not None and row.error is not None and row.status == "finished"
    }
    front = pareto_front(points)
    return [replace(row, on_front=row.job in front) for row in rows]


def pareto_front(points: Mapping[int, tuple[float, float]]) -> set[int]:
    """The jobs that no other job beats: as good in both figures, and better in one."""
    front: set[int] = set()
    least = float("inf")
    last: tuple[float, float] | None = None
    for job, point in sorted(points.items(), key=lambda item: item[1]):
        if point[1] < least or point == last:
            front.add(job)
            least, last = point[1], point
    return front


def write_table(rows: Iterable[SweepRow], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows([{column: inert(getattr(row, column)) for column in COLUMNS} for row in rows])
