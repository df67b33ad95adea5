"""A list of findings: what was looked at, how it stands, and how to mend what is wrong."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whest.cache import write_atomically

Status = Literal["ok", "warn", "fail"]
COLOURS: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    """What to do about it; empty where all is well."""


def worst(findings: Sequence[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        colour = COLOURS[finding.status]
        table.add_row(f"[{colour}]{finding.status}[/]", escape(finding.name), escape(finding.detail))
        if finding.remedy:
            table.add_row("", "", f"[bold]→[/] {escape(finding.remedy)}")
    console.print(table)


def summary(findings: Sequence[Finding], unit: str) -> str:
    counts = {status: sum(finding.status == status for finding in findings) for status in COLOURS}
    told = [f"{counts['ok']} of {len(findings)} {unit} are fine"]
    told += [f"{counts['warn']} to look at"] if counts["warn"] else []
    told += [f"{counts['fail']} failed"] if counts["fail"] else []
    return ", ".join(told)


def save_findings(findings: Sequence[Finding], about: dict[str, object], path: Path) -> None:
    document = {**about, "status": worst(findings), "findings": [asdict(finding) for finding in findings]}
    write_atomically(path, json.dumps(document, indent=2, allow_nan=False).encode())
