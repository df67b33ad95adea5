"""Which entries are wanted: by estimator, round, tag, date and words; and the best of each protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated

from pydantic import Field

from whest.gallery.entry import Entry
from whest.notation import count


@dataclass(frozen=True)
class Wanted:
    """The config's `runs`. None means any."""

    estimator: str | None
    round: str | None
    tag: str | None
    protocol: str | None
    since: date | None
    kind: str | None
    last: Annotated[int, Field(ge=1, le=100_000)]

    def matches(self, entry: Entry) -> bool:
        return (
            (self.estimator is None or self.estimator in (entry.name, entry.participant))
            and (self.round is None or self.round == entry.round)
            and (self.tag is None or any(self.tag in (tag, tag.partition("=")[0]) for tag in entry.tags))
            and (self.protocol is None or entry.protocol.startswith(self.protocol))
            and (self.since is None or entry.started[:10] >= self.since.isoformat())
            and (self.kind is None or self.kind == entry.kind)
        )


@dataclass(frozen=True)
class Protocol:
    """The runs of one protocol, the oldest first, and the best of them."""

    hash: str
    runs: Sequence[Entry]
    best: Entry

    @property
    def words(self) -> str:
        """What tells it from other protocols, in a few words."""
        one = self.best
        budget = f"{one.budget:.3g} FLOPs" if one.budget else ""
        cases = count(one.n_cases, one.unit) if one.n_cases else ""
        return " · ".join(word for word in (one.rule, one.round, one.dataset, cases, budget, self.hash[:8]) if word)


def protocols_of(entries: Sequence[Entry]) -> list[Protocol]:
    """The protocols with a score, the one with most runs first."""
    groups: dict[str, list[Entry]] = {}
    for entry in reversed(entries):  # the newest come first
        if entry.is_ranked and entry.protocol:
            groups.setdefault(entry.protocol, []).append(entry)
    found = [Protocol(name, runs, _best(runs)) for name, runs in groups.items()]
    return sorted(found, key=lambda protocol: -len(protocol.runs))


def _best(runs: Sequence[Entry]) -> Entry:
    best = runs[0]
    for run in runs[1:]:
        best = run if run.is_better_than(best) else best
    return best


def so_far(runs: Sequence[Entry]) -> list[Entry]:
    """The runs that were the best so far when they were made."""
    steps: list[Entry] = []
    for run in runs:
        if not steps or run.is_better_than(steps[-1]):
            steps.append(run)
    return steps
