"""The entrants of a comparison: recorded runs, and estimators to run now."""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from whest.document import SOURCE, Json, case_key, case_rows, case_score, flatten, protocol_hash
from whest.errors import ConfigError, WhestError
from whest.files import SEALED
from whest.notation import printable
from whest.provenance.source import read_source_files
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE, Answers, read_predictions
from whest.tracking.recorded import RecordedRun, fetch_folder, read_report, read_run
from whest.tracking.runs import MlflowTracking

RUN_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Entrant:
    """One run's report, and its answers if they were saved."""

    name: str
    source: str
    report: Json
    answers: Answers | None
    folder: Path | None = None
    """Where its files are; None if it is only in MLflow."""
    sources: Mapping[str, bytes] = field(default_factory=dict)
    """The estimator's kept files; empty if none were kept."""

    @property
    def protocol_hash(self) -> str:
        return printable(str(self.report["run_meta"]["protocol_hash"]))

    @property
    def estimator(self) -> Json:
        described: Json = self.report["run_config"]["estimator"]
        return described

    @property
    def seed(self) -> Any:
        return self.estimator["knobs"].get("seed")

    @property
    def family(self) -> str:
        """The same for all seeds of one estimator: its description without the seed."""
        knobs = {key: value for key, value in self.estimator["knobs"].items() if key != "seed"}
        return json.dumps([{**self.estimator, "knobs": knobs}], sort_keys=True)

    @property
    def cases(self) -> dict[tuple[int, str], Json]:
        return {case_key(row): row for row in case_rows(self.report["results"])}

    @property
    def case_score(self) -> Json:
        """The figure that compares its cases, unless the config chooses another."""
        return case_score(self.report["results"])


@dataclass(frozen=True)
class Choice:
    """An estimator to run now: the overrides that choose it."""

    text: str
    overrides: tuple[str, ...]


def is_choice(text: str, estimators: Sequence[str]) -> bool:
    name = text.split()[0] if text.split() else ""
    return name in estimators or name.endswith((".py", SEALED))


def read_choice(text: str) -> Choice:
    """Read `monte_carlo seed=1`: an estimator's name or file, then its knobs."""
    name, *knobs = text.split()
    files = {".py": "file", SEALED: "sealed"}
    kind = files.get(Path(name).suffix)
    chosen = (f"estimator={kind}", f"estimator.path={name}") if kind else (f"estimator={name}",)
    wrong = [word for word in knobs if "=" not in word]
    if wrong:
        raise ConfigError(f"compare.runs has {text!r}: {wrong[0]!r} is not a knob, write knob=value")
    return Choice(text, (*chosen, *map(_knob, knobs)))


def _knob(word: str) -> str:
    plus, key = ("+", word[1:]) if word.startswith("+") else ("", word)
    return f"{plus}{key}" if key.startswith("estimator.") else f"{plus}estimator.{key}"


def read_entrants(
    text: str, tracking: MlflowTracking | None, estimators: Sequence[str], key: str = "compare.runs"
) -> list[Entrant]:
    """The runs of one word of `compare.runs`, or of another key: several for a sweep's folder, else one."""
    path = Path(text)
    if RUN_ID.fullmatch(text) and not path.exists():
        return [_from_mlflow(text, tracking, key)]
    if path.is_dir() and not (path / "report.json").exists():
        jobs = sorted((job for job in path.iterdir() if job.name.isdigit()), key=lambda job: int(job.name))
        found = [job / "report.json" for job in jobs if (job / "report.json").exists()]
        if not found:
            raise ConfigError(f"{key} has {text}: neither it nor a sweep's job in it has a report.json")
        return [_from_file(report, str(report.parent), path, key) for report in found]
    report = path / "report.json" if path.is_dir() else path
    if not report.is_file():
        if not estimators:
            raise ConfigError(
                f"{key} has {text!r}, which is no file or folder and no MLflow run id: job=runs lists them"
            )
        close = get_close_matches(text.split()[0] if text.split() else "", estimators, n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        raise ConfigError(
            f"{key} has {text!r}, which is no file or folder, no MLflow run id and no estimator.{meant} The estimators "
            f"are: {', '.join(estimators)}"
        )
    return [_from_file(report, text, report.parent, key)]


def _from_file(path: Path, source: str, given: Path, key: str) -> Entrant:
    for name in (path.name, PREDICTIONS_FILE, SOURCE):
        if not (path.parent / name).resolve().is_relative_to(given.resolve()):
            raise ConfigError(f"{key} has {source}: {name} is a link out of it, put the file itself there")
    found = entrant(read_report(path), read_predictions(path.parent / PREDICTIONS_FILE), source, key)
    return replace(found, folder=path.parent, sources=kept_sources(path.parent))


def kept_sources(folder: Path) -> Mapping[str, bytes]:
    """The estimator's files in a run's folder; nothing if they can't be read."""
    try:
        return read_source_files(folder / SOURCE)
    except WhestError:
        return {}


def _from_mlflow(run_id: str, tracking: MlflowTracking | None, key: str) -> Entrant:
    if tracking is None:
        raise ConfigError(f"{key} has the MLflow run {run_id}: add tracking=mlflow to say where MLflow is")
    client, _ = tracking.connect()
    recorded = read_run(client, run_id)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        fetch_folder(client, run_id, place, (PREDICTIONS_FILE,), (SOURCE,))
        found = entrant(recorded, read_predictions(place / PREDICTIONS_FILE), run_id, key)
        return replace(found, sources=kept_sources(place))


def entrant(recorded: RecordedRun, answers: Answers | None, source: str, key: str = "compare.runs") -> Entrant:
    """Make an entrant of a run. A run that was changed, or has no cases, is refused."""
    if recorded.problem is not None:
        raise ConfigError(f"{key} has {source}: {recorded.problem}")
    if not recorded.rows:
        unit = case_score(recorded.report["results"])["unit"]
        raise ConfigError(f"{key} has {source}: that run finished no {unit}")
    return Entrant(recorded.report["run_config"]["estimator"]["name"], source, recorded.report, answers)


def named(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Give every entrant its own name: the estimator's name, the knobs that differ, and a number if still needed."""
    names = [entrant.name for entrant in entrants]
    for name in {name for name in names if names.count(name) > 1}:
        same = [i for i, other in enumerate(names) if other == name]
        knobs = [entrants[i].estimator["knobs"] | {"mode": entrants[i].estimator["mode"]} for i in same]
        keys = sorted({key for one in knobs for key in one if len({str(other.get(key)) for other in knobs}) > 1})
        for i, one in zip(same, knobs, strict=True):
            names[i] = " ".join([name, *(f"{key}={one[key]}" for key in keys if key in one)])
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        names[i] = f"{name} ({seen[name]})" if names.count(name) > 1 or seen[name] > 1 else name
    return [replace(entrant, name=name) for entrant, name in zip(entrants, names, strict=True)]


def refuse_other_protocols(protocols: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Scores under different rules, or of different MLPs, are not comparable: the error names the differences."""
    (first, reference), *others = protocols
    for name, protocol in others:
        if protocol_hash(protocol) != protocol_hash(reference):
            raise ConfigError(
                f"{first} and {name} can't be compared: their protocols differ in {_differences(reference, protocol)}"
            )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    a, b = flatten(one), flatten(other)
    keys = [key for key in sorted(a | b) if a.get(key) != b.get(key)]
    return "; ".join(f"{key} ({_short(a.get(key))} and {_short(b.get(key))})" for key in keys)


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 20 else f"{text[:16]}…"
