"""What an attacker tried against the inbox: each attack fails, and stops nobody else."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import pytest

import whest
from tests.support.contests import RULES, SHAPE, put, sealed, sealed_constant
from tests.support.sealing import context_of, parts_of, seal_function, with_header
from whest.contest import ledger as ledgers
from whest.contest import log as logs
from whest.contest.host import Host, hosting
from whest.contest.inbox import arrivals, read_arrival
from whest.contest.intake import look_into, received_fields
from whest.contest.keys import Key, canonical
from whest.contest.ledger import Ledger
from whest.contest.log import FIRST, Log, line_of, read_line
from whest.contest.rules import contest_of, read_contest, rules_of
from whest.contest.storage import LOG, place_of
from whest.errors import JobFailedError

LIMITS = ("contest.entries_per_participant=2", "contest.limit_bytes=20000", "contest.limit_constants=1000")
NOBODY = 65534


def config_of(*words: str) -> dict[str, Any]:
    return whest.compose("job=host", *RULES, *LIMITS, *words)


@contextmanager
def opened(folder: Path, *words: str) -> Iterator[Host]:
    with hosting(place_of(folder, None), config_of(*words), lambda manifest, secret: None) as host:
        yield host


def taken_in(host: Host, inbox: Path) -> dict[str, str | None]:
    host.take_in(inbox)
    received, ledger = host.log.of("received"), Ledger(contest_of(host.manifest))
    for line in received:  # the verifier decides the same
        assert ledger.refusal(line) == line["refused"]
        ledger.add(line)
    return {line["file"]: line["refused"] for line in received}


def test_a_folder_that_becomes_a_link_after_the_scan_steals_nothing(tmp_path: Path) -> None:
    put(tmp_path, "ada/one.whest", b"ada's", 1)
    put(tmp_path, "eve/one.whest", b"eve's", 2)
    ada, eve = arrivals(tmp_path)
    (tmp_path / "eve").rename(tmp_path / ".eve")
    (tmp_path / "eve").symlink_to("ada")
    assert read_arrival(ada, 10) == b"ada's"
    assert "can't be opened" in str(read_arrival(eve, 10))
    assert [each.participant for each in arrivals(tmp_path)] == ["ada"]


def test_a_file_that_is_replaced_or_changed_after_the_scan_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "eve/one.whest", b"first", 1)
    put(tmp_path, "eve/two.whest", b"first", 2)
    one, two = arrivals(tmp_path)
    put(tmp_path, "eve/.new", b"other", 1).replace(tmp_path / "eve" / "one.whest")
    put(tmp_path, "eve/two.whest", b"longer than it was", 2)
    assert "another file" in str(read_arrival(one, 100))
    assert "changed" in str(read_arrival(two, 100))


def test_odd_things_in_one_folder_stop_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = tmp_path / "inbox"
    put(inbox, "ada/one.whest", sealed_constant(0.5), 1)
    (inbox / "eve" / "folder.whest").mkdir(parents=True)
    (inbox / "x.whest").mkdir()
    listed = os.listdir
    monkeypatch.setattr("whest.contest.inbox.os.listdir", lambda handle: [*listed(handle), "vanished.whest"])
    with opened(tmp_path / "spring") as host:
        reasons = taken_in(host, inbox)
    assert reasons == {"ada/one.whest": None, "eve/folder.whest": "it is a folder, and not a file"}


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_folder_that_the_host_may_not_read_is_refused_alone(mode: int) -> None:
    inbox = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        inbox.chmod(0o755)
        put(inbox, "ada/one.whest", b"x", 1)
        put(inbox, "eve/one.whest", b"x", 2)
        (inbox / "eve").chmod(mode)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)
        try:
            found = {each.participant: read_arrival(each, 10) for each in arrivals(inbox)}
        finally:
            if is_root:
                os.seteuid(0)
    finally:
        (inbox / "eve").chmod(0o755)
        shutil.rmtree(inbox)
    assert found["ada"] == b"x"
    assert "Permission denied" in str(found["eve"])


@pytest.mark.parametrize("received", ["host", "file"])
@pytest.mark.parametrize("second", [1_099_511_627_776, -99_999_999_999])
def test_a_date_that_no_calendar_has_is_the_hosts(tmp_path: Path, received: str, second: int) -> None:
    put(tmp_path, "eve/one.whest", b"x", 1)
    (arrival,) = arrivals(tmp_path)
    odd: Any = SimpleNamespace(st_mtime_ns=second * 10**9, st_size=1)
    config, now = config_of(f"contest.received={received}"), datetime(2026, 11, 18, tzinfo=UTC)
    facts = received_fields(replace(arrival, status=odd), b"x", read_contest(config), rules_of(config), now)
    assert facts["received_at"] == "2026-11-18T00:00:00.000+00:00"
    assert read_line(canonical(line_of(0, FIRST, facts)), 0, FIRST)["mtime_ns"] == second * 10**9


def test_names_that_look_like_another_are_refused_and_case_makes_no_second_person(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    names = ["ada", "Ada", "ADA", "ada\u200b", "a\nda", "ad\\a"]
    for number, name in enumerate(names):
        put(inbox, f"{name}/one.whest", sealed_constant(number / 10), number)
    with opened(tmp_path / "spring", "contest.received=file") as host:
        reasons = taken_in(host, inbox)
        assert [line["participant"] for line in host.unscored()] == ["ada"]
    for other in ("Ada", "ADA"):
        assert str(reasons[f"{other}/one.whest"]).startswith("the name belongs to the folder ada/ by its first entry")
    for shown in (r"ada\u200b", r"a\nda", r"ad\\a"):
        assert str(reasons[f"{shown}/one.whest"]).startswith("its participant's name has other characters"), shown


def test_a_long_name_can_not_hide_what_a_file_is(tmp_path: Path) -> None:
    table = sealed_constant(0.5, carried=300)
    name = "a" * (200 - 4 - 6) + ".whest" + "zz.py"
    put(tmp_path / "inbox", f"eve/{name}", table, 1)
    put(tmp_path / "inbox", f"eve/{name[:-3]}.whest", table, 1)
    with opened(tmp_path / "spring") as host:
        reasons = taken_in(host, tmp_path / "inbox")
    assert len(reasons) == 2
    assert all(str(reason).startswith("its name is too long") for reason in reasons.values()), reasons


def test_numbers_in_equations_and_arrays_of_one_number_are_constants() -> None:
    def scalars(weights: Any, *rest: Any) -> Any:
        table = jnp.stack([jnp.full((), number / 7) for number in range(150)])
        return jnp.zeros(weights.shape[:2]) + table.sum() + 0 * weights[:, 0]

    def single(weights: Any, *rest: Any) -> Any:
        answer = jnp.zeros(weights.shape[:2]) + 0 * weights[:, 0]
        for number in range(260):
            answer = answer + jnp.asarray([number / 7], dtype=jnp.float32)
        return answer

    config = config_of()
    for function in (scalars, single):
        content = seal_function(function, context_of(*SHAPE), "table")
        arrays = parts_of(content)[2]
        assert sum(array.nbytes for array in arrays if array.size > 1) == 0
        damage = look_into(content, read_contest(config), rules_of(config))["damage"]
        assert str(damage).startswith("it carries "), (function, damage)
    assert look_into(sealed(), read_contest(config), rules_of(config))["damage"] is None


def test_a_flood_of_refused_files_is_a_few_short_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "MOST_REFUSED", 3)
    inbox, honest = tmp_path / "inbox", sealed_constant(0.5)
    header = parts_of(honest)[0]
    loud = with_header(honest, {**header, "words": "\U0001f600" * 4000})
    put(inbox, "eve/0.whest", loud, 1)
    for number in range(1, 9):
        put(inbox, f"eve/{number}.whest", loud, number + 1)
        put(inbox, f"{number}!/a.whest", honest, number + 20)
    put(inbox, "bob/one.whest", sealed_constant(0.25), 40)
    with opened(tmp_path / "spring", "contest.received=file", "contest.limit_bytes=100000") as host:
        reasons = taken_in(host, inbox)
        size = (tmp_path / "spring" / LOG).stat().st_size
        assert host.take_in(inbox) == 0
        described = {line["file"]: len(line["description"]) for line in host.log.of("received")}
    assert len(reasons) == 1 + 4 + 4 + 1
    assert reasons["bob/one.whest"] is None
    assert "no more are taken" in str(reasons["eve/4.whest"])
    assert 100 < described.pop("eve/0.whest") < 400
    assert set(described.values()) == {0}
    assert size < 20_000


def test_a_log_never_grows_beyond_what_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path, Key(bytes(range(32))))
    log.append("opened", contest="tiny")
    before = (tmp_path / LOG).read_bytes()
    monkeypatch.setattr(logs, "LARGEST_INTAKE", len(before) + 100)
    with pytest.raises(JobFailedError, match="without inbox="):
        log.append("received", entry="000001")
    assert (tmp_path / LOG).read_bytes() == before
    log.append("closed", secret="00")


def test_a_clock_that_goes_back_takes_nobody_in_after_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Back(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) - timedelta(days=2)

    put(tmp_path / "inbox", "eve/one.whest", sealed_constant(0.5), 1)
    deadline = datetime.now(UTC) - timedelta(days=1)
    with opened(
        tmp_path / "spring", f"contest.deadline={deadline:%Y-%m-%dT%H:%M:%SZ}", "contest.received=host"
    ) as host:
        monkeypatch.setattr(logs, "datetime", Back)
        (reason,) = taken_in(host, tmp_path / "inbox").values()
        moments = [line["at"] for line in host.log.lines]
    assert str(reason).startswith("late: ")
    assert moments == sorted(moments)


def test_a_copy_that_the_host_saw_later_stays_a_copy_whatever_its_dates(tmp_path: Path) -> None:
    inbox, content = tmp_path / "inbox", sealed_constant(0.5)
    put(inbox, "zoe/one.whest", content, 50)
    with opened(tmp_path / "spring", "contest.received=host") as host:
        host.take_in(inbox)
        put(inbox, "eve/one.whest", content, 1)
        reasons = taken_in(host, inbox)
    assert reasons["zoe/one.whest"] is None
    assert reasons["eve/one.whest"] == "it has the same bytes as entry 000001 of zoe"


def test_a_full_disk_is_one_sentence_and_the_next_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def take() -> dict[str, str | None]:
        with opened(tmp_path / "spring") as host:
            return taken_in(host, tmp_path / "inbox")

    (tmp_path / "inbox").mkdir()
    assert take() == {}
    put(tmp_path / "inbox", "ada/one.whest", sealed_constant(0.5), 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(JobFailedError, match="the disk is full"):
            take()
    assert take() == {"ada/one.whest": None}
