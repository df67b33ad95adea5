"""The story that a log tells: which line may follow which, and when. Each line is a stranger's data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from whest.boards.verdicts import Ruling
from whest.contest.inbox import owner_of
from whest.contest.intake import file_date
from whest.contest.keys import Document, is_hex
from whest.contest.log import OWN, shown_line
from whest.contest.published import Found, Problem, Published
from whest.contest.rules import RULES, Contest, contest_of, read_moment
from whest.contest.scoring import FACTS
from whest.contest.storage import MANIFEST

CHAIN = {"kind", "at", *OWN}
FIELDS = {
    "opened": "contest manifest commitment public_key",
    "received": "entry refused file mtime_ns n_bytes participant received_at file_sha256 estimator description damage",
    "scored": "entry failed runs",
    "verdict": "entry verdict reason solution",
    "closed": "secret",
}
"""The fields of each kind of line, besides those of the chain. There are no others: what is not checked is not told."""
RUN_FIELDS = {*FACTS, "number", "report_sha256"}
MANIFEST_FIELDS = {"format", "name", "rules", "commitment", "public_key", "versions"}


@dataclass
class Story:
    """What has happened up to a line."""

    contest: Contest
    at: datetime | None = None
    is_closed: bool = False
    taken: set[str] = field(default_factory=set)
    scored: set[str] = field(default_factory=set)
    scan: datetime | None = None
    """When the host saw the files whose lines come one after the other here."""

    def wrong(self, line: Document) -> str | None:
        """Why this line can't come next; None if it can, and it then has."""
        kind, at = line["kind"], read_moment(line["at"])
        if kind not in FIELDS:
            return f"{str(kind)[:40]} is no kind of line"
        other = {*CHAIN, *FIELDS[kind].split()} ^ set(line)
        if other:
            return f"{min(other)[:40]} is a field too many or too few"
        if (kind == "opened") != (self.at is None):
            return "a contest is opened once, by the first line"
        if self.is_closed and kind != "verdict":
            return "after the closing there may only be verdicts"
        if at.tzinfo is None or (self.at is not None and at < self.at):
            return f"its time {line['at']} is before that of the line before it, or has no zone"
        before, self.at = self.at, at
        if kind == "received":
            return self._received(line, at, before)
        self.scan = None
        if kind == "scored":
            return self._scored(line)
        if kind == "verdict":
            return self._verdict(line)
        if kind == "closed":
            return self._closed(line)
        return None

    def _received(self, line: Document, at: datetime, before: datetime | None) -> str | None:
        received = read_moment(line["received_at"])
        if line["refused"] is None:
            self.taken.add(line["entry"])
            if owner_of(line["file"]).casefold() != line["participant"].casefold():
                return f"its file is {line['file'][:100]}, and its participant {line['participant'][:100]}"
        if received > at:
            return f"it was received at {line['received_at']}, after the line was written"
        if type(line["mtime_ns"]) is not int:
            return "its mtime_ns is no whole number"
        if self.contest.received == "file" and received == file_date(line["mtime_ns"]):
            return None
        if self.contest.received == "file" and not is_ahead(line["mtime_ns"], received):
            return f"it was received at {line['received_at']}, and its file has another date ({line['mtime_ns']} ns)"
        # the host's clock is read once per scan (by file dates: per file), after the last line before was written
        is_same_scan, self.scan = received == self.scan, received
        if not is_same_scan and before is not None and received < before:
            return f"it was received at {line['received_at']}, before the line before it was written"
        return None

    def _scored(self, line: Document) -> str | None:
        entry, failed = line["entry"], line["failed"]
        if entry not in self.taken or entry in self.scored:
            return f"entry {entry} was scored before, or was never taken"
        self.scored.add(entry)
        numbers = [run["number"] for run in line["runs"]]
        due = list(range(self.contest.n_seeds)) if failed is None else []
        if numbers != due or any(type(number) is not int for number in numbers):
            return f"it has the runs {numbers[:10]}, the rules say {due[:10]}"
        if any(set(run) != RUN_FIELDS for run in line["runs"]):
            return "a run has a field too many or too few"
        if failed is not None and not (isinstance(failed, str) and failed):
            return "it does not say why the entry failed"
        return None

    def _verdict(self, line: Document) -> str | None:
        if line["entry"] not in self.scored:
            return f"entry {line['entry']} is judged before it was scored"
        if line["verdict"] not in get_args(Ruling) or not (isinstance(line["reason"], str) and line["reason"].strip()):
            return "it is no verdict with a reason"
        return None

    def _closed(self, line: Document) -> str | None:
        self.is_closed = True
        if not is_hex(line["secret"], 32):
            return "its secret is not 32 bytes in hex, written in small letters and without spaces"
        missing = sorted(self.taken - self.scored)
        return f"entry {missing[0]} was taken, and never scored" if missing else None


def is_ahead(mtime_ns: int, received: datetime) -> bool:
    """Whether a file's date is after its receipt, or on no calendar: then the host's clock counts."""
    date = file_date(mtime_ns)
    return date is None or date > received


def check_story(published: Published) -> Found:
    """Each line after those before it; and the names that are told twice are the same."""
    manifest = published.manifest
    story = Story(contest_of(manifest))
    yield from _told_twice(manifest, published.lines)
    for line in published.lines:
        try:
            wrong = story.wrong(line)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            wrong = f"it can't be read ({type(error).__name__}: {str(error)[:100]})"
        if wrong is not None:
            yield Problem(shown_line(line["n"]), wrong)


def _told_twice(manifest: Mapping[str, Any], lines: Sequence[Document]) -> Found:
    rules = manifest["rules"]
    for name in sorted(set(manifest) ^ MANIFEST_FIELDS)[:1]:
        yield Problem(MANIFEST, f"{name[:40]} is a field too many or too few")
    for name in sorted({*rules} - {*RULES, "contest"})[:1]:
        yield Problem(MANIFEST, f"rules.{name[:40]} is no rule of a contest")
    if not manifest["name"] == rules["contest"]["name"] == lines[0]["contest"]:
        yield Problem(MANIFEST, "its name, that of its rules and that of the log's first line differ")
    if rules["leaderboard"].get("deadline") != rules["contest"]["deadline"]:
        yield Problem(MANIFEST, "leaderboard.deadline is not contest.deadline")
