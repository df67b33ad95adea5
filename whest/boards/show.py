"""How a board is shown and saved: on the console, as CSV, JSON and a page."""

import csv
import io
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whest.boards.board import Board, Track
from whest.boards.entries import Status
from whest.boards.page import board_page
from whest.boards.policies import Row
from whest.files import write_atomically
from whest.notation import inert, plus_minus, printable
from whest.page import render

COLOURS: dict[Status, str] = {
    "official": "green",
    "reviewed": "green",
    "preliminary": "yellow",
    "provisional": "yellow",
    "disqualified": "red",
    "tampered": "bold red",
    "invalid": "red",
}

COLUMNS = (
    "rank",
    "participant",
    "estimator",
    "knobs",
    "score",
    "score_se",
    "weight",
    "status",
    "protection",
    "n_runs",
    "submitted_at",
    "note",
    "run_ids",
)


def save_board(board: Board, folder: Path) -> Path:
    """Write board.csv, board.json and board.html, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "board.csv", to_csv(board).encode())
    write_atomically(folder / "board.json", json.dumps(to_json(board), indent=2, allow_nan=False).encode())
    write_atomically(folder / "board.html", render(board_page(board, folder)).encode())
    return folder


def to_json(board: Board) -> dict[str, Any]:
    return {
        "leaderboard": board.rule,
        "policy": board.policy,
        "direction": board.direction,
        "deadline": _stamp(board.deadline),
        "track": _track(board.track),
        "track_chosen": board.why,
        "rows": [_row(row) for row in board.rows],
        "other_tracks": [_track(track) for track in board.other_tracks],
    }


def to_csv(board: Board) -> str:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in board.rows:
        cells = _row(row) | {"run_ids": " ".join(row.run_ids)}
        writer.writerow({name: inert(cell) for name, cell in cells.items()})
    return file.getvalue()


def print_board(board: Board, folder: Path, console: Console) -> None:
    console.print(f"[bold]{board.rule} leaderboard[/], {board.direction} is better: {escape(board.policy)}")
    console.print(f"track {_words(board.track.protocol)}, {board.why}: {_words(board.track.words)}", soft_wrap=True)
    if board.deadline is not None:
        console.print(f"deadline {_stamp(board.deadline)}")
    console.print(_table(board))
    if board.other_tracks:
        console.print(_track_table(board))
    console.print(f"saved    {escape(str(folder))}: board.html, board.csv, board.json", soft_wrap=True)


def _table(board: Board) -> Table:
    weighted = any(row.weight is not None for row in board.rows)
    knobbed = any(row.knobs for row in board.rows)
    table = Table(box=None, header_style="bold")
    names = [
        "rank",
        "participant",
        "estimator",
        *["knobs"] * knobbed,
        "score",
        *["weight"] * weighted,
        "runs",
        "status",
        "protection",
        "run",
        "note",
    ]
    for name in names:
        table.add_column(name, justify="right" if name in ("rank", "weight", "runs") else "left", overflow="fold")
    for row in board.rows:
        colour = COLOURS.get(row.status, "default")
        table.add_row(
            str(row.rank or "–"),
            _words(row.participant),
            _words(row.estimator),
            *[_words(row.knobs)] * knobbed,
            plus_minus(row.score, row.score_se),
            *["–" if row.weight is None else f"{row.weight:.4f}"] * weighted,
            str(row.n_runs),
            f"[{colour}]{row.status}[/]",
            escape(row.protection or "–"),
            ", ".join(run_id[:8] for run_id in row.run_ids),
            _words(row.note),
        )
    return table


def _track_table(board: Board) -> Table:
    title = "other tracks: their scores are not comparable with these"
    table = Table(box=None, header_style="bold", title=title, title_justify="left")
    for name in ("protocol", "scoring", "runs", "data"):
        table.add_column(name)
    for track in board.other_tracks:
        table.add_row(_words(track.protocol), _words(track.rule), str(track.n_runs), _words(track.words))
    return table


def _words(text: str) -> str:
    """A record's own words: no markup, and nothing that a terminal would act on."""
    return escape(printable(text))


def _row(row: Row) -> dict[str, Any]:
    values = asdict(row) | {"submitted_at": _stamp(row.submitted_at), "run_ids": list(row.run_ids)}
    return {name: values[name] for name in COLUMNS}


def _track(track: Track) -> dict[str, Any]:
    return asdict(track) | {"latest": _stamp(track.latest)}


def _stamp(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment else None
