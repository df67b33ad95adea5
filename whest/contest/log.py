"""The contest's log: JSON lines, each with the sha256 of the line before and of itself.

A line is written and synced first; then the head, a small signed file, names it. What the head names was acknowledged:
it may never go. A last line that is torn and that no head names was never promised to anybody, so it is dropped.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from whest.contest.keys import Document, Key, canonical, is_signed, sha256
from whest.contest.storage import HEAD, LOG, keep, settle
from whest.errors import JobFailedError
from whest.files import TooLargeError, parse_document, read_bounded

FIRST = "0" * 64
"""What stands for the line before the first."""
LARGEST_LOG = 2**28
LARGEST_LINE = 2**22
LARGEST_INTAKE = 2**25
"""No file is taken in beyond this: what is there can still be scored, judged and closed, and its board be read."""
OWN = ("n", "before", "sha256")
"""The fields of the chain itself."""


class DamagedError(JobFailedError):
    """A log that is not what it was. `line` is the number of the first wrong line, if one can be named."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


def shown_line(n: int) -> str:
    """A line as people are told of it: as an editor counts, from 1. In the chain the first has n = 0."""
    return f"{LOG}, line {n + 1}"


def line_of(n: int, before: str, fields: Document) -> Document:
    assert not set(OWN) & set(fields), "the chain's own fields"
    body = {**fields, "n": n, "before": before}
    return {**body, "sha256": sha256(canonical(body))}


def read_line(text: bytes, n: int, before: str) -> Document:
    """One line of the chain; an error that names it if it is not what it says."""
    try:
        if len(text) > LARGEST_LINE:
            raise ValueError("it is too long")
        line = parse_document(text)
        own = {name: value for name, value in line.items() if name not in OWN}
        if canonical(line_of(n, before, own)) != text:
            raise ValueError("its sha256, its number or the sha256 of the line before it does not fit")
    except (ValueError, AttributeError, TypeError) as error:
        reason = str(error) if not isinstance(error, json.JSONDecodeError) else "it is no JSON"
        raise DamagedError(f"{shown_line(n)}: {reason}", n) from None
    return dict(line)


def read_lines(content: bytes) -> tuple[list[Document], bytes]:
    """The whole lines of a log, checked, and what follows the last line feed."""
    *whole, rest = content.split(b"\n")
    lines: list[Document] = []
    for n, text in enumerate(whole):
        lines.append(read_line(text, n, lines[-1]["sha256"] if lines else FIRST))
    return lines, rest


def read_log(folder: Path) -> bytes:
    try:
        return read_bounded(folder / LOG, LARGEST_LOG)
    except (OSError, TooLargeError) as error:
        raise DamagedError(f"{LOG} can't be read: {getattr(error, 'strerror', None) or error}") from None


def read_signed(path: Path, most: int = LARGEST_LINE) -> Document:
    """A signed file, in the one way that it can be written. The signature is not checked here."""
    try:
        content = read_bounded(path, most)
        document = parse_document(content)
        if not isinstance(document, dict) or canonical(document) + b"\n" != content:
            raise ValueError("it was not written by whest in this form")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or (
            "it is no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
        )
        raise DamagedError(f"{path.name}: {reason}") from None
    return document


@dataclass
class Log:
    """The log of a contest that this process hosts. Only one process may, which a lock sees to."""

    folder: Path
    key: Key
    lines: list[Document] = field(default_factory=list)

    def append(self, kind: str, **fields: Any) -> Document:
        """Write a line, then acknowledge it."""
        before = self.lines[-1]["sha256"] if self.lines else FIRST
        stamp = self.now().isoformat(timespec="milliseconds")
        line = line_of(len(self.lines), before, {"kind": kind, "at": stamp, **fields})
        content = canonical(line) + b"\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refuse_too_large(kind, len(content))
        with (self.folder / LOG).open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not self.lines:
            settle(self.folder)
        self.lines.append(line)
        self.acknowledge()
        return line

    def now(self) -> datetime:
        """The clock, which never goes back: no line is older than the one before it."""
        now = datetime.now(UTC)
        last = self.lines[-1].get("at") if self.lines else None
        return now if last is None else max(now, datetime.fromisoformat(last))

    def _refuse_too_large(self, kind: str, size: int) -> None:
        """Before anything is written: a log that nobody can read any more would end the contest."""
        path, most = self.folder / LOG, LARGEST_INTAKE if kind == "received" else LARGEST_LOG
        there = path.stat().st_size if path.exists() else 0
        if size - 1 > LARGEST_LINE or there + size > most:
            remedy = "run job=host without inbox= to score and close" if kind == "received" else "close the contest"
            raise JobFailedError(f"{path} has {there:,} bytes, and at most {most:,} are allowed: {remedy}")

    def acknowledge(self) -> None:
        """Sign the head. What it names is promised."""
        last = self.lines[-1]
        head = {"n": last["n"], "sha256": last["sha256"], "contest": self.lines[0]["contest"]}
        keep(self.folder / HEAD, self.key.signed(head))

    def of(self, kind: str) -> list[Document]:
        return [line for line in self.lines if line["kind"] == kind]


def open_log(folder: Path, key: Key) -> Log:
    """The log as a crash may have left it: whole lines stay, a torn one that was never acknowledged goes."""
    log = Log(folder, key)
    if not (folder / LOG).exists():
        return log
    content = read_log(folder)
    acknowledged = read_head(folder, key.public)
    log.lines, torn = read_promised(content, -1 if acknowledged is None else acknowledged["n"])
    refuse_lost(log.lines, acknowledged)
    if torn:
        with (folder / LOG).open("r+b") as file:
            file.truncate(len(content) - len(torn))
            os.fsync(file.fileno())
    if log.lines and (acknowledged is None or acknowledged["n"] < len(log.lines) - 1):
        log.acknowledge()
    return log


def read_promised(content: bytes, promised: int) -> tuple[list[Document], bytes]:
    """The lines of a log, and the bytes of a last line that is torn and was never promised."""
    try:
        return read_lines(content)
    except DamagedError as error:
        start = content.rstrip(b"\n").rfind(b"\n") + 1
        if error.line is None or error.line <= promised or error.line != content[:start].count(b"\n"):
            raise
        return read_lines(content[:start])[0], content[start:]


def read_head(folder: Path, public: str) -> Document | None:
    """The acknowledged end of the log; None before the first."""
    if not (folder / HEAD).exists():
        return None
    head = read_signed(folder / HEAD)
    if not is_signed(head, public) or type(head.get("n")) is not int:
        raise DamagedError(f"{HEAD}: its signature is not the contest's")
    return head


def refuse_lost(lines: Sequence[Document], head: Document | None) -> None:
    """A line that the head names must be there, as it was."""
    if head is None:
        return
    if head["n"] >= len(lines):
        raise DamagedError(f"{shown_line(head['n'])}: it was acknowledged and is gone, or is torn", head["n"])
    if lines[head["n"]]["sha256"] != head["sha256"]:
        raise DamagedError(f"{shown_line(head['n'])}: it is not the one that {HEAD} names", head["n"])
