"""Verdicts: people's decisions about a run, saved as tags in MLflow. None is overwritten; the last one counts."""

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
    """disqualified: broke a rule; invalid: our failure, run it again; reviewed: checked; reinstated: none of these."""

    verdict: Ruling
    reason: str
    at: str


def verdict_tag(verdict: Ruling, reason: str, at: datetime) -> tuple[str, str]:
    """The tag of a verdict. The date is in its name, so that each verdict has its own tag."""
    if not reason.strip():
        raise ConfigError(f"judge.reason is missing: write why the run is {verdict}, judge.reason='…'")
    if len(reason) > LONGEST_REASON:
        raise ConfigError(f"judge.reason has {len(reason)} characters: use at most {LONGEST_REASON}")
    return f"{PREFIX}{at:%Y-%m-%dT%H:%M:%S.%fZ}", json.dumps({"verdict": verdict, "reason": reason}, ensure_ascii=False)


def read_verdicts(tags: Mapping[str, str]) -> list[Verdict]:
    """All verdicts on a run, oldest first. Other tags are ignored."""
    found = []
    for name in sorted(name for name in tags if name.startswith(PREFIX)):
        try:
            said = json.loads(tags[name])
            verdict, reason = said["verdict"], said["reason"]
        except (ValueError, KeyError, TypeError):
            continue
        if verdict in get_args(Ruling):
            found.append(Verdict(verdict, str(reason), name.removeprefix(PREFIX)))
    return found


def current_verdict(tags: Mapping[str, str]) -> Verdict | None:
    verdicts = read_verdicts(tags)
    return verdicts[-1] if verdicts and verdicts[-1].verdict != "reinstated" else None
