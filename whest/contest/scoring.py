"""Scoring: the runs of an entry, as `job=score` runs them. What a run left on disk is used after a crash."""

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.boards.entries import Entry, read_entry
from whest.contest.keys import Document, canonical, sha256
from whest.contest.log import read_signed
from whest.contest.rules import contest_of, run_config, sealed_node
from whest.contest.storage import ENTRIES, RUNS, Place, entry_name, keep
from whest.document import REPORT
from whest.errors import JobFailedError, UnprotectedError, WhestError
from whest.files import SEALED, read_bounded
from whest.notation import printable
from whest.report import SEE_REPORT
from whest.tracking.recorded import LARGEST_REPORT, read_report

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDED = "ended.json"
"""Written last into the folder of a run."""
LONGEST_REASON = 400
FACTS = (
    "rule protocol score score_se estimator config version is_demo unfinished invalid reference problem is_aside "
    "protection knobs track"
).split()
"""What the log says of a run: all that a board needs of it."""


@dataclass(frozen=True)
class Scorer:
    """What scoring needs: the folders, the published rules, the secret, and the config of this command."""

    place: Place
    manifest: Mapping[str, Any]
    config: Mapping[str, Any]
    secret: bytes

    def score(self, line: Mapping[str, Any]) -> None:
        """Make the missing runs of an entry."""
        for number in range(contest_of(self.manifest).n_seeds):
            folder = self.run_folder(line, number)
            if not self.has_ended(line, number):
                shutil.rmtree(folder, ignore_errors=True)
                reason = self._run(line, number, folder)
                report = sha256((folder / REPORT).read_bytes()) if reason is None else None
                told = {"failed": reason, "report": report, **self._bound(line)}
                keep(folder / ENDED, canonical(told) + b"\n")

    def run_folder(self, line: Mapping[str, Any], number: int) -> Path:
        return self.place.private / RUNS / line["entry"] / str(number)

    def has_ended(self, line: Mapping[str, Any], number: int) -> bool:
        """Whether a run is whole, and of this file and secret. One that a crash cut short is made again."""
        folder = self.run_folder(line, number)
        if not (folder / ENDED).exists():
            return False
        ended = read_signed(folder / ENDED)
        if any(ended.get(name) != value for name, value in self._bound(line).items()):
            return False
        return ended["failed"] is not None or ended["report"] == sha256(read_bounded(folder / REPORT, LARGEST_REPORT))

    def _bound(self, line: Mapping[str, Any]) -> Document:
        """What a run belongs to: numbers of entries begin anew in each contest."""
        return {"file_sha256": line["file_sha256"], "commitment": self.manifest["commitment"]}

    def _run(self, line: Mapping[str, Any], number: int, folder: Path) -> str | None:
        """Run an entry once. Why it has no score; None if it has one. What is no fault of the entry's is raised."""
        from whest.experiment import build, run

        own = {**self.config, "outputs_dir": str(self.place.private), "participant": line["participant"]}
        config = run_config(self.manifest, own, self.secret, number, {})
        try:
            with self._file(line) as path:
                node = sealed_node(path, line["estimator"])
                report = run(build({**config, "estimator": node}, folder), folder)
        except (UnprotectedError, OSError, MemoryError):
            raise
        except WhestError as error:
            return _short(str(error))
        except Exception as error:  # a program that breaks a reader must not stop the contest of all others
            return _short(f"it can't be run ({type(error).__name__}: {error})")
        if report.meta.status == "interrupted":
            raise KeyboardInterrupt
        return None if report.problem is None else _short(told_reason(report.problem, report.document["results"]))

    @contextmanager
    def _file(self, line: Mapping[str, Any]) -> "Iterator[Path]":
        """The entry's file. Python is copied out of the private folder, which its worker can't see."""
        path = entry_path(self.place.private / ENTRIES, line)
        if path.suffix == SEALED:
            yield path
            return
        with tempfile.TemporaryDirectory() as elsewhere:
            yield Path(shutil.copy(path, elsewhere))

    def outcome(self, line: Mapping[str, Any]) -> Document:
        """What the log says of an entry that was run: a failure, or the facts of each run."""
        runs = []
        for number in range(contest_of(self.manifest).n_seeds):
            folder = self.run_folder(line, number)
            ended = read_signed(folder / ENDED)
            if ended["failed"] is not None:
                return {"entry": line["entry"], "failed": ended["failed"], "runs": []}
            runs.append(run_facts(folder / REPORT, number) | {"report_sha256": ended["report"]})
        return {"entry": line["entry"], "failed": None, "runs": runs}


def told_reason(problem: str, results: Mapping[str, Any]) -> str:
    """Why a run failed, in a line of its own: the report of an entry that failed is not published."""
    rows = [row for row in (results.get("per_mlp") or results.get("per_case") or ()) if row.get("error_code")]
    said = results.get("failure")
    if not said and rows:
        first = (str(rows[0]["error"]["message"]).splitlines() or [""])[0]
        said = f"{rows[0]['error_code']}: {first}"
    return problem.replace(SEE_REPORT, str(said)) if said else problem


def run_facts(report: Path, number: int) -> Document:
    """The facts of one run. Seeds stay secret: a run is known by its number, and no name has a seed."""
    recorded = read_report(report)
    entry = read_entry(replace(recorded, run_id=str(number)))
    if entry.problem is not None:
        raise JobFailedError(f"{report}: {entry.problem}")
    dataset = recorded.report["run_config"]["dataset"]
    track = entry.track.replace(f"seed {dataset.get('seed')}", "a secret seed")
    return {name: getattr(entry, name) for name in FACTS} | {"number": number, "track": track}


def entry_of(facts: Mapping[str, Any], **more: Any) -> Entry:
    """A board's entry from the facts of the log."""
    return Entry(**{name: facts[name] for name in FACTS}, seed=facts["number"], **more)


def entry_path(folder: Path, line: Mapping[str, Any]) -> Path:
    return folder / f"{line['entry']}{SEALED if line['file'].endswith(SEALED) else '.py'}"


def run_id(entry: str, number: int) -> str:
    return f"{entry}-{number}"


def next_entry(n_lines: int) -> str:
    return entry_name(n_lines + 1)


def _short(text: str) -> str:
    return printable(" ".join(text.split()))[:LONGEST_REASON]
