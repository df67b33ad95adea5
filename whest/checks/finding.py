"""A list of findings: what was looked at, how it stands, and how to mend what is wrong."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from whest.files import write_atomically

Status = Literal["ok", "warn", "fail"]


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


def summary(findings: Sequence[Finding], unit: str) -> str:
    counts = {status: sum(finding.status == status for finding in findings) for status in get_args(Status)}
    told = [f"{counts['ok']} of {len(findings)} {unit} are fine"]
    told += [f"{counts['warn']} to look at"] if counts["warn"] else []
    told += [f"{counts['fail']} failed"] if counts["fail"] else []
    return ", ".join(told)


def save_findings(findings: Sequence[Finding], about: dict[str, object], path: Path) -> None:
    document = {**about, "status": worst(findings), "findings": [asdict(finding) for finding in findings]}
    write_atomically(path, json.dumps(document, indent=2, allow_nan=False).encode())
