"""The inbox: what is taken, what is refused and why, and a crash at every step of it."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import whest
from tests.support.contests import RULES, START_S, copied, organise, put, sealed, sealed_constant
from tests.support.sealing import context_of, seal_estimator
from whest.contest import host as hosts
from whest.contest import log as logs
from whest.contest.host import Host, hosting
from whest.contest.inbox import arrivals, read_arrival
from whest.contest.storage import place_of
from whest.errors import ConfigError

DEADLINE = datetime.fromtimestamp(START_S + 100, UTC)
LIMITS = (
    f"contest.deadline={DEADLINE:%Y-%m-%dT%H:%M:%SZ}",
    "contest.received=file",
    "contest.entries_per_participant=2",
    "contest.limit_bytes=20000",
    "contest.limit_constants=1000",
)


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return whest.compose("job=host", *RULES, *LIMITS)


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each kind."""
    folder = tmp_path_factory.mktemp("inbox")
    honest = sealed("mean_prop")
    put(folder, "ada/one.whest", honest, 1)
    put(folder, "bob/copy.whest", honest, 2)
    put(folder, "ada/two.whest", sealed_constant(0.5), 3)
    put(folder, "ada/three.whest", sealed_constant(0.25), 4)
    put(folder, "eve/garbage.whest", os.urandom(500), 5)
    put(folder, "eve/changed.whest", honest[:-1] + bytes([honest[-1] ^ 1]), 6)
    put(folder, "eve/large.whest", bytes(20_001), 7)
    put(folder, "eve/table.whest", sealed_constant(0.5, carried=300), 8)
    put(folder, "eve/shape.whest", seal_estimator("mean_prop", context_of(4, 2, 10**6)), 9)
    put(folder, "eve/code.py", b"import os", 10)
    put(folder, "carl.whest", sealed_constant(1.0), 11)
    put(folder, "no name/one.whest", sealed_constant(2.0), 12)
    put(folder, "dora/late.whest", sealed_constant(3.0), 101)
    put(folder, "dora/readme.txt", b"not an entry", 13)
    put(folder, "dora/.uploading.whest", honest, 14)
    (folder / "eve" / "link.whest").symlink_to(folder / "ada" / "one.whest")
    os.utime(folder / "eve" / "link.whest", (START_S + 15, START_S + 15), follow_symlinks=False)
    os.mkfifo(folder / "eve" / "pipe.whest")
    os.utime(folder / "eve" / "pipe.whest", (START_S + 16, START_S + 16))
    return folder


EXPECTED = {
    "ada/one.whest": None,
    "bob/copy.whest": "it has the same bytes as entry 000001 of ada",
    "ada/two.whest": None,
    "ada/three.whest": "ada has 2 entries, at most 2 are allowed",
    "eve/garbage.whest": "it is no sealed program",
    "eve/changed.whest": "its sha256 doesn't fit",
    "eve/large.whest": "it has 20,001 bytes, at most 20,000 are allowed",
    "eve/table.whest": "it carries 1,222 bytes of constants, at most 1,000 are allowed",
    "eve/shape.whest": "it was sealed for 4x2 with budget 1e6, and the contest is 8x2",
    "eve/code.py": "it is no sealed program, and this contest takes no others",
    "carl.whest": None,
    "no name/one.whest": "its participant's name has other characters",
    "eve/link.whest": "it is no ordinary file",
    "eve/pipe.whest": "it is no ordinary file",
    "dora/late.whest": "late: received 2026-09-21T",
}


def opened(folder: Path, config: dict[str, Any]) -> Any:
    return hosting(place_of(folder, None), config, lambda manifest, secret: None)


def facts_of(host: Host) -> list[dict[str, Any]]:
    """What the log says, without the times at which the host said it."""
    return [
        {name: value for name, value in line.items() if name not in ("at", "before", "sha256")}
        for line in host.log.lines[1:]
    ]


def test_each_file_is_taken_or_refused_with_its_reason(inbox: Path, config: dict[str, Any], tmp_path: Path) -> None:
    with opened(tmp_path / "spring", config) as host:
        assert host.take_in(inbox) == len(EXPECTED)
        lines = {line["file"]: line["refused"] for line in host.log.of("received")}
        assert list(lines) == list(EXPECTED)
        for name, reason in EXPECTED.items():
            assert (lines[name] is None) == (reason is None), (name, lines[name])
            assert lines[name] is None or lines[name].startswith(reason), lines[name]
        assert [line["participant"] for line in host.unscored()] == ["ada", "ada", "carl"]
        assert host.take_in(inbox) == 0
        host.publish_receipts()
    assert len(list((tmp_path / "spring" / "receipts").iterdir())) == len(EXPECTED)
    with opened(tmp_path / "spring", config) as again:
        assert again.take_in(inbox) == 0


