"""Text sources: the same bytes for the same seed, splits by a document's name alone, errors that name the path."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whest.errors import ConfigError
from whest.tasks.prequential.text import PIECE_BYTES, Document, GeneratedText, PythonDocs, TextFiles, arrange, cut

GENERATED_SHA256 = "66efcc681f07ba56a7d92d142dbf0a010acf128137a2dcb4561b01d11b60f542"


def test_generated_text_is_the_same_everywhere() -> None:
    text = GeneratedText(1337, 20_000, 2_000).load()
    assert len(text.train) == 20_000
    assert len(text.val) == 2_000
    assert text.sha256 == GENERATED_SHA256
    assert GeneratedText(1338, 20_000, 2_000).load().sha256 != GENERATED_SHA256


def test_its_sums_are_right() -> None:
    lines = GeneratedText(3, 60_000, 1).load().train.tobytes().decode().splitlines()
    sums = [line.split(" = ") for line in lines[:-1] if " = " in line]
    assert len(sums) > 100
    assert all(eval(left) == int(right) for left, right in sums)


def test_python_docs_are_read_in_place_and_turned_by_the_seed() -> None:
    one, other = PythonDocs(1, 50_000, 4_000).load(), PythonDocs(2, 50_000, 4_000).load()
    assert one.sha256 == PythonDocs(1, 50_000, 4_000).load().sha256 != other.sha256
    assert set(one.val.tobytes()) & set(b"aeiou")


@given(st.text(max_size=40))
def test_split_is_the_hash_of_the_name(doc_id: str) -> None:
    place = int(hashlib.sha256(doc_id.encode("utf-8", "surrogatepass")).hexdigest(), 16) % 1000
    expected = "train" if place <= 949 else "val" if place <= 974 else "test"
    assert Document(doc_id, b"x").split == expected


def test_splits_have_their_shares() -> None:
    shares = Counter(Document(f"d{i}", b"").split for i in range(20_000))
    assert shares["train"] / 20_000 == pytest.approx(0.95, abs=0.01)
    assert shares["val"] / 20_000 == pytest.approx(0.025, abs=0.005)


@given(st.integers(0, 3000), st.sampled_from([b"some line\n", b"none", b"\n"]))
def test_pieces_join_to_the_document(n: int, line: bytes) -> None:
    content = line * n
    pieces = cut(Document("d", content))
    assert b"".join(piece.content for piece in pieces) == content
    assert len({piece.doc_id for piece in pieces}) == len(pieces)
    assert all(len(piece.content) <= 2 * PIECE_BYTES for piece in pieces)


def test_a_document_stays_in_its_split_whatever_is_added() -> None:
    few = [Document(f"d{i}", f"<{i}>".encode()) for i in range(200)]
    more = [*few, *(Document(f"e{i}", b"?") for i in range(50))]
    texts = [arrange("x", documents, 7, 10**6, 10**6).val.tobytes() for documents in (few, more)]
    assert set(texts[0].split(b">")) <= set(texts[1].replace(b"?", b"").split(b">"))


def test_own_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_bytes(b"hello " * 50)
    (tmp_path / "sub" / "b.bin").write_bytes(bytes(range(256)))
    (tmp_path / ".hidden").write_bytes(b"secret")
    text = TextFiles(tmp_path, 0, 10**6, 100).load()
    both = text.train.tobytes() + text.val.tobytes()
    assert b"secret" not in both
    assert np.array_equal(TextFiles(tmp_path, 0, 100, 100).load().train, text.train[:100])
    moved = tmp_path.rename(tmp_path.with_name("elsewhere"))
    assert TextFiles(moved, 0, 10**6, 100).load().sha256 == text.sha256


def test_wrong_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.path=.*nowhere does not exist"):
        TextFiles(tmp_path / "nowhere", 0, 10, 10).load()
    with pytest.raises(ConfigError, match="has no text"):
        TextFiles(tmp_path, 0, 10, 10).load()
