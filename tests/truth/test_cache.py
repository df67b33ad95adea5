"""The truth cache: an entry is found again completely or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from whest.files import write_atomically
from whest.mlp import MLP, SeedProtocol, draw_mlp
from whest.truth.cache import TruthCache, read_entry, truth_hash, write_entry
from whest.truth.plain import Moments, PlainTruth
from whest.truth.reference import ReferenceTruth
from whest.truth.truth import State, Truth


@dataclass(frozen=True)
class CountingTruth:
    """The reference's stream, which counts how often it was drawn."""

    name: ClassVar[str] = "counting"
    version: ClassVar[int] = 1

    n_samples: int = 50
    standard_error: float | None = None
    resample: bool = False
    draws: list[str] = field(default_factory=list)

    def stream(self, mlp: MLP, state: State | None = None) -> Iterator[Moments]:
        for moments in ReferenceTruth(self.n_samples).stream(mlp, state):
            self.draws.append(mlp.name)
            yield moments


@dataclass(frozen=True)
class NewerTruth(CountingTruth):
    version: ClassVar[int] = 2


@dataclass(frozen=True)
class OtherTruth(CountingTruth):
    name: ClassVar[str] = "other"


@pytest.fixture
def mlp() -> MLP:
    return draw_mlp(SeedProtocol().streams(4), 3, 2, "test")


@pytest.fixture
def cache(tmp_path: Path) -> TruthCache:
    return TruthCache(tmp_path / "truth")


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def assert_same(first: Truth, second: Truth) -> None:
    np.testing.assert_array_equal(first.means, second.means)
    np.testing.assert_array_equal(first.standard_errors, second.standard_errors)
    assert first.means.dtype == second.means.dtype == np.float32
    assert (first.avg_variance, first.n_samples) == (second.avg_variance, second.n_samples)


def test_nothing_is_found_before_it_is_drawn(cache: TruthCache, mlp: MLP) -> None:
    sampler = CountingTruth()
    assert cache.find(sampler, mlp) is None
    assert sampler.draws == []
    assert not cache.folder.exists()


def test_hit_returns_the_same_truth_without_drawing(cache: TruthCache, mlp: MLP) -> None:
    sampler = CountingTruth()
    drawn = cache.truth(sampler, mlp)
    again = cache.truth(sampler, mlp)
    assert sampler.draws == ["test"]
    assert_same(drawn, again)
    *_, moments = ReferenceTruth(50).stream(mlp)
    assert_same(again, moments.truth())


def test_another_cache_on_the_same_folder_finds_it(cache: TruthCache, mlp: MLP) -> None:
    drawn = cache.truth(PlainTruth(50), mlp)
    found = TruthCache(cache.folder).find(PlainTruth(50), mlp)
    assert found is not None
    assert_same(drawn, found)


@pytest.mark.parametrize("n_blocks", [1, 2, 3])
def test_a_stopped_draw_goes_on_where_it_was(cache: TruthCache, n_blocks: int, tmp_path: Path) -> None:
    """Width 2048 makes the reference's blocks 1024 rows: 3000 samples are three of them."""
    wide = MLP(np.full((1, 2048, 2048), 1e-3, np.float32), 1, "wide", np.random.SeedSequence(3))
    whole = TruthCache(tmp_path / "other").draw(CountingTruth(3000), wide)
    stream = cache.stream(CountingTruth(3000), wide)
    for _ in range(n_blocks):
        next(stream)
    stream.close()
    assert cache.find(CountingTruth(3000), wide) is None
    assert [path.suffix for path in cache.folder.iterdir()] == [".begun"]
    resumed = CountingTruth(3000)
    assert_same(cache.draw(resumed, wide), whole)
    assert len(resumed.draws) == 1 + 3 - n_blocks, "what there is, then what is missing"
    assert only_file(cache.folder).suffix == ".npz"


def test_a_damaged_beginning_is_drawn_again(cache: TruthCache, mlp: MLP) -> None:
    expected = TruthCache(cache.folder.parent / "other").draw(CountingTruth(), mlp)
    stream = cache.stream(CountingTruth(), mlp)
    next(stream)
    stream.close()
    begun = only_file(cache.folder)
    begun.write_bytes(begun.read_bytes()[:-5])
    assert_same(cache.draw(CountingTruth(), mlp), expected)


def test_any_flipped_bit_is_noticed(cache: TruthCache, mlp: MLP) -> None:
    cache.truth(CountingTruth(), mlp)
    path = only_file(cache.folder)
    content = path.read_bytes()
    unnoticed = []
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        if read_entry(path) is not None:
            unnoticed.append(place)
    assert unnoticed == []


