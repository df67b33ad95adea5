"""The board of a contest: a function of its manifest and its log, so that anybody can make it again."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whest.boards.board import Board, Track, make_board
from whest.boards.entries import Entry
from whest.boards.page import board_page
from whest.boards.policies import Policy, Row
from whest.boards.show import to_csv, to_json
from whest.boards.verdicts import Verdict
from whest.contest.keys import Document, fingerprint
from whest.contest.rules import contest_of, policy_of, read_moment
from whest.contest.scoring import entry_of, run_id
from whest.page import Block, Code, Column, Page, Section, Table, Text, render


def contest_board(manifest: Mapping[str, Any], lines: Sequence[Document]) -> Board:
    """Ranked rows by the contest's policy; then what failed, and what was refused, with the reasons."""
    policy = policy_of(manifest)
    received = {line["entry"]: line for line in of_kind(lines, "received")}
    scored = of_kind(lines, "scored")
    verdicts = {line["entry"]: line for line in of_kind(lines, "verdict")}
    entries = [
        _entry(facts, received[line["entry"]], verdicts.get(line["entry"])) for line in scored for facts in line["runs"]
    ]
    board = make_board(policy, entries) if entries else empty_board(policy)
    rows = _with_twins(board.rows, received)
    failed = [_aside(received[line["entry"]], line["failed"]) for line in scored if line["failed"] is not None]
    refused = [_aside(line, line["refused"]) for line in received.values() if line["refused"] is not None]
    return replace(board, rows=(*rows, *failed, *refused))


def _with_twins(rows: Sequence[Row], received: Mapping[str, Document]) -> list[Row]:
    """A note on entries with the same bytes that came at the same moment: a person has to say whose they are."""
    same: dict[str, list[Document]] = defaultdict(list)
    for line in received.values():
        if line["refused"] is None:
            same[line["file_sha256"]].append(line)
    noted = []
    for row in rows:
        own = received[row.run_ids[0].partition("-")[0]]
        twins = [line for line in same[own["file_sha256"]] if line["participant"] != row.participant][:4]
        names = ", ".join(f"{line['entry']} of {line['participant']}" for line in twins)
        said = f"the same bytes as entry {names}, received at the same moment: the organiser decides" if twins else ""
        noted.append(replace(row, note="; ".join(filter(None, [row.note, said]))))
    return noted


def of_kind(lines: Sequence[Document], kind: str) -> list[Document]:
    return [line for line in lines if line["kind"] == kind]


def empty_board(policy: Policy) -> Board:
    track = Track("none yet", policy.rule, "nothing is scored yet", 0, None)
    return Board(
        policy.rule, policy.direction, policy.words, policy.deadline, track, "the contest's own", (), other_tracks=()
    )


def _entry(facts: Mapping[str, Any], line: Mapping[str, Any], judged: Mapping[str, Any] | None) -> Entry:
    """A run as the board's policy sees it. Its date is the entry's receipt."""
    verdict = None
    if judged is not None and judged["verdict"] != "reinstated":
        verdict = Verdict(judged["verdict"], judged["reason"], judged["at"])
    return entry_of(
        facts,
        run_id=run_id(line["entry"], facts["number"]),
        participant=line["participant"],
        submitted_at=read_moment(line["received_at"]),
        verdict=verdict,
        solution=(judged or {}).get("solution") or line["description"] or None,
    )


def _aside(line: Mapping[str, Any], reason: str) -> Row:
    status = "unfinished" if line["refused"] is None else "late" if reason.startswith("late:") else "refused"
    return Row(
        participant=line["participant"],
        status=status,  # type: ignore[arg-type]
        note=reason.removeprefix("late: "),
        estimator=line["estimator"],
        submitted_at=read_moment(line["received_at"]),
        run_ids=(line["entry"],),
    )


def board_files(manifest: Mapping[str, Any], lines: Sequence[Document]) -> dict[str, bytes]:
    """The board as JSON, as CSV and as a page. They depend on nothing else than the manifest and the log."""
    board = contest_board(manifest, lines)
    document = to_json(board) | {"contest": about(manifest, lines), "entries": descriptions(manifest, lines)}
    return {
        "board.json": json.dumps(document, indent=2, allow_nan=False).encode() + b"\n",
        "board.csv": to_csv(board).encode(),
        "board.html": render(contest_page(manifest, lines, board)).encode(),
    }


def about(manifest: Mapping[str, Any], lines: Sequence[Document]) -> Document:
    closed = of_kind(lines, "closed")
    return {
        "name": manifest["name"],
        "commitment": manifest["commitment"],
        "secret": closed[-1]["secret"] if closed else None,
        "public_key": manifest["public_key"],
        "fingerprint": fingerprint(manifest["public_key"]),
        "is_closed": bool(closed),
        "n_received": len(of_kind(lines, "received")),
    }


def descriptions(manifest: Mapping[str, Any], lines: Sequence[Document]) -> list[Document]:
    """Every entry with what its author says about it, winner or not."""
    shown = contest_of(manifest).descriptions
    solutions = {line["entry"]: line["solution"] for line in of_kind(lines, "verdict") if line["solution"]}
    return [
        {
            "entry": line["entry"],
            "participant": line["participant"],
            "estimator": line["estimator"],
            "sha256": line["file_sha256"],
            "refused": line["refused"],
            "description": solutions.get(line["entry"], line["description"]) if shown else "",
        }
        for line in of_kind(lines, "received")
    ]


def contest_page(manifest: Mapping[str, Any], lines: Sequence[Document], board: Board) -> Page:
    """The leaderboard's page with the contest's own facts in place of the command that reads MLflow."""
    page, told = board_page(board, Path()), about(manifest, lines)
    blocks: list[Block] = list(page.blocks[:-1])
    said = [each for each in descriptions(manifest, lines) if each["description"] and each["refused"] is None]
    if said:
        rows = [(each["entry"], each["participant"], each["estimator"], each["description"]) for each in said]
        table = Table(
            ["entry", "participant", "estimator", Column("description", is_wrapped=True)], rows, f"{len(rows)} entries"
        )
        blocks.append(Section("Descriptions", [table], "What the authors say, whether they won or not."))
    secret = told["secret"] or "not revealed before the contest is closed"
    facts = [
        ("key", told["fingerprint"]),
        ("commitment to the secret seed", told["commitment"]),
        ("secret seed", secret),
        ("received", str(told["n_received"])),
    ]
    check = Code(f"python -m whest job=verify board=. verify.key={told['fingerprint'][:16]}")
    words = [Text(contest_of(manifest).words)] if contest_of(manifest).words else []
    note = "In the published folder. Entries and reports are in it when the contest is closed."
    blocks.append(Section("Check it", [*words, Table(["", ""], facts, "the contest"), check], note))
    return replace(page, title=f"{manifest['name']}: {page.title}", blocks=blocks)
