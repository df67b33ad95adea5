"""A board: the entries of one track under a policy, the unranked entries with their reasons, and the other tracks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from whest.boards.entries import Entry, Status, sidelined
from whest.boards.policies import Direction, Policy, Row
from whest.errors import ConfigError, WhestError

ORDER: tuple[Status, ...] = ("reference", "late", "unfinished", "invalid", "disqualified", "tampered", "legacy")
"""The order of the unranked rows."""
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Track:
    """Runs that share a protocol hash."""

    protocol: str
    rule: str
    words: str
    n_runs: int
    latest: datetime | None
    is_aside: bool = False
    """Of another price list: shown only if leaderboard.protocol names it."""
    version: int = 0
    """Of the rule."""


@dataclass(frozen=True)
class Board:
    """The rows of one track, ranked and unranked."""

    rule: str
    direction: Direction
    policy: str
    deadline: datetime | None
    track: Track
    why: str
    """How the track was chosen."""
    rows: tuple[Row, ...]
    other_tracks: tuple[Track, ...]

    @property
    def ranked(self) -> list[Row]:
        return [row for row in self.rows if row.rank is not None]


def make_board(policy: Policy, entries: Sequence[Entry]) -> Board:
    """Choose the track, set aside the entries that don't count, rank the others."""
    tracks = find_tracks(entries)
    track, why = choose_track(policy, tracks)
    ours = [entry for entry in entries if entry.rule == policy.rule and entry.protocol == track.protocol]
    reasons = {entry.run_id: sidelined(entry, policy.deadline) for entry in ours}
    rows = policy.rank([entry for entry in ours if reasons[entry.run_id] is None])
    aside = [_unranked(entry, *reason) for entry in ours if (reason := reasons[entry.run_id]) is not None]
    aside += _legacy(policy, track, entries)
    return Board(
        rule=policy.rule,
        direction=policy.direction,
        policy=policy.words,
        deadline=policy.deadline,
        track=track,
        why=why,
        rows=told_apart([*rows, *sorted(aside, key=lambda row: ORDER.index(row.status))]),
        other_tracks=tuple(other for other in tracks if other != track),
    )


def told_apart(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The same rows, each with the knobs that differ between rows of one participant and estimator."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.participant, row.estimator), []).append(row)
    differ = {
        key: [knob for knob in dict.fromkeys(k for row in group for k in row.settings) if _differs(knob, group)]
        for key, group in groups.items()
    }
    return tuple(replace(row, knobs=_words(row, differ[row.participant, row.estimator])) for row in rows)


def _words(row: Row, knobs: Sequence[str]) -> str:
    return " ".join(f"{knob}={row.settings.get(knob, '–')}" for knob in knobs)


def _differs(knob: str, rows: Sequence[Row]) -> bool:
    """Whether the rows have different values. A row that could not be read has no knobs and says nothing."""
    return len({row.settings.get(knob) for row in rows if row.settings}) > 1


def find_tracks(entries: Sequence[Entry]) -> list[Track]:
    """All tracks, sorted by the number of unchanged runs; of equal numbers the latest first."""
    keys = dict.fromkeys((entry.rule, entry.protocol) for entry in entries)
    tracks = [_track(*key, [e for e in entries if (e.rule, e.protocol) == key]) for key in keys]
    return sorted(tracks, key=lambda track: (track.n_runs, track.latest or NEVER), reverse=True)


def choose_track(policy: Policy, tracks: Sequence[Track]) -> tuple[Track, str]:
    """The track that the config names, or the one with the most runs; and in words how it was chosen."""
    ours = sorted((track for track in tracks if track.rule == policy.rule), key=lambda track: -track.version)
    listed = ", ".join(f"{track.protocol} ({track.n_runs} runs)" for track in ours)
    if not ours:
        known = ", ".join(sorted({track.rule for track in tracks})) or "no rule"
        raise WhestError(
            f"leaderboard={policy.rule} has no runs, there are runs of {known}: score a run with scoring={policy.rule}"
        )
    if policy.protocol is None:
        ours = [track for track in ours if not track.is_aside]
        if not ours:
            raise WhestError(
                f"leaderboard={policy.rule} has only runs of other price lists: choose one of {listed} with "
                "leaderboard.protocol=…"
            )
        others = f" of {len(ours)} tracks" if len(ours) > 1 else ""
        others += ", by the newest rule" if len({track.version for track in ours}) > 1 else ""
        return ours[0], f"the one with the most runs{others}" if others else f"the only one of scoring={policy.rule}"
    found = [track for track in ours if track.protocol.startswith(policy.protocol)]
    if len(found) != 1:
        many = "matches several tracks" if found else "is no track of this board"
        raise ConfigError(f"leaderboard.protocol={policy.protocol} {many}: choose one of {listed}")
    return found[0], "as chosen"


def _track(rule: str, protocol: str, entries: Sequence[Entry]) -> Track:
    intact = [entry for entry in entries if entry.problem is None]
    dates = [entry.submitted_at for entry in intact if entry.submitted_at is not None]
    words = next((entry.track for entry in intact if entry.track), "")
    is_aside = any(entry.is_aside for entry in entries)
    version = max((entry.version for entry in intact), default=0)
    return Track(protocol, rule, words, len(intact), max(dates, default=None), is_aside, version)


def _unranked(entry: Entry, status: Status, note: str) -> Row:
    return Row(
        participant=entry.participant,
        status=status,
        score=entry.score,
        score_se=entry.score_se,
        note=note,
        estimator=entry.estimator,
        submitted_at=entry.submitted_at,
        run_ids=(entry.run_id,),
        folder=entry.folder,
        protection=entry.protection,
        settings=entry.knobs,
    )


def _legacy(policy: Policy, track: Track, entries: Sequence[Entry]) -> list[Row]:
    """Rows of the tracks that this one replaces, with their scores under the old rules.

    A run of the same data and budget under an older version of the rule is replaced, too.
    """
    old = {protocol for protocol in policy.supersedes if not track.protocol.startswith(protocol)}
    return [
        _unranked(entry, "legacy", f"track {entry.protocol}")
        for entry in entries
        if entry.rule == policy.rule
        and (any(entry.protocol.startswith(protocol) for protocol in old) or _is_older(entry, track))
    ]


def _is_older(entry: Entry, track: Track) -> bool:
    return entry.problem is None and 0 < entry.version < track.version and entry.track == track.words != ""