def test_any_truncation_is_noticed(cache: TruthCache, mlp: MLP) -> None:
    cache.truth(CountingTruth(), mlp)
    path = only_file(cache.folder)
    content = path.read_bytes()
    unnoticed = []
    for length in range(len(content)):
        path.write_bytes(content[:length])
        if read_entry(path) is not None:
            unnoticed.append(length)
    assert unnoticed == []


@pytest.mark.parametrize("damage", ["empty", "half", "flipped", "longer", "not ours"])
def test_damaged_entry_is_drawn_again_and_mended(cache: TruthCache, mlp: MLP, damage: str) -> None:
    sampler = CountingTruth()
    drawn = cache.truth(sampler, mlp)
    path = only_file(cache.folder)
    content = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "half": content[: len(content) // 2],
            "flipped": content[:-1] + bytes([content[-1] ^ 1]),
            "longer": content + b"\0",
            "not ours": b"hello" * 100,
        }[damage]
    )
    assert cache.find(sampler, mlp) is None
    assert_same(cache.truth(sampler, mlp), drawn)
    assert sampler.draws == ["test", "test"]
    assert_same(cache.truth(sampler, mlp), drawn)
    assert sampler.draws == ["test", "test"]
    assert path.read_bytes() == content


def test_no_temporary_files_are_left(cache: TruthCache, mlp: MLP) -> None:
    cache.truth(CountingTruth(), mlp)
    cache.truth(CountingTruth(n_samples=60), mlp)
    assert sorted(path.name for path in cache.folder.iterdir()) == sorted(
        f"{truth_hash(CountingTruth(n), mlp)}.npz" for n in (50, 60)
    )


# The hash


def test_hash_changes_with_everything_the_numbers_depend_on(mlp: MLP) -> None:
    nudged = mlp.weights.copy()
    nudged[-1, -1, -1] = np.nextafter(nudged[-1, -1, -1], np.float32(9))
    stream = mlp.sample_stream
    variants = {
        "as it is": (CountingTruth(), mlp),
        "sampler": (OtherTruth(), mlp),
        "sampler's version": (NewerTruth(), mlp),
        "n_samples": (CountingTruth(n_samples=51), mlp),
        "standard_error": (CountingTruth(standard_error=0.1), mlp),
        "weights": (CountingTruth(), replace(mlp, weights=nudged)),
        "weights' shape": (CountingTruth(), replace(mlp, weights=mlp.weights.reshape(1, 3, 6))),
        "stream": (CountingTruth(), replace(mlp, sample_stream=np.random.SeedSequence(5))),
        "stream's child": (CountingTruth(), replace(mlp, sample_stream=stream.spawn(1)[0])),
    }
    hashes = {what: truth_hash(sampler, network) for what, (sampler, network) in variants.items()}
    assert len(set(hashes.values())) == len(variants), hashes


def test_hash_does_not_change_with_anything_else(mlp: MLP) -> None:
    expected = truth_hash(CountingTruth(), mlp)
    assert truth_hash(CountingTruth(resample=True), mlp) == expected
    to_an_error_bar = [truth_hash(CountingTruth(n, standard_error=0.1), mlp) for n in (50, 60)]
    assert len(set(to_an_error_bar)) == 1, "n_samples has no say where a standard error is asked for"
    assert truth_hash(CountingTruth(), replace(mlp, name="another", seed=mlp.seed + 1)) == expected
    assert truth_hash(CountingTruth(), replace(mlp, weights=np.asfortranarray(mlp.weights))) == expected


# Entries and atomic writes


def test_entry_round_trip_keeps_every_bit(tmp_path: Path) -> None:
    truth = Truth(np.array([[0.1, 3e-8]], np.float32), np.array([[1e-9, 0]], np.float32), 0.1 + 0.2, 10**12)
    write_entry(tmp_path / "entry.npz", truth)
    found = read_entry(tmp_path / "entry.npz")
    assert found is not None
    assert_same(found, truth)


def test_absent_entry_and_folder_are_none(tmp_path: Path) -> None:
    assert read_entry(tmp_path / "absent.npz") is None
    assert read_entry(tmp_path) is None


def test_atomic_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_write_that_can_not_be_moved_into_place_leaves_nothing_behind(tmp_path: Path) -> None:
    """The last step fails: the name is taken by a folder."""
    path = tmp_path / "taken"
    path.mkdir()
    (path / "inside").write_bytes(b"kept")
    with pytest.raises(OSError, match="taken"):
        write_atomically(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]
    assert (path / "inside").read_bytes() == b"kept"
