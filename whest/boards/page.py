"""A board's page: the leader, the rows with their error bars, the unranked rows with reasons, and the other tracks."""

import os
from datetime import UTC
from pathlib import Path

from whest.boards.board import Board
from whest.boards.entries import Status
from whest.boards.policies import Row
from whest.notation import count, plus_minus
from whest.page import (
    Block,
    Cell,
    Code,
    Column,
    Fact,
    Fold,
    Headline,
    Interval,
    Intervals,
    Page,
    Section,
    Table,
    Text,
)
from whest.page.blocks import Tone

TONES: dict[Status, Tone] = {
    "official": "good",
    "reviewed": "good",
    "preliminary": "warn",
    "provisional": "warn",
    "late": "warn",
    "refused": "warn",
    "invalid": "bad",
    "disqualified": "bad",
    "tampered": "bad",
}

MOST_DRAWN = 30


def board_page(board: Board, folder: Path) -> Page:
    """The page. Its links to runs are relative to `folder`, where it is saved."""
    aside = [row for row in board.rows if row.rank is None]
    blocks: list[Block] = [_headline(board)]
    if board.ranked:
        blocks += [Section("Ranking", [_table(board, board.ranked, folder), _scores(board)], board.policy)]
    if aside:
        note = "These runs are shown with the reason why they are not ranked."
        blocks.append(Section("Not ranked", [_table(board, aside, folder)], note))
    if board.other_tracks:
        note = "They have other protocol hashes: their scores are not comparable with these."
        title = f"{count(len(board.other_tracks), 'other track')}"
        blocks.append(Section("Other tracks", [Fold(title, [_tracks(board)])], note))
    again = f"python -m whest job=leaderboard leaderboard={board.rule} leaderboard.protocol={board.track.protocol}"
    deadline = f" leaderboard.deadline={board.deadline.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if board.deadline else ""
    blocks.append(Section("Make it again", [Code(again + deadline)], "It reads logged scores and computes none."))
    subtitle = f"track {board.track.protocol}, {board.why}: {board.track.words}"
    return Page(f"{board.rule} leaderboard", subtitle, blocks, kind="leaderboard", is_wide=True)


def _headline(board: Board) -> Headline | Text:
    if not board.ranked:
        return Text("Nothing is ranked yet.", tone="warn")
    first = board.ranked[0]
    shared = [row.participant for row in board.ranked if row.rank == 1]
    who = first.participant if len(shared) == 1 else f"{len(shared)} share the first rank: {', '.join(shared)}"
    facts = [
        Fact("ranked", str(len(board.ranked))),
        Fact("not ranked", str(len(board.rows) - len(board.ranked))),
        Fact("runs on this track", str(board.track.n_runs)),
        Fact("deadline", f"{board.deadline:%Y-%m-%d %H:%M %Z}" if board.deadline else "none"),
    ]
    score = plus_minus(first.score, first.score_se)
    return Headline(who, score, f"{board.direction} is better; {first.status}", facts=facts)


def _table(board: Board, rows: list[Row], folder: Path) -> Table:
    weighted = any(row.weight is not None for row in board.rows)
    knobbed = any(row.knobs for row in board.rows)
    columns: list[Column | str] = [
        Column("rank", is_numeric=True),
        Column("participant", is_wrapped=True),
        Column("score ± SE", is_numeric=True),
        *[Column("weight", "a dry run", is_numeric=True)] * weighted,
        "status",
        "protection",
        Column("note", is_wrapped=True),
        Column("estimator", is_wrapped=True),
        *[Column("knobs", "what tells rows of one participant apart", is_wrapped=True)] * knobbed,
        Column("runs", "the best of these, or the mean over them"),
        Column("submitted (UTC)", is_wrapped=True),
        "run",
    ]
    cells = [
        [
            row.rank,
            row.participant,
            Cell(plus_minus(row.score, row.score_se), sort=row.score),
            *[row.weight] * weighted,
            Cell(row.status, tone=TONES.get(row.status, "plain")),
            row.protection or "–",
            row.note,
            row.estimator,
            *[row.knobs] * knobbed,
            row.n_runs,
            f"{row.submitted_at:%Y-%m-%d %H:%M}" if row.submitted_at else "–",
            Cell(", ".join(run_id[:8] for run_id in row.run_ids), href=_link(row, folder)),
        ]
        for row in rows
    ]
    return Table(columns, cells, f"{len(rows)} rows")


def _link(row: Row, folder: Path) -> str | None:
    """A link to the run's page, if it is on this machine."""
    if row.folder is None or not (row.folder / "report.html").exists():
        return None
    return Path(os.path.relpath(row.folder / "report.html", folder)).as_posix()


def _tracks(board: Board) -> Table:
    rows = [(track.protocol, track.rule, track.n_runs, track.words) for track in board.other_tracks]
    return Table(["protocol", "scoring", "runs", Column("data", is_wrapped=True)], rows, f"{len(rows)} tracks")


def _scores(board: Board) -> Intervals:
    """The scores with their errors, in order of rank."""
    rows = board.ranked[:MOST_DRAWN]
    found = [
        Interval(
            f"{row.rank}  {row.participant} {row.knobs}".rstrip(),
            score := row.score or 0.0,
            score - (row.score_se or 0.0),
            score + (row.score_se or 0.0),
            plus_minus(row.score, row.score_se),
        )
        for row in rows
    ]
    scores = [row.value for row in found]
    cut = f" The first {MOST_DRAWN} of {len(board.ranked)}." if len(board.ranked) > MOST_DRAWN else ""
    caption = f"Scores, {board.direction} is better. Bars are one standard error.{cut}"
    return Intervals(found, caption, is_log=min(scores) > 0 and max(scores) > 20 * min(scores))
