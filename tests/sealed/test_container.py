"""The file of a sealed program: the same bytes for the same content, bounded before it is opened, refused in words."""

import hashlib
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.sealing import parts_of, with_header
from whest.errors import ConfigError
from whest.isolation.wire import LARGEST_CONSTANTS, LENGTH
from whest.sealed.container import (
    DIGEST,
    LARGEST_FILE,
    MAGIC,
    Part,
    SealedFileError,
    Versions,
    read_file,
    unpack,
)
from whest.sealed.purpose import Purpose
from whest.sealed.sealed import Traced, open_sealed, read_sealed, write_sealed

PURPOSE = Purpose("whitebox", 1000, width=4, depth=2)
VERSIONS = Versions("0.1.0", "0.10.2", 3, 2)
ARRAYS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int64), np.array([True, False])]


def file_of(message: Any = None, arrays: Any = ARRAYS, words: str = "words — mine", n: int = 1) -> bytes:
    traced = [
        Traced(Purpose("whitebox", 1000 + i, width=4, depth=2), (message or {"program": {}}, arrays), {"p": {"": 5}}, 0)
        for i in range(n)
    ]
    return write_sealed("mine", "Ada", words, None, VERSIONS, traced)


def resealed(content: bytes, change: Any) -> bytes:
    header, _, _ = parts_of(content)
    change(header)
    return with_header(content, header)


def test_what_is_written_is_read() -> None:
    content = file_of({"program": {"a": [1, None, "ü"]}})
    sealed = read_sealed(content)
    assert (sealed.header.author, sealed.header.words, sealed.n_bytes) == ("Ada", "words — mine", len(content))
    message, arrays = sealed.programs(sealed.entry(PURPOSE, "path"))
    assert message == {"program": {"a": [1, None, "ü"]}}
    for ours, theirs in zip(arrays, ARRAYS, strict=True):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())


def test_the_same_content_is_the_same_file_and_equal_parts_are_stored_once() -> None:
    assert file_of() == file_of()
    assert len(read_sealed(file_of(n=5)).header.parts) == 2


def test_a_shape_or_budget_that_it_was_not_sealed_for_is_an_error_that_says_what_there_is() -> None:
    sealed = read_sealed(file_of())
    with pytest.raises(
        ConfigError, match=r"x was sealed for 4x2 with budget 1000, and this run is 8x2 with budget 9"
    ) as e:
        sealed.entry(Purpose("whitebox", 9, width=8, depth=2), "x")
    assert "job=seal seal.shapes=[8x2@9]" in str(e.value)
    assert "round.width=4 round.depth=2 budget=1000" in str(e.value)


@pytest.mark.parametrize("place", ["magic", "digest", "header", "part", "end"])
def test_one_changed_byte_is_noticed(place: str) -> None:
    content = bytearray(file_of())
    start = len(MAGIC) + DIGEST
    at = {"magic": 3, "digest": len(MAGIC) + 2, "header": start + 30, "part": len(content) - 20, "end": -1}[place]
    content[at] ^= 1
    with pytest.raises(SealedFileError):
        read_sealed(bytes(content))


@pytest.mark.parametrize("n", [0, 1, 20, 60, 200, -1])
def test_a_file_that_is_cut_off_is_refused(n: int) -> None:
    with pytest.raises(SealedFileError, match="cut off"):
        read_sealed(file_of()[:n])


def set_in(header: Any, *path: Any, value: Any) -> None:
    for key in path[:-1]:
        header = header[key]
    header[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("format",), 2, "it has format 2, and this whest reads format 1"),
        (("format",), True, "it has format True"),
        (("name",), "", "header is not in the form .* name"),
        (("name",), 5, "header is not in the form .* name"),
        (("extra",), 5, "header is not in the form .* extra"),
        (("entries",), [], "header is not in the form .* entries"),
        (("entries", 0, "document"), 7, "a part that isn't there"),
        (("entries", 0, "document"), -1, "header is not in the form"),
        (("entries", 0, "purpose", "width"), 4.5, "header is not in the form"),
        (("entries", 0, "purpose", "task"), "other", "header is not in the form"),
        (("entries", 0, "flops"), {"p": {"": -1}}, "header is not in the form"),
        (("parts", 0, "stored"), 5, "other lengths"),
        (("parts", 0, "size"), LARGEST_CONSTANTS + 1, "header is not in the form"),
        (("parts", 0, "packing"), "bzip2", "header is not in the form"),
        (("parts", 0, "sha256"), "x", "header is not in the form"),
        (("words",), "x" * 4001, "header is not in the form"),
        (("deep",), [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]], "nested more than 16 deep"),
    ],
)
def test_a_wrong_header_is_refused_in_words(path: Any, value: Any, words: str) -> None:
    with pytest.raises(SealedFileError, match=words):
        read_sealed(resealed(file_of(), lambda header: set_in(header, *path, value=value)))


