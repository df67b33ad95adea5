"""Verdicts: what people decided about a run, kept on it in MLflow; added, never overwritten, and the last counts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from whest.errors import ConfigError

Ruling = Literal["disqualified", "invalid", "reviewed", "reinstated"]

PREFIX = "verdict/"

LONGEST_REASON = 4000
"""MLflow cuts a tag at 8,000 characters."""


@dataclass(frozen=True)
class Verdict:
    """disqualified: broke a rule; invalid: our failure, to be rerun; reviewed: checked; reinstated: none of these."""

    verdict: Ruling
    reason: str
    at: str


def verdict_tag(verdict: Ruling, reason: str, at: datetime) -> tuple[str, str]:
    """The tag that keeps a verdict: named by its date, so that each is one of its own."""
    if not reason.strip():
        raise ConfigError(f"reason is missing: say why the run is {verdict}, reason='…'")
    if len(reason) > LONGEST_REASON:
        raise ConfigError(f"reason has {len(reason)} characters: say it in {LONGEST_REASON}")
    return f"{PREFIX}{at:%Y-%m-%dT%H:%M:%S.%fZ}", json.dumps({"verdict": verdict, "reason": reason}, ensure_ascii=False)


def read_verdicts(tags: Mapping[str, str]) -> list[Verdict]:
    """Every verdict on a run, oldest first; what isn't one of ours is passed over."""
    found = []
    for name in sorted(name for name in tags if name.startswith(PREFIX)):
        try:
            said = json.loads(tags[name])
            verdict, reason = said["verdict"], said["reason"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if verdict in get_args(Ruling):
            found.append(Verdict(verdict, str(reason), name.removeprefix(PREFIX)))
    return found


def current_verdict(tags: Mapping[str, str]) -> Verdict | None:
    verdicts = read_verdicts(tags)
    return verdicts[-1] if verdicts and verdicts[-1].verdict != "reinstated" else None
