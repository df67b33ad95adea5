"""Hosting: open a contest, take entries in, score them, keep verdicts, close it. Each step can be cut off and repeated.

The log alone says what happened. Receipts, head and board follow from it and are made again whenever they are missing.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from whest import __version__
from whest.contest.board import board_files
from whest.contest.inbox import Arrival, arrivals, read_arrival
from whest.contest.intake import received_fields
from whest.contest.keys import Document, Key, canonical, need_signatures, open_key, read_secret, sha256
from whest.contest.ledger import Ledger
from whest.contest.log import DamagedError, Log, open_log, read_head, read_signed, refuse_lost
from whest.contest.receipts import receipt_files
from whest.contest.rules import FORMAT, commitment_to, contest_of, refuse_other_rules, rules_of
from whest.contest.scoring import Scorer, entry_path, next_entry, run_id
from whest.contest.storage import (
    ENTRIES,
    HEAD,
    KEY,
    LOCK,
    MANIFEST,
    REPORTS,
    RUNS,
    SECRET,
    SIGNED,
    Place,
    keep,
    tidy,
)
from whest.document import REPORT
from whest.errors import ConfigError, JobFailedError
from whest.metering.walk import METER_VERSION


@dataclass
class Host:
    """A contest that this process hosts."""

    place: Place
    key: Key
    secret: bytes
    manifest: Document
    log: Log

    @property
    def is_closed(self) -> bool:
        return bool(self.log.of("closed"))

    def unscored(self) -> list[Document]:
        done = {line["entry"] for line in self.log.of("scored")}
        return [line for line in self.log.of("received") if line["refused"] is None and line["entry"] not in done]

    def take_in(self, inbox: Path) -> int:
        """Every new file of the inbox becomes a line of the log. All files of one scan are received at its moment."""
        known = {(line["file"], line["mtime_ns"], line["n_bytes"]) for line in self.log.of("received")}
        ledger = self._ledger()
        found, seen = arrivals(inbox, ledger.contest.received), self.log.now()
        new = [one for one in found if one.mark not in known and not ledger.is_mute(one.participant, one.name)]
        if new and self.is_closed:
            raise ConfigError(f"inbox={inbox} has {len(new)} new files, and the contest is closed: remove them")
        before = len(self.log.lines)
        for arrival in new:
            if not ledger.is_mute(arrival.participant, arrival.name):
                ledger.add(self._take(arrival, ledger, seen))
        return len(self.log.lines) - before

    def _ledger(self) -> Ledger:
        ledger = Ledger(contest_of(self.manifest))
        for line in self.log.of("received"):
            ledger.add(line)
        return ledger

    def _take(self, arrival: Arrival, ledger: Ledger, seen: datetime) -> Document:
        """The file is kept before the log names it, so that the log never names a file that is not there."""
        contest = ledger.contest
        if arrival.has_folder and not ledger.is_owner(arrival.participant, arrival.name):
            arrival = replace(arrival, problem="the inbox has a folder of this name: only files in it are taken")
        content = read_arrival(arrival, contest.limit_bytes)
        moment = seen if contest.received == "host" else self.log.now()
        facts = received_fields(arrival, content, contest, self.manifest["rules"], moment)
        entry, refused = next_entry(ledger.n_lines), ledger.refusal(facts)
        if refused is None and isinstance(content, bytes):
            keep(entry_path(self.place.private / ENTRIES, {**facts, "entry": entry}), content)
        else:
            facts["description"] = ""
        return self.log.append("received", entry=entry, refused=refused, **facts)

    def score(self, scorer: Scorer, make_runs: Callable[[Sequence[Document]], None] | None) -> int:
        """Run what is not scored yet, and log it in the order of receipt. `make_runs` runs many at a time."""
        waiting = self.unscored()
        if make_runs is not None and waiting:
            make_runs(waiting)
        for line in waiting:
            scorer.score(line)
            self.log.append("scored", **scorer.outcome(line))
            self.publish_receipts(line["entry"])
        return len(waiting)

    def judge(self, entry: str, verdict: str, reason: str, solution: str | None) -> Document:
        known = [line["entry"] for line in self.log.of("scored")]
        if entry not in known:
            raise ConfigError(
                f"host.entry={entry} is no scored entry: the last one is {known[-1] if known else 'none'}"
            )
        return self.log.append("verdict", entry=entry, verdict=verdict, reason=reason, solution=solution)

    def close(self) -> None:
        """Reveal the secret, then publish entries and reports. After that nothing is taken or scored any more."""
        if self.unscored():
            raise ConfigError("host.do=close: some entries are not scored yet, run job=host without host.do first")
        if not self.is_closed:
            self.log.append("closed", secret=self.secret.hex())

    def publish(self) -> None:
        """Make what follows from the log: receipts, board, and after the closing the entries and reports."""
        self.publish_receipts()
        if self.is_closed:
            self._publish_entries()
        files = board_files(self.manifest, self.log.lines)
        last = self.log.lines[-1]
        told = {"n": last["n"], "sha256": last["sha256"], "contest": self.manifest["name"]}
        signed = {**told, "kind": "board", "files": {name: sha256(content) for name, content in files.items()}}
        for name, content in files.items():
            _renew(self.place.public / name, content)
        _renew(self.place.public / SIGNED, self.key.signed(signed))

    def publish_receipts(self, entry: str | None = None) -> None:
        """A receipt is a promise: the private folder knows the end of the log before it is given."""
        _remember(self.place)
        lines = [line for line in self.log.lines if entry is None or line.get("entry") == entry]
        for name, document in receipt_files(self.manifest, lines).items():
            _renew(self.place.public / name, self.key.signed(document))

    def _publish_entries(self) -> None:
        private, public = self.place.private, self.place.public
        for line in self.log.of("received"):
            if line["refused"] is None:
                path = entry_path(private / ENTRIES, line)
                _renew(public / ENTRIES / path.name, path.read_bytes())
        for line in self.log.of("scored"):
            for run in line["runs"]:
                report = private / RUNS / line["entry"] / str(run["number"]) / REPORT
                name = f"{run_id(line['entry'], run['number'])}.json"
                _renew(public / REPORTS / name, report.read_bytes())


def _renew(path: Path, content: bytes) -> None:
    """Write a file that follows from the log, unless it is there already."""
    if not path.exists() or path.read_bytes() != content:
        keep(path, content)


@contextmanager
def hosting(place: Place, config: Mapping[str, Any], prepare: Callable[[Document, bytes], None]) -> Iterator[Host]:
    """The contest of this folder, opened if it is new. `prepare` tries its rules before anything is published."""
    need_signatures()
    is_new = not place.is_open
    rules = rules_of(config) if is_new else None
    is_first = not place.private.exists()
    place.private.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(place.private / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ConfigError(f"output={place.public} is hosted by another process: wait until it ends") from None
    try:
        tidy(place)
        _refuse_used(place) if is_new else _refuse_lost_keys(place)
        key, secret = open_key(place.private / KEY), _open_secret(place.private / SECRET)
        log = open_log(place.public, key)
        _refuse_older(place, log, key)
        if log.lines:
            manifest = read_signed(place.public / MANIFEST)
            _refuse_other_contest(manifest, log, key, secret)
            refuse_other_rules(manifest, config)
        else:
            manifest = _new_manifest(rules or rules_of(config), key, secret)
            try:
                prepare(manifest, secret)
            except BaseException:
                if is_first:  # rules that can't be used leave nothing
                    shutil.rmtree(place.private)
                raise
            open_contest(place, manifest, log)
        _remember(place)
        yield Host(place, key, secret, manifest, log)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise JobFailedError(f"the disk is full ({place.public}): make room and run the same command again") from None
    finally:
        lock.release()


def _refuse_used(place: Place) -> None:
    """A secret that was revealed, or that runs were made with, is no secret of a new contest."""
    used = [name for name in (HEAD, RUNS, ENTRIES) if (place.private / name).exists()]
    if used:
        raise ConfigError(
            f"host.private={place.private} is of a contest that was opened before (it has {used[0]}), and its secret "
            "may be known: name another folder, host.private=DIR, or bring that contest's published folder back"
        )


def _refuse_lost_keys(place: Place) -> None:
    for name in (KEY, SECRET):
        if not (place.private / name).exists():
            raise ConfigError(
                f"{place.private / name} is missing, and the contest is open: bring back the file that it was opened "
                "with, or name its folder, host.private=DIR"
            )


def _refuse_older(place: Place, log: Log, key: Key) -> None:
    """A published folder from a backup has lost lines that were promised: their numbers must not be given again."""
    head = read_head(place.private, key.public)
    try:
        refuse_lost(log.lines, head)
    except DamagedError as error:
        raise ConfigError(
            f"output={place.public} ends before what {place.private / HEAD} remembers ({error}): "
            "bring the last published folder back"
        ) from None


def _remember(place: Place) -> None:
    _renew(place.private / HEAD, (place.public / HEAD).read_bytes())


def _open_secret(path: Path) -> bytes:
    if not path.exists():
        keep(path, os.urandom(32).hex().encode() + b"\n", mode=0o600)
    return read_secret(path)


def _new_manifest(rules: Document, key: Key, secret: bytes) -> Document:
    return {
        "format": FORMAT,
        "name": rules["contest"]["name"],
        "rules": rules,
        "commitment": commitment_to(secret),
        "public_key": key.public,
        "versions": {"whest": __version__, "meter": METER_VERSION},
    }


def open_contest(place: Place, manifest: Document, log: Log) -> None:
    """Publish the rules and the commitment. The log's first line names both, and it is what makes the contest."""
    content = canonical(manifest) + b"\n"
    keep(place.public / MANIFEST, content)
    told = {name: manifest[name] for name in ("commitment", "public_key")}
    log.append("opened", contest=manifest["name"], manifest=sha256(content), **told)


def _refuse_other_contest(manifest: Document, log: Log, key: Key, secret: bytes) -> None:
    if sha256(canonical(manifest) + b"\n") != log.lines[0]["manifest"]:
        raise ConfigError(f"{MANIFEST} is not the one that the log's first line names: bring the published one back")
    if (manifest["public_key"], manifest["commitment"]) != (key.public, commitment_to(secret)):
        raise ConfigError("the private folder is of another contest: name the right one, host.private=DIR")
