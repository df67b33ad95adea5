"""An entry: the facts that a board needs of one run, for all tasks; and the reasons why an entry does not count."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from whest.boards.verdicts import Verdict, current_verdict
from whest.document import flatten
from whest.notation import count
from whest.tracking.recorded import RecordedRun

Json = Mapping[str, Any]

ASIDE = frozenset({"xla-cost-analysis", "flopscope-prices"})
"""Meters whose tracks a board shows only if it is asked for: price lists other than whest's own."""

LARGEST_FIGURE = 1e100
"""Scores are below it; anything larger would overflow in a sum."""

Status = Literal[
    "ranked",
    "official",
    "provisional",
    "preliminary",
    "reviewed",
    "late",
    "refused",
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
    version: int = 0
    """Of the rule."""
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
    is_aside: bool = False
    """Counted by a price list that no board shows unless it is asked for."""
    protection: str = ""
    """trusted, protected or unprotected; empty for runs of older versions."""
    knobs: Mapping[str, str] = field(default_factory=dict)
    """What identifies the config, in words: the knobs without the seed, a recipe, the hash of a stranger's source."""

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
    """The entry behind a recorded run. One with a problem is not read; a reader's error is a problem too."""
    bare = Entry(
        run_id=run.run_id,
        participant=run.participant,
        rule=run.rule or "?",
        protocol=run.protocol_hash or "?",
        score=None,
        submitted_at=None,
        estimator=run.tags.get("estimator") or "?",
        problem=run.problem,
        verdict=current_verdict(run.tags),
        solution=run.tags.get("solution") or None,
        folder=Path(run.tags["run_folder"]) if "run_folder" in run.tags else None,
    )
    if run.problem is not None:
        return bare
    try:
        return _checked(_read(run, bare))
    except Exception as error:  # a report that every check let pass, and that still isn't what a reader needs
        return replace(bare, problem=f"its report can't be read ({type(error).__name__}: {str(error)[:200]})")


def _read(run: RecordedRun, bare: Entry) -> Entry:
    """What the report says. What only a task's own reports say is added by its reader."""
    config = run.report["run_config"]
    entry = replace(
        bare,
        score=run.score,
        submitted_at=run.finished_at,
        score_se=run.score_se,
        estimator=str(config["estimator"]["name"]),
        config=_identity(config["estimator"]),
        knobs=_knobs(config["estimator"]),
        seed=config.get("seed"),
        is_aside=meter_name(run.report) in ASIDE,
        version=int(config["scoring"].get("version", 0)),
        protection=str(config.get("isolation", {}).get("status", ""))[:20],
    )
    reader = READERS.get(run.task)
    return replace(entry, **reader(run.report)) if reader else entry


def meter_name(report: Json) -> str:
    """The meter of the report's protocol; empty for one without."""
    meter = report["run_meta"].get("protocol", {}).get("meter")
    return str(meter.get("name", "")) if isinstance(meter, Mapping) else ""


def _checked(entry: Entry) -> Entry:
    """Values that a policy can compare and a page can show."""
    for name in ("score", "score_se"):
        figure = getattr(entry, name)
        if figure is not None and not (_is_number(figure) and abs(figure) < LARGEST_FIGURE):
            raise ValueError(f"its {name} is {str(figure)[:50]}")
    if entry.score_se is not None and entry.score_se < 0:
        raise ValueError(f"its score_se is {entry.score_se}")
    if not (entry.seed is None or (isinstance(entry.seed, int) and abs(entry.seed) < 2**64)):
        raise ValueError(f"its seed is {str(entry.seed)[:50]}")
    if entry.submitted_at is not None and entry.submitted_at.tzinfo is None:
        raise ValueError("its date has no time zone")
    for name in ("unfinished", "invalid", "reference", "track"):
        if not isinstance(getattr(entry, name), str | None):
            raise TypeError(f"{name} is no text")
    return entry


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _identity(estimator: Json, **more: Any) -> str:
    """A hash that is equal for runs of one config. It covers the source too, unless the estimator is bundled."""
    knobs = {name: value for name, value in estimator.get("knobs", {}).items() if name != "seed"}
    kept = {name: estimator.get(name) for name in ("name", "target", "mode")}
    if not str(estimator.get("target") or "").startswith("estimators."):
        kept["source_sha256"] = estimator.get("source_sha256")
    kept |= {"knobs": knobs, **more}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]


def _knobs(estimator: Json, **more: Any) -> dict[str, str]:
    """The same facts as in `_identity`, in words."""
    knobs = {str(name)[:40]: _short(value) for name, value in estimator.get("knobs", {}).items() if name != "seed"}
    if not str(estimator.get("target") or "").startswith("estimators.") and estimator.get("source_sha256"):
        knobs["source"] = str(estimator["source_sha256"])[:8]
    return knobs | {name: _short(value) for name, value in more.items()}


def _short(value: Any) -> str:
    return str(value)[:60]


def _read_whitebox(report: Json) -> dict[str, Any]:
    config, meta = report["run_config"], report["run_meta"]
    done, asked = len(report["results"]["per_mlp"]), config["n_mlps"]
    stopped = meta["status"] != "finished" or done < asked
    return {
        "unfinished": f"{meta['status']} after {done} of {count(asked, 'MLP')}" if stopped else None,
        "track": f"{config['dataset']['name']}, {count(asked, 'MLP')} of {config['width']}x{config['depth']}, "
        f"budget {config['flop_budget']:.3g}",
    }


def _read_exam(report: Json) -> dict[str, Any]:
    """The recipe is part of the config: another recipe makes another row."""
    config, meta, results = report["run_config"], report["run_meta"], report["results"]
    done, asked = len(results["per_case"]), config["n_questions"]
    stopped = meta["status"] != "finished" or done < asked
    return {
        "config": _identity(config["estimator"], recipe=config["recipe"]),
        "knobs": _knobs(config["estimator"], **flatten({"recipe": config["recipe"]})),
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
