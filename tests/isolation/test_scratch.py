"""A worker's folder, measured and removed whatever is in it."""

import os
from pathlib import Path

from whest.isolation.scratch import DEEPEST, MOST_ENTRIES, Scratch, remove_tree, used_bytes


def test_a_folder_three_thousand_levels_deep_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(top)
        for _ in range(3000):
            os.mkdir("deeper")  # noqa: PTH102, a path would be too long
            os.chdir("deeper")
    finally:
        os.fchdir(before)
        os.close(before)
    assert used_bytes(top) is None  # deeper than anybody needs: counts as full
    remove_tree(top)
    assert not top.exists()


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(bytes(100_000))
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "folder").symlink_to(outside)
    (top / "a" / "b" / "file").symlink_to(outside / "kept")
    os.mkfifo(top / "a" / "pipe")
    (top / "a" / "b").chmod(0)
    assert (used_bytes(top) or 0) < 50_000
    remove_tree(top)
    assert not top.exists()
    assert (outside / "kept").stat().st_size == 100_000


def test_what_fills_a_folder_is_noticed(tmp_path: Path) -> None:
    scratch = Scratch()
    try:
        assert not scratch.is_full(2**20)
        (scratch.folder / "file").write_bytes(bytes(2**21))
        assert scratch.is_full(2**20)
        assert not scratch.is_full(2**22)
    finally:
        scratch.remove()
    assert not scratch.top.exists()
    assert DEEPEST < MOST_ENTRIES
