"""An entry of the gallery: one run, comparison, board or sweep in a few plain figures, made from its own file."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from whest.document import Json, case_rows, case_score, n_failed
from whest.files import parse_document, read_bounded
from whest.host import CONFIGS
from whest.notation import count, failed_words, plus_minus
from whest.tracking.recorded import UnreadableError, read_report

Kind = Literal["run", "sweep", "comparison", "board"]
LONGEST_NAME, LONGEST_NOTE, MOST_TAGS = 120, 300, 12
SHAPE = re.compile(r"\bwidth: (\d+), depth: (\d+)")
LARGEST_BOARD = 2**24
"""Bytes of a comparison.json or a board.json."""


@dataclass(frozen=True)
class Entry:
    """One row of the gallery. Paths are relative to the outputs folder."""

    path: str
    """The folder, or `mlflow/ID` for a run that is only in MLflow."""
    kind: Kind
    name: str
    """The estimator, or what was compared, swept or ranked."""
    started: str = ""
    """When it began, in ISO 8601 (UTC)."""
    round: str = ""
    dataset: str = ""
    rule: str = ""
    protocol: str = ""
    budget: float | None = None
    score: float | None = None
    score_se: float | None = None
    is_lower_better: bool = True
    n_cases: int = 0
    unit: str = "case"
    """What a case is: MLP, question, block."""
    n_failed: int = 0
    status: str = ""
    problem: str = ""
    """What is wrong with its file, in words."""
    tags: Sequence[str] = ()
    notes: str = ""
    participant: str = ""
    words: str = ""
    """What a comparison or a board found, in a sentence."""
    page: str = ""
    part_of: str = ""
    """The folder of the sweep or comparison that it belongs to."""
    sha256: str = ""
    run_id: str = ""

    @property
    def is_ranked(self) -> bool:
        """Whether its score may be the best of its protocol."""
        is_whole = self.score is not None and self.status == "finished" and not self.problem
        return self.kind == "run" and is_whole and not self.all_failed

    @property
    def all_failed(self) -> bool:
        """Whether no case has an answer that counts: its score is that of no answer at all."""
        return self.kind == "run" and 0 < self.n_cases <= self.n_failed

    @property
    def score_words(self) -> str:
        if self.all_failed:
            return failed_words(self.n_cases, self.unit)
        return plus_minus(self.score, self.score_se)

    def is_better_than(self, other: "Entry") -> bool:
        if self.score is None or other.score is None:
            return other.score is None
        return self.score < other.score if self.is_lower_better else self.score > other.score


def read_entry(folder: Path, path: str, kind: Kind) -> Entry:
    """Make the entry of a folder. A damaged file gives an entry that says so."""
    try:
        if kind == "run":
            return _read_run(folder, path)
        return _read_comparison(folder, path) if kind == "comparison" else _read_board(folder, path)
    except UnreadableError as error:
        return damaged(path, kind, _reason(str(error)))
    except Exception as error:  # a damaged file fails in as many ways as it has values
        return damaged(path, kind, f"{type(error).__name__}: {error}")


def damaged(path: str, kind: Kind, reason: str) -> Entry:
    return Entry(path, kind, "damaged", status="damaged", problem=clip(f"damaged: {reason}", LONGEST_NOTE))


def _reason(sentence: str) -> str:
    """The words in brackets of a reader's error, without the path around them."""
    return sentence.partition("(")[2].rpartition(")")[0] or sentence


def _read_run(folder: Path, path: str) -> Entry:
    recorded = read_report(folder)
    digest = hashlib.sha256((folder / "report.json").read_bytes()).hexdigest()
    return replace(entry_of(recorded.report, path), problem=clip(recorded.problem or "", LONGEST_NOTE), sha256=digest)


def entry_of(document: Json, path: str) -> Entry:
    """The entry of a report. Reports of other versions may lack some of it."""
    meta, config, results = document["run_meta"], document["run_config"], document["results"]
    told = {**_mapping(document.get("tags")), **_mapping(config.get("tags")), **_mapping(meta.get("tags"))}
    notes = [part.get("notes") for part in (document, config, meta)]
    named = [part.get("name") for part in (document, config, meta)]
    return Entry(
        path=path,
        kind="run",
        name=clip(next((name for name in named if name), config["estimator"]["name"])),
        started=clip(meta.get("run_started_at_utc"), 40),
        round=round_words(clip(config.get("round")), config.get("width"), config.get("depth")),
        dataset=clip(_mapping(config.get("dataset")).get("name")),
        rule=clip(_mapping(config.get("scoring")).get("name")),
        protocol=clip(meta["protocol_hash"], 40),
        budget=number(config.get("flop_budget")),
        score=number(results["score"]),
        score_se=number(results.get("score_se", results.get("adjusted_final_layer_score_se"))),
        is_lower_better=results.get("direction", "lower") == "lower",
        n_cases=len(case_rows(results)),
        unit=clip(case_score(results).get("unit"), 40),
        n_failed=n_failed(results),
        status=clip(meta.get("status"), 40),
        tags=as_tags(
            {**told, **({"imported": document["imported"].get("from", "")} if "imported" in document else {})}
        ),
        notes=clip("; ".join([*ledger(config), *[note for note in notes if note][:1]]), LONGEST_NOTE),
        participant=clip(config.get("participant")),
    )


