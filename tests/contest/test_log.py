"""The log: a chain that names the line that was changed, and that a crash can't break."""

from pathlib import Path

import pytest

from tests.support.contests import flipped
from whest.contest.keys import Key
from whest.contest.log import DamagedError, Log, open_log, read_lines
from whest.contest.storage import HEAD, LOG

KEY = Key(bytes(range(32)))


def written(folder: Path, n_lines: int) -> Log:
    log = Log(folder, KEY)
    log.append("opened", contest="tiny")
    for number in range(1, n_lines):
        log.append("received", entry=f"{number:06d}", words="ü")
    return log


def test_a_log_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    log = written(tmp_path, 4)
    assert open_log(tmp_path, KEY).lines == log.lines
    assert [line["n"] for line in log.lines] == [0, 1, 2, 3]


def test_a_change_of_any_byte_names_its_line(tmp_path: Path) -> None:
    written(tmp_path, 3)
    content = (tmp_path / LOG).read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        n_line = content[:place].count(b"\n")
        if place == len(content) - 1:  # the last line feed: the last line is torn
            lines, rest = read_lines(bytes(changed))
            assert (len(lines), bool(rest)) == (2, True)
            continue
        with pytest.raises(DamagedError) as found:
            read_lines(bytes(changed))
        assert found.value.line == n_line


def test_lines_in_another_order_are_noticed(tmp_path: Path) -> None:
    written(tmp_path, 4)
    first, second, third, *rest = (tmp_path / LOG).read_bytes().splitlines(keepends=True)
    with pytest.raises(DamagedError, match="line 2"):
        read_lines(b"".join([first, third, second, *rest]))


def test_a_torn_line_that_nobody_was_promised_is_dropped_and_the_next_one_takes_its_place(tmp_path: Path) -> None:
    written(tmp_path, 2)
    head = (tmp_path / HEAD).read_bytes()
    whole = (tmp_path / LOG).read_bytes()
    written_on = open_log(tmp_path, KEY)
    written_on.append("received", entry="000002")
    torn = (tmp_path / LOG).read_bytes()[len(whole) :]
    for length in range(len(torn)):
        (tmp_path / LOG).write_bytes(whole + torn[:length])
        (tmp_path / HEAD).write_bytes(head)
        log = open_log(tmp_path, KEY)
        assert len(log.lines) == 2
        assert (tmp_path / LOG).read_bytes() == whole
    (tmp_path / LOG).write_bytes(whole + b"\0" * 20 + b"\n")  # what a file system may leave after a power cut
    assert len(open_log(tmp_path, KEY).lines) == 2


def test_a_whole_line_without_its_head_is_kept_and_acknowledged(tmp_path: Path) -> None:
    written(tmp_path, 2)
    head = (tmp_path / HEAD).read_bytes()
    open_log(tmp_path, KEY).append("received", entry="000002")
    (tmp_path / HEAD).write_bytes(head)
    assert len(open_log(tmp_path, KEY).lines) == 3
    assert (tmp_path / HEAD).read_bytes() != head


@pytest.mark.parametrize("cut", [1, 30, 400])
def test_a_line_that_was_promised_is_never_dropped(tmp_path: Path, cut: int) -> None:
    written(tmp_path, 3)
    content = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(content[:-cut])
    with pytest.raises(DamagedError, match=r"line [123]"):
        open_log(tmp_path, KEY)
    assert (tmp_path / LOG).read_bytes() == content[:-cut]


def test_a_head_of_another_key_or_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 2)
    with pytest.raises(DamagedError, match="signature"):
        open_log(tmp_path, Key(bytes(32)))
    for place in range(0, len((tmp_path / HEAD).read_bytes()), 7):
        flipped(tmp_path / HEAD, place)
        with pytest.raises(DamagedError, match=HEAD):
            open_log(tmp_path, KEY)
        flipped(tmp_path / HEAD, place)
    assert len(open_log(tmp_path, KEY).lines) == 2
