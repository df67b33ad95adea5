"""Datasets and paths made to mislead, as a participant or a file from a stranger might."""

import io
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.formats_data import data_file, edit_metadata, load, save, tiny
from whest.dataset.formats.metadata import Header, choose_split
from whest.errors import ConfigError

Whest = Callable[..., Any]
ANSWERS = "class Estimator:\n    def predict(self, mlp, budget):\n        return mlp.weights[:, 0]\n"


def test_links_are_hidden_where_they_lead(tmp_path: Path) -> None:
    """A hub's snapshot has links to a folder of blobs: hiding only the links would hide nothing."""
    save(tiny(), tmp_path / "snapshots" / "a1")
    shard, blob = data_file(tmp_path / "snapshots" / "a1"), tmp_path / "blobs" / "b1"
    blob.parent.mkdir()
    shard.rename(blob)
    shard.symlink_to(blob)
    assert blob in load(tmp_path / "snapshots" / "a1").hidden


@pytest.mark.parametrize("name", ["metadata.json", "data/public-00000-of-00001.parquet", "data"])
def test_no_link_leads_out_of_the_folder_given(tmp_path: Path, name: str) -> None:
    save(tiny(), tmp_path / "set")
    (tmp_path / "set" / name).rename(tmp_path / "elsewhere")
    (tmp_path / "set" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link out of the folder"):
        load(tmp_path / "set")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("split", ["../../x", "a/b", "*", "..", "", "A", "x" * 200, 3, None, ["public"]])
def test_a_splits_name_is_a_name_before_it_is_part_of_a_path(tmp_path: Path, split: Any) -> None:
    """The hub's files are asked for by it."""
    with pytest.raises(ConfigError, match=r"metadata\.split names"):
        choose_split({"split": split}, None, tmp_path)


def test_the_names_of_several_splits_are_names_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"metadata\.split names"):
        choose_split({"splits": {"public": {}, "../x": {}}, "default_split": "public"}, None, tmp_path)


# --- small files that unpack to large ones ---


def bomb(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def array_header(shape: tuple[int, ...], dtype: str) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def archive_bombs(tmp_path: Path) -> dict[str, Path]:
    save(tiny(), tmp_path / "set.npz")
    with zipfile.ZipFile(tmp_path / "set.npz") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    zeros = bytes(2**26)
    long_header = b"\x93NUMPY\x02\x00" + (2**26).to_bytes(4, "little") + b" " * 2**26
    return {
        "weights": bomb(tmp_path / "a.npz", {**members, "weights.npy": array_header((2, 2, 4, 4), "<f4") + zeros}),
        "a member of no use": bomb(tmp_path / "b.npz", {**members, "extra.npy": zeros}),
        "names": bomb(
            tmp_path / "c.npz", {**members, "mlp_names.npy": array_header((2,), "<U500000") + bytes(4 * 10**6)}
        ),
        "a long array header": bomb(tmp_path / "d.npz", {**members, "weights.npy": long_header}),
        "lzma": bomb(tmp_path / "e.npz", members, zipfile.ZIP_LZMA),
        "many members": bomb(tmp_path / "f.npz", {**members, **{f"m{i}": b"" for i in range(30_000)}}),
        "metadata": bomb(
            tmp_path / "g.npz", {**members, "metadata.npy": array_header((), "<U2000000") + bytes(8 * 10**6)}
        ),
    }


def test_archives_that_unpack_to_too_much_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    for what, path in archive_bombs(tmp_path).items():
        peak = tracemalloc_peak(path)
        assert peak < 20e6, what


def tracemalloc_peak(path: Path) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError):
            load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_row_group_is_no_larger_than_its_rows(tmp_path: Path) -> None:
    save(tiny(), tmp_path / "set")
    table = pq.read_table(data_file(tmp_path / "set"))
    column = table.column_names.index("sampling_budget_breakdown")
    long = pa.array(["x" * 2**24] * 2, pa.string())
    table = table.set_column(column, "sampling_budget_breakdown", long)
    pq.write_table(table, data_file(tmp_path / "set"), compression="zstd", use_dictionary=False)
    assert data_file(tmp_path / "set").stat().st_size < 10**5
    with pytest.raises(ConfigError, match="row group 0 unpacks to"):
        load(tmp_path / "set")


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
