"""Whose a name is, and who was first: by what the host saw, and not by what others can move."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import whest
from tests.support.contests import RULES, put, sealed_constant
from whest.contest import ledger as ledgers
from whest.contest.board import contest_board
from whest.contest.host import Host, hosting
from whest.contest.ledger import Ledger
from whest.contest.published import Published
from whest.contest.rules import contest_of
from whest.contest.storage import place_of
from whest.contest.story import check_story
from whest.contest.verify import check_decisions

FIRST, SECOND, THIRD = (sealed_constant(value) for value in (0.5, 0.25, 0.75))


@contextmanager
def opened(folder: Path, *words: str) -> Iterator[Host]:
    config = whest.compose("job=host", *RULES, "contest.entries_per_participant=2", *words)
    with hosting(place_of(folder, None), config, lambda manifest, secret: None) as host:
        yield host


def taken_in(host: Host, inbox: Path) -> dict[str, str | None]:
    """What the log says of each file. Anybody decides the same from the log."""
    host.take_in(inbox)
    published = Published(host.place.public, host.manifest, host.log.lines)
    assert [*check_decisions(published), *check_story(published)] == []
    return {line["file"]: line["refused"] for line in host.log.of("received")}


def test_junk_of_others_under_a_name_costs_its_owner_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "MOST_REFUSED", 3)
    inbox = tmp_path / "inbox"
    for number in range(6):
        put(inbox, f"ADA.{number}.whest", b"junk", number)
    with opened(tmp_path / "spring") as host:
        host.take_in(inbox)
        put(inbox, "ada/first.whest", FIRST, 10)
        reasons = taken_in(host, inbox)
        assert len(reasons) == 5  # three refused, one that says that it is enough, and hers
        assert reasons["ada/first.whest"] is None
        for number in range(6):
            put(inbox, f"ada.{number}.whest", SECOND, 20 + number)
        reasons = taken_in(host, inbox)
        assert reasons["ada.0.whest"] == "the inbox has a folder of this name: only files in it are taken"
        put(inbox, "ada/second.whest", SECOND, 40)
        assert taken_in(host, inbox)["ada/second.whest"] is None
        assert [line["participant"] for line in host.unscored()] == ["ada", "ada"]


def test_other_spellings_use_up_nobodys_quota(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    put(inbox, "ada/first.whest", FIRST, 1)
    with opened(tmp_path / "spring") as host:
        host.take_in(inbox)
        put(inbox, "Ada/one.whest", SECOND, 2)
        put(inbox, "ADA.two.whest", THIRD, 3)
        reasons = taken_in(host, inbox)
        for name in ("Ada/one.whest", "ADA.two.whest"):
            assert str(reasons[name]).startswith("the name belongs to the folder ada/ by its first entry"), reasons
        put(inbox, "ada/second.whest", SECOND, 4)
        assert taken_in(host, inbox)["ada/second.whest"] is None


def test_spellings_of_one_scan_lock_nobody_out(tmp_path: Path) -> None:
    """Each has its own quota; the next scan takes no third spelling."""
    inbox = tmp_path / "inbox"
    put(inbox, "ADA/one.whest", SECOND, 1)
    put(inbox, "ADA/two.whest", THIRD, 1)
    put(inbox, "ada/first.whest", FIRST, 2)
    with opened(tmp_path / "spring", "contest.received=host") as host:
        assert set(taken_in(host, inbox).values()) == {None}
        put(inbox, "Ada/one.whest", sealed_constant(0.875), 3)
        assert str(taken_in(host, inbox)["Ada/one.whest"]).startswith("the name belongs to the folder ")


def test_a_folder_that_another_makes_stops_no_sender_of_files(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    put(inbox, "ada.first.whest", FIRST, 1)
    with opened(tmp_path / "spring") as host:
        host.take_in(inbox)
        put(inbox, "ada/stolen.whest", SECOND, 2)
        put(inbox, "ada.second.whest", THIRD, 3)
        reasons = taken_in(host, inbox)
    assert str(reasons["ada/stolen.whest"]).startswith("the name belongs to files that begin with ada.")
    assert reasons["ada.second.whest"] is None


def test_only_the_named_participants_are_taken_and_all_others_are_one_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "MOST_REFUSED", 2)
    inbox = tmp_path / "inbox"
    for number, name in enumerate(["ADA", "eve", "Eve", "mallory", "x y", "z"]):
        put(inbox, f"{name}/one.whest", SECOND, number)
    put(inbox, "ada/one.whest", FIRST, 20)
    with opened(tmp_path / "spring", "contest.participants=[ada,bob]", "contest.received=file") as host:
        reasons = taken_in(host, inbox)
    assert reasons.pop("ada/one.whest") is None
    assert [str(reason).partition(" of ")[0] for reason in reasons.values()] == [
        "ADA is none",
        "eve is none",
        "2 files",
    ]


def moved(path: Path, inbox: Path) -> None:
    """Move a file's ctime, as anybody can who may link to it."""
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        os.link(path, inbox / ".link")
        (inbox / ".link").unlink()


