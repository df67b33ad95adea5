"""An entry: the facts that a board needs of one run, for all tasks; and the reasons why an entry does not count."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from whest.boards.verdicts import Verdict, current_verdict
from whest.tracking.recorded import RecordedRun

Json = Mapping[str, Any]

Status = Literal[
    "ranked",
    "official",
    "provisional",
    "preliminary",
    "reviewed",
    "late",
    "legacy",
    "unfinished",
    "reference",
    "invalid",
    "disqualified",
    "tampered",
]


@dataclass(frozen=True)
class Entry:
    """One submission: a logged run."""

    run_id: str
    participant: str
    rule: str
    protocol: str
    score: float | None
    """As logged. 0 for a run that earned nothing, None for a run without a score."""
    submitted_at: datetime | None
    score_se: float | None = None
    estimator: str = ""
    config: str = ""
    """Identifies the estimator and its knobs without the seed: runs with the same config are seeds of one row."""
    seed: int | None = None
    is_demo: bool = False
    """Scored on a demo exam, which anybody can see."""
    unfinished: str | None = None
    """Why the run has no score that counts."""
    invalid: str | None = None
    """Why the run must be run again: it failed, but not by the participant's fault."""
    reference: str | None = None
    """Why the run is listed only for comparison."""
    problem: str | None = None
    """What was changed after the run was logged."""
    verdict: Verdict | None = None
    solution: str | None = None
    """A description of the method, which a winner must give."""
    folder: Path | None = None
    """The folder of the run's files."""
    track: str = ""
    """The protocol in words."""

    @property
    def ruling(self) -> str | None:
        return self.verdict.verdict if self.verdict else None


def sidelined(entry: Entry, deadline: datetime | None) -> tuple[Status, str] | None:
    """Why an entry isn't ranked, the most serious reason first; None for an entry that is ranked."""
    if entry.problem is not None:
        return "tampered", entry.problem
    if entry.verdict is not None and entry.verdict.verdict in ("disqualified", "invalid"):
        return entry.verdict.verdict, entry.verdict.reason
    if entry.invalid is not None:
        return "invalid", entry.invalid
    if entry.unfinished is not None or entry.score is None or entry.submitted_at is None:
        return "unfinished", entry.unfinished or "it has no score"
    if entry.reference is not None:
        return "reference", entry.reference
    if deadline is not None and entry.submitted_at > deadline:
        return "late", f"submitted {entry.submitted_at:%Y-%m-%d %H:%M:%S}, after the deadline"
    return None


def read_entry(run: RecordedRun) -> Entry:
    """The entry of a recorded run. The task's reader adds the fields that only its reports have."""
    config = run.report.get("run_config", {})
    spec = config.get("estimator", {})
    entry = Entry(
        run_id=run.run_id,
        participant=run.participant,
        rule=run.rule or "?",
        protocol=run.protocol_hash or "?",
        score=run.score,
        submitted_at=run.finished_at,
        score_se=run.score_se,
        estimator=str(spec.get("name") or run.tags.get("estimator") or "?"),
        config=_identity(spec),
        seed=config.get("seed"),
        problem=run.problem,
        verdict=current_verdict(run.tags),
        solution=run.tags.get("solution") or None,
        folder=Path(run.tags["run_folder"]) if "run_folder" in run.tags else None,
    )
    reader = READERS.get(run.task)
    return replace(entry, **reader(run.report)) if reader and run.report else entry


def _identity(estimator: Json, **more: Any) -> str:
    """A hash that is equal for runs of one config. It covers the source too, unless the estimator is bundled."""
    knobs = {name: value for name, value in estimator.get("knobs", {}).items() if name != "seed"}
    kept = {name: estimator.get(name) for name in ("name", "target", "mode")}
    if not str(estimator.get("target") or "").startswith("estimators."):
        kept["source_sha256"] = estimator.get("source_sha256")
    kept |= {"knobs": knobs, **more}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


def _read_whitebox(report: Json) -> dict[str, Any]:
    config, meta = report["run_config"], report["run_meta"]
    done, asked = len(report["results"]["per_mlp"]), config["n_mlps"]
    stopped = meta["status"] != "finished" or done < asked
    return {
        "unfinished": f"{meta['status']} after {done} of {asked} MLPs" if stopped else None,
        "track": f"{config['dataset']['name']}, {asked} MLPs of {config['width']}x{config['depth']}, "
        f"budget {config['flop_budget']:.3g}",
    }


def _read_exam(report: Json) -> dict[str, Any]:
    """The recipe is part of the config: another recipe makes another row."""
    config, meta, results = report["run_config"], report["run_meta"], report["results"]
    done, asked = len(results["per_case"]), config["n_questions"]
    stopped = meta["status"] != "finished" or done < asked
    return {
        "config": _identity(config["estimator"], recipe=config["recipe"]),
        "is_demo": config["dataset"]["is_demo"],
        "unfinished": f"{meta['status']} after {done} of {asked} questions" if stopped else None,
        "invalid": results["invalid"],
        "track": f"{config['dataset']['name']}, {asked} questions, budget {_exam_budget(config)}",
    }


def _exam_budget(config: Json) -> str:
    wall = config["wall_clock"]
    return f"{config['flop_budget']:.3g} FLOPs" if wall is None else f"{wall['budget_s']:g} s"


def _read_prequential(report: Json) -> dict[str, Any]:
    config, results = report["run_config"], report["results"]
    return {
        "unfinished": results["failure"],
        "reference": "its work on the host isn't counted" if config["is_reference"] else None,
        "track": f"{config['dataset']['name']}, {config['dataset']['n_train_bytes']:,} bytes in rows of "
        f"{config['row_length']}, budget {config['flop_budget']:.3g}",
    }


READERS: dict[str, Callable[[Json], dict[str, Any]]] = {
    "whitebox": _read_whitebox,
    "prequential": _read_prequential,
    "exam": _read_exam,
}
"""For each task: the function that reads the entry's fields from its own reports."""
