"""Policies: they turn a board's entries into ranked rows. A policy is a pure function: it uses no clock and no file."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AwareDatetime, Field

from whest.boards.entries import Entry, Status

Direction = Literal["lower", "higher"]
Key = Callable[[Entry], Any]
EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    """One line of a board."""

    participant: str
    status: Status
    score: float | None = None
    score_se: float | None = None
    rank: int | None = None
    """None for a row that is shown but not ranked."""
    note: str = ""
    estimator: str = ""
    n_runs: int = 1
    """The number of runs that the score is the best of, or the number of seeds that it is the mean of."""
    submitted_at: datetime | None = None
    run_ids: tuple[str, ...] = ()
    weight: float | None = None
    folder: Path | None = None
    """The folder of its run's files."""
    protection: str = ""
    """trusted, protected or unprotected."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """All knobs of the row's config."""
    knobs: str = ""
    """The knobs that tell this row from others of the same participant and estimator; empty if there are none."""


class Policy(Protocol):
    """Ranks the entries that count."""

    rule: ClassVar[str]
    direction: ClassVar[Direction]
    words: ClassVar[str]
    """The policy in one sentence."""

    @property
    def protocol(self) -> str | None: ...

    @property
    def deadline(self) -> datetime | None: ...

    @property
    def supersedes(self) -> list[str]: ...

    def rank(self, entries: Sequence[Entry]) -> list[Row]: ...


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The keys that all boards have."""

    protocol: str | None
    """The track's hash, or its first characters; None: the track with the most runs."""
    deadline: AwareDatetime | None
    supersedes: list[str]
    """Tracks that this one replaces: their rows are shown as legacy."""


@dataclass(frozen=True, kw_only=True)
class WhestPolicy(Terms):
    """`leaderboard=whest`: the lowest score first; equal scores share a rank."""

    rule: ClassVar[str] = "whest"
    direction: ClassVar[Direction] = "lower"
    words: ClassVar[str] = "each participant's lowest score; equal scores share a rank"

    def rank(self, entries: Sequence[Entry]) -> list[Row]:
        rows = best_of_each(entries, lambda entry: (entry.score, *_earliest(entry)))
        ranks = shared_ranks([row.score for row in rows])
        return [replace(row, rank=rank) for row, rank in zip(rows, ranks, strict=True)]


@dataclass(frozen=True, kw_only=True)
class FhermaPolicy(Terms):
    """`leaderboard=fherma`: the best before the deadline win. They are preliminary until their solution is reviewed."""

    rule: ClassVar[str] = "fherma"
    direction: ClassVar[Direction] = "higher"
    words: ClassVar[str] = (
        "each participant's highest score; the earliest wins a tie; winners are preliminary until they are reviewed"
    )

    n_winners: Annotated[int, Field(ge=1)]

    def rank(self, entries: Sequence[Entry]) -> list[Row]:
        by_id = {entry.run_id: entry for entry in entries}
        rows = best_of_each(entries, lambda entry: (-_score(entry), *_earliest(entry)))
        return [self._placed(row, by_id[row.run_ids[0]], rank) for rank, row in enumerate(rows, start=1)]

    def _placed(self, row: Row, entry: Entry, rank: int) -> Row:
        if rank > self.n_winners:
            return replace(row, rank=rank)
        if entry.ruling == "reviewed" and entry.solution:
            return replace(row, rank=rank, status="reviewed", note=f"solution: {entry.solution}")
        missing = "its review" if entry.solution else "a description of its solution"
        return replace(row, rank=rank, status="preliminary", note=f"waits for {missing}")


@dataclass(frozen=True, kw_only=True)
class PrismPolicy(Terms):
    """`leaderboard=prism`: scores are rounded to a grid, the earliest wins a tie, weights are a dry run."""

    rule: ClassVar[str] = "prism"
    direction: ClassVar[Direction] = "higher"
    words: ClassVar[str] = (
        "each participant's highest score, rounded to a grid; the earliest wins a tie; weights are a dry run"
    )

    grid: Annotated[float, Field(gt=0)]

    def rank(self, entries: Sequence[Entry]) -> list[Row]:
        rows = best_of_each(entries, self.order)
        weights = normalised_weights([row.score for row in rows])
        return [
            replace(row, rank=rank, weight=weight)
            for rank, (row, weight) in enumerate(zip(rows, weights, strict=True), start=1)
        ]

    def order(self, entry: Entry) -> tuple[int, datetime, str]:
        return -math.floor(_score(entry) / self.grid + 0.5), *_earliest(entry)