def test_a_link_that_moves_a_date_makes_nobody_the_copy_of_his_copy(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    original = put(inbox, "ada/first.whest", FIRST, 1)
    put(inbox, "eve/copy.whest", FIRST, 1)
    put(inbox, "eve/again.whest", FIRST, 2)
    moved(original, inbox)
    with opened(tmp_path / "spring", "contest.received=host") as host:
        reasons = taken_in(host, inbox)
        entries = {line["file"]: line["entry"] for line in host.log.of("received")}
        put(inbox, "mallory/copy.whest", FIRST, 1)
        assert str(taken_in(host, inbox)["mallory/copy.whest"]).startswith("it has the same bytes as entry ")
        note_on(host.manifest, host.log.lines, entries["ada/first.whest"])
    assert reasons["ada/first.whest"] is None
    assert sorted(map(str, (reasons["eve/again.whest"], reasons["eve/copy.whest"])))[0] == "None"
    assert [str(reason) for reason in reasons.values()].count("None") == 2


def note_on(manifest: Any, lines: Sequence[Any], entry: str) -> None:
    """Both rows of the board say it."""
    facts = {"number": 0, "rule": "whest", "protocol": "p", "score": 1.0, "score_se": None, "estimator": "constant"}
    facts |= {"config": "c", "version": 1, "is_demo": False, "unfinished": None, "invalid": None, "reference": None}
    facts |= {"problem": None, "is_aside": False, "protection": "trusted", "knobs": {}, "track": "t"}
    taken = [line for line in lines if line["kind"] == "received" and line["refused"] is None]
    scored = [{"kind": "scored", "entry": line["entry"], "failed": None, "runs": [facts]} for line in taken]
    rows = {row.run_ids[0][:6]: row.note for row in contest_board(manifest, [*lines, *scored]).rows if row.rank}
    assert len(rows) == 2
    other = next(name for name in rows if name != entry)
    assert f"the same bytes as entry {other} of eve" in rows[entry]
    assert f"the same bytes as entry {entry} of ada" in rows[other]


def test_all_files_of_a_scan_have_its_moment(tmp_path: Path) -> None:
    """However long the reading of the others takes, it makes nobody late."""
    inbox = tmp_path / "inbox"
    put(inbox, "ada/first.whest", FIRST, 1)
    put(inbox, "bob/first.whest", SECOND, 2)
    with opened(tmp_path / "spring", "contest.received=host") as host:
        taken_in(host, inbox)
        first, second = host.log.of("received")
    assert first["received_at"] == second["received_at"] <= first["at"] <= second["at"]


def test_a_ledger_of_many_lines_is_quick() -> None:
    """Each decision takes a few lookups, and no walk over all lines."""
    ledger = Ledger(contest_of({"rules": whest.compose("job=host", *RULES)}))
    line = {"refused": None, "damage": None, "n_bytes": 1, "received_at": "2026-11-18T00:00:00.000+00:00"}
    for number in range(3000):
        facts = line | {"participant": f"p{number}", "file": f"p{number}/a.whest", "file_sha256": f"{number:064d}"}
        assert ledger.refusal(facts) is None
        ledger.add(facts | {"entry": f"{number + 1:06d}"})
    assert ledger.refusal(facts) == "it has the same bytes as entry 003000 of p2999"