def round_words(name: str, width: Any, depth: Any) -> str:
    """The round's name; "custom 16x3" for a run on MLPs of another shape than the round's own."""
    own = round_shape(name)
    return name if own is None or None in (width, depth) or own == (width, depth) else f"custom {width}x{depth}"


@cache
def round_shape(name: str) -> tuple[int, int] | None:
    """Width and depth of one of whest's rounds."""
    known = {place.stem: place for place in (CONFIGS / "round").glob("*.yaml")}
    found = SHAPE.search(known[name].read_text(encoding="utf-8")) if name in known else None
    return (int(found[1]), int(found[2])) if found else None


def ledger(told: Mapping[str, Any]) -> list[str]:
    """The hypothesis and the decision of a config or of a run's tags, in words."""
    return [f"{name}: {clip(told[name], LONGEST_NOTE)}" for name in ("hypothesis", "decision") if told.get(name)]


def _read_comparison(folder: Path, path: str) -> Entry:
    found = parse_document(read_bounded(folder / "comparison.json", LARGEST_BOARD))
    pairs = found["comparisons"]
    verdicts = [str(pair["verdict"]) for pair in pairs]
    sides = list(dict.fromkeys(str(pair[name]) for pair in pairs for name in ("a", "b")))
    return Entry(
        path,
        "comparison",
        clip(" against ".join(sides)),
        protocol=clip(found.get("protocol_hash"), 40),
        status="finished",
        words=clip("; ".join(verdicts), LONGEST_NOTE),
    )


def _read_board(folder: Path, path: str) -> Entry:
    found = parse_document(read_bounded(folder / "board.json", LARGEST_BOARD))
    rows, track = found["rows"], found["track"]
    first = next((row for row in rows if row.get("rank") == 1), None)
    leader = f"{clip(first['participant'])} leads; " if first else ""
    return Entry(
        path,
        "board",
        clip(f"{found['leaderboard']} leaderboard"),
        rule=clip(found["leaderboard"]),
        protocol=clip(track["protocol"], 40),
        score=number(first["score"]) if first else None,
        score_se=number(first.get("score_se")) if first else None,
        is_lower_better=found.get("direction") == "lower",
        started=clip(track.get("latest"), 40),
        status="finished",
        words=clip(f"{leader}{count(len(rows), 'row')}", LONGEST_NOTE),
    )


def sweep_entry(path: str, jobs: Sequence[Entry], page: str) -> Entry:
    """A sweep, from the entries of its jobs."""
    best: dict[str, Entry] = {}
    for job in jobs:
        if job.is_ranked and (job.protocol not in best or job.is_better_than(best[job.protocol])):
            best[job.protocol] = job
    only = next(iter(best.values())) if len(best) == 1 else None
    names = list(dict.fromkeys(job.name for job in jobs if job.status != "damaged"))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    across = f" under {len(best)} protocols" if len(best) > 1 else ""
    return Entry(
        path,
        "sweep",
        clip(f"sweep of {', '.join(names[:3])}{more}" if names else "sweep"),
        started=min((job.started for job in jobs if job.started), default=""),
        round=_shared(job.round for job in jobs),
        dataset=_shared(job.dataset for job in jobs),
        rule=_shared(job.rule for job in jobs),
        protocol=only.protocol if only else "",
        budget=only.budget if only else None,
        score=only.score if only else None,
        score_se=only.score_se if only else None,
        is_lower_better=only.is_lower_better if only else True,
        n_failed=sum(job.status == "damaged" for job in jobs),
        status="finished",
        words=f"{count(len(jobs), 'job')}{across}" + (f"; best {only.name}" if only else ""),
        page=page,
    )


def _shared(values: Iterable[str]) -> str:
    found = list(dict.fromkeys(value for value in values if value))
    return found[0] if len(found) == 1 else ""


def as_tags(tags: Mapping[str, Any]) -> list[str]:
    return [clip(f"{key}={value}" if value not in ("", None) else key, 60) for key, value in tags.items()][:MOST_TAGS]


def clip(text: Any, longest: int = LONGEST_NAME) -> str:
    """A value as short text."""
    words = "" if text is None else text if isinstance(text, str) else json.dumps(text, default=str)
    return words if len(words) <= longest else words[: longest - 1] + "…"


def number(value: Any) -> float | None:
    """A finite number, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
