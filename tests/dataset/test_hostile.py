"""Datasets and paths made to mislead, as a participant or a file from a stranger might."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.formats_data import data_file, edit_metadata, load, save, tiny
from whest.dataset.formats.metadata import Header
from whest.errors import ConfigError

Whest = Callable[..., Any]
ANSWERS = "class Estimator:\n    def predict(self, mlp, budget):\n        return mlp.weights[:, 0]\n"


def test_links_are_hidden_where_they_lead(tmp_path: Path) -> None:
    """A hub's snapshot has links to a folder of blobs: hiding only the links would hide nothing."""
    save(tiny(), tmp_path / "set")
    shard, blob = data_file(tmp_path / "set"), tmp_path / "blobs" / "b1"
    blob.parent.mkdir()
    shard.rename(blob)
    shard.symlink_to(blob)
    assert blob in load(tmp_path / "set").hidden


@pytest.mark.parametrize("place", ["outputs/mine", "set"])
def test_an_estimator_among_the_answers_is_refused(whest: Whest, tmp_path: Path, place: str) -> None:
    save(tiny(), tmp_path / "set")
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.py").write_text(ANSWERS)
    words = ("dataset=file", f"dataset.path={tmp_path / 'set'}", "tracking=none", "estimator=file")
    ended = whest(*words, f"estimator.path={folder / 'mine.py'}")
    assert ended.exit_code == 2
    assert "which holds answers: move it elsewhere" in ended.err


@pytest.mark.parametrize("sampler", ["[/x] fast", "[link=file:///etc]fast[/link]", "\x1b[31mfast"])
def test_a_files_words_are_printed_as_words(whest: Whest, tmp_path: Path, sampler: str) -> None:
    save(tiny(), tmp_path / "set")
    edit_metadata(tmp_path / "set", lambda document: document.update(sampler=sampler))
    ended = whest("job=info", f"path={tmp_path / 'set'}")
    assert ended.exit_code == 0
    assert sampler.replace("\x1b", "") in ended.out
    assert "\x1b" not in ended.out


def test_metadata_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    save(tiny(), tmp_path / "set")
    (tmp_path / "set" / "metadata.json").unlink()
    os.mkfifo(tmp_path / "set" / "metadata.json")
    with pytest.raises(ConfigError, match="no ordinary file"):
        load(tmp_path / "set")


def test_what_is_packed_small_is_judged_by_what_it_unpacks_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant column is stored in a few bytes, but the arrays of one MLP must still fit into memory."""
    save(tiny(), tmp_path / "set")
    table = pq.read_table(data_file(tmp_path / "set"))
    pq.write_table(table, data_file(tmp_path / "set"), use_dictionary=True, compression="zstd")
    monkeypatch.setattr(Header, "decoded_bytes", 10**15)
    with pytest.raises(ConfigError, match="takes 1e\\+06 GB, this machine has"):
        load(tmp_path / "set")
