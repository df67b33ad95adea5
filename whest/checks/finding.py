"""Findings of checks: a name, a status, details, and a remedy for a problem."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from whest.files import write_atomically

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    """How to fix the problem; empty if there is none."""


def worst(findings: Sequence[Finding]) -> Status:
    found = {finding.status for finding in findings}
    return "fail" if "fail" in found else "warn" if "warn" in found else "ok"


def summary(findings: Sequence[Finding], unit: str) -> str:
    counts = {status: sum(finding.status == status for finding in findings) for status in get_args(Status)}
    parts = [f"{counts['ok']} of {len(findings)} {unit} are fine"]
    parts += [f"{counts['warn']} with a warning"] if counts["warn"] else []
    parts += [f"{counts['fail']} failed"] if counts["fail"] else []
    return ", ".join(parts)


def save_findings(findings: Sequence[Finding], about: dict[str, object], path: Path) -> None:
    document = {**about, "status": worst(findings), "findings": [asdict(finding) for finding in findings]}
    write_atomically(path, json.dumps(document, indent=2, allow_nan=False).encode())