def test_two_entries_for_one_purpose_are_refused() -> None:
    def twice(header: Any) -> None:
        header["entries"].append({**header["entries"][0], "seed": 7})

    with pytest.raises(SealedFileError, match="two entries for 4x2 with budget 1000"):
        read_sealed(resealed(file_of(), twice))


@pytest.mark.parametrize(("old", "new"), [(b'"name"', b'"name":"eve","name"'), (b'"seed"', b'"seed":7,"seed"')])
def test_a_name_that_stands_twice_in_the_header_is_refused(old: bytes, new: bytes) -> None:
    content = file_of()
    start = len(MAGIC) + DIGEST
    (length,) = LENGTH.unpack_from(content, start)
    text = content[start + LENGTH.size :][:length].replace(old, new, 1)
    rest = LENGTH.pack(len(text)) + text + content[start + LENGTH.size + length :]
    with pytest.raises(SealedFileError, match=f"the name '{old.decode()[1:-1]}' twice"):
        read_sealed(MAGIC + hashlib.sha256(rest).digest() + rest)


def test_a_part_never_unpacks_to_more_than_it_states() -> None:
    packed = zlib.compress(b"0" * 50_000_000, 9)
    with pytest.raises(SealedFileError, match="not packed as its header states"):
        unpack(Part("deflate", len(packed), 1000, "0" * 64), memoryview(packed))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda part: part.update(size=part["size"] + 1), "another size or sha256"),
        (lambda part: part.update(sha256="0" * 64), "another size or sha256"),
        (lambda part: part.update(packing="none"), "another size or sha256"),
    ],
)
def test_a_part_that_is_not_as_stated_is_refused(change: Any, words: str) -> None:
    sealed = read_sealed(resealed(file_of({"program": [0] * 100}), lambda header: change(header["parts"][0])))
    with pytest.raises(SealedFileError, match=words):
        sealed.programs(sealed.header.entries[0])


def test_arrays_that_do_not_fit_their_shapes_are_refused() -> None:
    sealed = read_sealed(resealed(file_of(), lambda header: set_in(header, "entries", 0, "arrays", value=0)))
    with pytest.raises(SealedFileError, match="and their shapes say 34"):
        sealed.programs(sealed.header.entries[0])
    sealed = read_sealed(resealed(file_of(), lambda header: set_in(header, "entries", 0, "document", value=1)))
    with pytest.raises(SealedFileError, match="its programs can't be read"):
        sealed.programs(sealed.header.entries[0])


def test_what_is_no_sealed_file_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "odd.whest").write_bytes(b"import os\n")
    with pytest.raises(ConfigError, match=r"odd.whest can't be used: it is no sealed program"):
        open_sealed(tmp_path / "odd.whest")
    with pytest.raises(ConfigError, match=r"gone.whest can't be read \(No such file"):
        open_sealed(tmp_path / "gone.whest")
    with (tmp_path / "large.whest").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(ConfigError, match=r"more than 67,108,864 bytes"):
        open_sealed(tmp_path / "large.whest")
    with pytest.raises(SealedFileError, match="more than"):
        read_file(bytes(LARGEST_FILE + 1))


def test_a_file_that_would_be_too_large_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whest.sealed.container.LARGEST_FILE", 10_000)
    noise = np.frombuffer(np.random.default_rng(0).bytes(10_000), np.uint8)
    with pytest.raises(SealedFileError, match="seal fewer shapes, or smaller tables"):
        file_of(arrays=[noise])


def test_a_purpose_says_only_what_it_has() -> None:
    assert PURPOSE.to_json() == {"task": "whitebox", "budget": 1000, "width": 4, "depth": 2}
    assert set(asdict(PURPOSE)) > set(PURPOSE.to_json())
    assert str(Purpose("exam", 10**9, row_length=8)) == "an exam in rows of 8 with budget 1e9"