@dataclass(frozen=True, kw_only=True)
class AriPolicy(Terms):
    """`leaderboard=ari`: means over seeds; rows with overlapping error bars share a rank."""

    rule: ClassVar[str] = "ari"
    direction: ClassVar[Direction] = "higher"
    words: ClassVar[str] = (
        "means over seeds ± SE; rows with overlapping intervals share a rank; rows with too few seeds are provisional"
    )

    n_seeds: Annotated[int, Field(ge=2)]
    """The number of distinct seeds that an official row needs."""
    demo_counts: bool
    """Whether rows of the demo exam can be official. Anybody can make that exam, so a note marks its rows."""

    def rank(self, entries: Sequence[Entry]) -> list[Row]:
        groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in sorted(entries, key=_earliest):
            groups[entry.participant, entry.config].append(entry)
        rows = [self._row(group) for group in groups.values()]
        official = [row for row in rows if row.status == "official"]
        ranks = overlap_ranks([(row.score or 0.0, row.score_se or 0.0) for row in official])
        placed = [replace(row, rank=rank) for row, rank in zip(official, ranks, strict=True)]
        placed.sort(key=lambda row: (row.rank, -(row.score or 0.0)))
        return placed + sorted((row for row in rows if row.status != "official"), key=lambda row: -(row.score or 0.0))

    def _row(self, group: Sequence[Entry]) -> Row:
        """Each seed counts once, with its first run, so that nobody can repeat a seed until it is lucky."""
        seeds: dict[int | None, Entry] = {}
        for entry in group:
            seeds.setdefault(entry.seed, entry)
        counted = list(seeds.values())
        mean, error = mean_and_se([_score(entry) for entry in counted])
        missing = self.n_seeds - len(counted)
        is_demo = any(entry.is_demo for entry in counted)
        is_provisional = missing > 0 or (is_demo and not self.demo_counts)
        notes = [f"{missing} more seeds make it official"] * (missing > 0) + ["scored on the demo exam"] * is_demo
        return Row(
            participant=counted[0].participant,
            status="provisional" if is_provisional else "official",
            score=mean,
            score_se=error,
            note="; ".join(notes),
            estimator=counted[0].estimator,
            n_runs=len(counted),
            submitted_at=max((entry.submitted_at for entry in counted if entry.submitted_at), default=None),
            run_ids=tuple(entry.run_id for entry in counted),
            protection=shared_protection(counted),
            settings=counted[0].knobs,
        )


def shared_protection(entries: Sequence[Entry]) -> str:
    """The weakest protection among the runs of one row."""
    found = {entry.protection for entry in entries}
    return next((status for status in ("", "unprotected", "protected") if status in found), "trusted")


def best_of_each(entries: Iterable[Entry], key: Key) -> list[Row]:
    """Each participant's first entry in the order of the key."""
    taken: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=key):
        taken[entry.participant].append(entry)
    return [
        Row(
            participant=name,
            status="ranked",
            score=runs[0].score,
            score_se=runs[0].score_se,
            estimator=runs[0].estimator,
            n_runs=len(runs),
            submitted_at=runs[0].submitted_at,
            run_ids=(runs[0].run_id,),
            folder=runs[0].folder,
            protection=runs[0].protection,
            settings=runs[0].knobs,
        )
        for name, runs in taken.items()
    ]


def shared_ranks(keys: Sequence[object]) -> list[int]:
    """Ranks of sorted keys; equal keys share one: 1, 2, 2, 4."""
    ranks: list[int] = []
    for place, key in enumerate(keys):
        ranks.append(ranks[-1] if place and key == keys[place - 1] else place + 1)
    return ranks


def overlap_ranks(intervals: Sequence[tuple[float, float]]) -> list[int]:
    """A rank for each mean ± error. Chains of overlapping intervals share one; a scan from the top finds them."""
    order = sorted(range(len(intervals)), key=lambda i: -sum(intervals[i]))
    ranks, lowest, rank = [0] * len(intervals), math.inf, 0
    for place, i in enumerate(order):
        mean, error = intervals[i]
        if mean + error < lowest or not place:
            rank = place + 1
        lowest = min(lowest, mean - error)
        ranks[i] = rank
    return ranks


def normalised_weights(scores: Sequence[float | None]) -> list[float | None]:
    """Positive scores as shares of their sum; None for the others."""
    total = math.fsum(score for score in scores if score is not None and score > 0)
    return [score / total if score is not None and score > 0 else None for score in scores]


def mean_and_se(scores: Sequence[float]) -> tuple[float, float | None]:
    return fmean(scores), stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else None


def _score(entry: Entry) -> float:
    assert entry.score is not None, "`sidelined` removes entries without a score"
    return entry.score


def _earliest(entry: Entry) -> tuple[datetime, str]:
    return entry.submitted_at or EVER, entry.run_id
