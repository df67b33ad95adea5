"""The champion of a protocol: the best run so far, kept with the evidence that made it the best.

A challenger takes its place only if a paired comparison resolves that it is better. A better score alone is not enough:
the best of many equal runs has one by luck.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whest.compare.comparison import CompareOptions, Pair, compare
from whest.compare.entrants import Entrant, named, read_entrants
from whest.document import REPORT, Json
from whest.errors import ConfigError
from whest.files import parse_document, read_bounded, write_atomically

FOLDER = "champions"
RECORD = "champion.json"
LARGEST_RECORD = 2**22
HASH = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True)
class Outcome:
    """What became of a challenge."""

    record: Json
    is_new: bool
    words: str
    pair: Pair | None = None


def champion_folder(outputs: Path, protocol_hash: str) -> Path:
    if not HASH.fullmatch(protocol_hash):  # it comes from a report, and names a folder
        raise ConfigError(f"run=…: its protocol hash {protocol_hash[:40]!r} is none: give the report of a whest run")
    return outputs / FOLDER / protocol_hash


def read_champions(outputs: Path) -> Iterator[Json]:
    """Every champion's record, by protocol. A damaged one is an error that names its file."""
    for path in sorted((outputs / FOLDER).glob(f"*/{RECORD}")):
        yield _read(path)


def _read(path: Path) -> Json:
    try:
        record = parse_document(read_bounded(path, LARGEST_RECORD))
        if not isinstance(record.get("history"), list) or not isinstance(record.get("name"), str):
            raise ValueError("it has no name or no history")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} is damaged ({error}): remove its folder, and challenge anew") from None
    return record


def challenge(challenger: Entrant, outputs: Path, options: CompareOptions) -> Outcome:
    """Compare the challenger with the champion of its protocol. The better one is kept."""
    folder = champion_folder(outputs, challenger.protocol_hash)
    if not (folder / RECORD).exists():
        record = _record(challenger, None, [])
        _keep(folder, record, challenger)
        return Outcome(record, True, f"{record['name']} is the first champion of protocol {challenger.protocol_hash}")
    record = _read(folder / RECORD)
    if record["report_sha256"] == _digest(challenger.report):
        return Outcome(record, False, f"{record['name']} is the champion already")
    (holder,) = read_entrants(str(folder), None, [], "champion")
    sides = named([challenger, holder])
    (pair,) = compare(sides, options).pairs
    if not (pair.is_resolved and pair.paired.a_is_better):
        return Outcome(record, False, f"{record['name']} stays champion: {pair.verdict}", pair)
    before = {key: record[key] for key in ("name", "score", "score_se", "source", "since", "report_sha256")}
    new = _record(challenger, pair, [*record["history"], {**before, "until": _now(), "verdict": pair.verdict}])
    _keep(folder, new, challenger)
    return Outcome(new, True, f"{new['name']} replaces {record['name']} as champion: {pair.verdict}", pair)


def _record(entrant: Entrant, evidence: Pair | None, history: list[Json]) -> Json:
    config, results = entrant.report["run_config"], entrant.report["results"]
    return {
        "schema_version": "1.0",
        "protocol_hash": entrant.protocol_hash,
        "title": f"{config['dataset']['name']}, budget {config['flop_budget']:.3g} FLOPs, {config['scoring']['name']}",
        "name": entrant.name,
        "score": results["score"],
        "score_se": results.get("score_se"),
        "source": entrant.source,
        "since": _now(),
        "report_sha256": _digest(entrant.report),
        **{name: config[name] for name in ("hypothesis", "decision") if config.get(name)},
        "evidence": evidence.to_json() if evidence is not None else None,
        "history": history,
    }


def _keep(folder: Path, record: Json, entrant: Entrant) -> None:
    """The report first: a record without its report would be no evidence."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / REPORT, json.dumps(entrant.report, indent=2, allow_nan=False).encode())
    write_atomically(folder / RECORD, json.dumps(record, indent=2, allow_nan=False).encode())


def _digest(report: Any) -> str:
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