def test_by_the_hosts_clock_a_file_of_old_is_late(inbox: Path, config: dict[str, Any], tmp_path: Path) -> None:
    past = {**config["contest"], "received": "host", "deadline": "2026-01-01T00:00:00Z"}
    with opened(tmp_path / "spring", {**config, "contest": past}) as host:
        host.take_in(inbox)
        reasons = [line["refused"] for line in host.log.of("received") if line["file"] != "no name/one.whest"]
        assert all(reason.startswith("late: ") for reason in reasons)


class CrashError(BaseException):
    """The process is gone."""


def crashing(monkeypatch: pytest.MonkeyPatch, after: int) -> Iterator[int]:
    """From the n-th durable write on, nothing is written any more."""
    count = iter(range(10_000))
    writes = {"keep": hosts.keep, "fsync": os.fsync}

    def stop(write: Any) -> Any:
        def wrapped(*words: Any, **more: Any) -> Any:
            if next(count) >= after:
                raise CrashError
            return write(*words, **more)

        return wrapped

    monkeypatch.setattr(hosts, "keep", stop(writes["keep"]))
    monkeypatch.setattr(logs, "keep", stop(writes["keep"]))
    monkeypatch.setattr(os, "fsync", stop(writes["fsync"]))
    yield after


def test_a_crash_at_every_write_changes_nothing(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = tmp_path / "inbox"
    put(inbox, "ada/one.whest", sealed("mean_prop"), 1)
    put(inbox, "eve/garbage.whest", b"garbage", 2)
    put(inbox, "bob/two.whest", sealed_constant(0.5), 3)
    with opened(tmp_path / "start", config):
        pass
    with opened(copied(tmp_path / "start", tmp_path / "calm"), config) as calm:
        calm.take_in(inbox)
        expected = facts_of(calm)
    for after in range(1, 200):
        place = copied(tmp_path / "start", tmp_path / f"crash{after}")
        with monkeypatch.context() as patch:
            next(crashing(patch, after))
            try:
                with opened(place, config) as host:
                    host.take_in(inbox)
                    host.publish_receipts()
                done = True
            except CrashError:
                done = False
        with opened(place, config) as again:
            again.take_in(inbox)
            assert facts_of(again) == expected, after
        if done:
            break
    assert after > 20


def test_two_hosts_at_a_time_are_refused(config: dict[str, Any], tmp_path: Path) -> None:
    first, second = opened(tmp_path / "spring", config), opened(tmp_path / "spring", config)
    with first, pytest.raises(ConfigError, match="another process"), second:
        pass


def test_other_rules_than_those_published_are_refused(config: dict[str, Any], tmp_path: Path) -> None:
    with opened(tmp_path / "spring", config):
        pass
    with pytest.raises(ConfigError, match="budget differs"), opened(tmp_path / "spring", {**config, "budget": 2e6}):
        pass
    without = {name: value for name, value in config.items() if name != "contest"}
    with opened(tmp_path / "spring", without) as host:
        assert host.manifest["rules"]["budget"] == 1e6


def test_rules_that_cannot_be_used_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(ConfigError, match=r"truth\.n_samples"):
        organise(*RULES, "truth.n_samples=-1", f"output={tmp_path / 'here' / 'spring'}", folder=tmp_path)
    assert list((tmp_path / "here").iterdir()) == []


def test_the_secret_of_another_contest_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    for name in ("spring", "autumn"):
        with opened(tmp_path / name, config):
            pass
    (tmp_path / "autumn.private" / "secret").replace(tmp_path / "spring.private" / "secret")
    with pytest.raises(ConfigError, match="of another contest"), opened(tmp_path / "spring", config):
        pass


def test_an_inbox_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"inbox=.*is no folder"):
        arrivals(tmp_path / "nothing")


def test_a_file_that_vanishes_is_no_crash(tmp_path: Path) -> None:
    put(tmp_path, "ada/one.whest", b"x", 1)
    (arrival,) = arrivals(tmp_path)
    (tmp_path / "ada" / "one.whest").unlink()
    assert read_arrival(arrival, 10) == "it can't be opened (No such file or directory)"
