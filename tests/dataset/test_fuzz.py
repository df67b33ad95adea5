"""Damage of every kind: a mutated dataset is refused with a message, or loads with exactly the same content.

Each mutation follows from its number, so a failure can be repeated: `mutation-123` always is number 123.
"""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.formats_data import as_foreign, data_file, load, save, tiny, write_members
from whest.dataset.dataset import Dataset
from whest.errors import WhestError

N_BYTES, N_TABLES, N_METADATA, N_ARCHIVES = 250, 120, 250, 120
Generator = np.random.Generator
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 4, 5, 2**31, 2**63, 2**70, 1.5, float("nan"), float("inf"), "", "4", "3.0",
    "2.0", "4.0", "public", "../..", "\x00", [], [0, 1], [0, 2], [2, 0], {}, {"name": "x"}, "0" * 64, "é" * 300, [[[]]],
]  # fmt: skip


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    for name in ("set", "set.npz"):
        save(tiny(), folder / name)
    return folder


@pytest.fixture(scope="module")
def sha256(originals: Path) -> str:
    return load(originals / "set").sha256


def outcome(path: Path, sha256: str) -> str:
    """The dataset must be refused or be the same; anything else fails the test."""
    try:
        dataset = load(path)
        check_same(dataset, sha256)
    except WhestError:
        return "refused"
    return "same"


def check_same(dataset: Dataset, sha256: str) -> None:
    assert dataset.sha256 == sha256
    expected = tiny()
    for row, wanted in zip(dataset.rows, expected.rows, strict=True):
        mlp, drawn = dataset.mlp(row), expected.mlp(wanted)
        np.testing.assert_array_equal(mlp.weights, drawn.weights)
        assert (mlp.seed, mlp.name, row.index) == (drawn.seed, drawn.name, wanted.index)


def run(count: int, mutate: Callable[[Generator], Path], sha256: str) -> dict[str, int]:
    outcomes = {"refused": 0, "same": 0}
    for number in range(count):
        path = mutate(np.random.default_rng(number))
        try:
            outcomes[outcome(path, sha256)] += 1
        except Exception as error:
            raise AssertionError(f"mutation-{number} ended in {type(error).__name__}") from error
    return outcomes


def damage(content: bytes, generator: Generator) -> bytes:
    """A flipped bit, a changed run, a cut, an insertion, a piece taken out or doubled."""
    kind, place = generator.integers(6), int(generator.integers(len(content)))
    some = generator.bytes(int(generator.integers(1, 16)))
    if kind == 0:
        flipped = content[place] ^ (1 << int(generator.integers(8)))
        return content[:place] + bytes([flipped]) + content[place + 1 :]
    return [
        content[:place],
        content[:place] + some + content[place + len(some) :],
        content[:place] + some + content[place:],
        content[:place] + content[place + len(some) :],
        content[:place] + content[max(0, place - 40) : place] + content[place:],
    ][kind - 1]


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_damaged_bytes(tmp_path: Path, originals: Path, sha256: str, name: str) -> None:
    source, target = originals / name, tmp_path / name
    if source.is_dir():
        shutil.copytree(source, target)
    file = data_file(target) if source.is_dir() else target
    original = (data_file(source) if source.is_dir() else source).read_bytes()

    def mutate(generator: Generator) -> Path:
        file.write_bytes(damage(original, generator))
        return target

    assert run(N_BYTES, mutate, sha256)["refused"] > N_BYTES / 2


def test_damaged_bytes_of_a_dataset_from_elsewhere(tmp_path: Path) -> None:
    """Without a digest or checksums a changed number can stay unnoticed. The dataset must be refused or load."""
    save(tiny(3), tmp_path / "set")
    as_foreign(tmp_path / "set", row_group_size=2)
    original = data_file(tmp_path / "set").read_bytes()
    refused = 0
    for number in range(N_BYTES):
        data_file(tmp_path / "set").write_bytes(damage(original, np.random.default_rng(number)))
        try:
            assert load(tmp_path / "set").n_mlps == 3
        except WhestError:
            refused += 1
    assert refused > N_BYTES / 2


def test_changed_tables(tmp_path: Path, originals: Path, sha256: str) -> None:
    shutil.copytree(originals / "set", tmp_path / "set")
    table = pq.read_table(data_file(originals / "set"))

    def mutate(generator: Generator) -> Path:
        pq.write_table(change_table(table, generator), data_file(tmp_path / "set"))
        return tmp_path / "set"

    assert run(N_TABLES, mutate, sha256)["refused"] > N_TABLES / 2


def change_table(table: pa.Table, generator: Generator) -> pa.Table:
    """Columns dropped, renamed, swapped, doubled; rows reordered or cut; one cell another."""
    names = list(table.column_names)
    one, other = (int(place) for place in generator.choice(len(names), 2, replace=False))
    kind = generator.integers(8)
    if kind == 0:
        return table.drop_columns(names[one])
    if kind == 1:
        return table.rename_columns([f"{n}x" if i == one else n for i, n in enumerate(names)])
    if kind == 2:
        names[one], names[other] = names[other], names[one]
        return table.rename_columns(names)
    if kind == 3:
        return table.append_column(names[one], table.column(other))
    if kind == 4:
        return table.take(generator.integers(0, 2, int(generator.integers(0, 4))))
    if kind == 5:
        return table.set_column(one, names[one], pa.nulls(2, table.schema.field(one).type))
    if kind == 6:
        return table.select([*names[one:], *names[:one]])  # the order of columns has no meaning
    field = table.schema.field(one)
    cells = table.column(one).to_pylist()
    cells[0] = change_cell(cells[0], generator)
    try:
        return table.set_column(one, field, pa.array(cells, field.type))
    except (pa.ArrowException, OverflowError, TypeError):
        return table.set_column(one, names[one], pa.array([str(cell) for cell in cells]))


def change_cell(cell: Any, generator: Generator) -> Any:
    if isinstance(cell, list):
        place = int(generator.integers(len(cell)))
        return [change_cell(item, generator) if i == place else item for i, item in enumerate(cell)]
    choices: list[Any] = [0, -1, None, 1e30, float("nan"), cell * 2, 7] if not isinstance(cell, str) else ["", "a b"]
    return choices[int(generator.integers(len(choices)))]


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_changed_metadata(tmp_path: Path, originals: Path, sha256: str, name: str) -> None:
    """Fields dropped, renamed, or with another value or type, at every depth."""
    source, target = originals / name, tmp_path / name
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    if source.is_dir():
        document = json.loads((source / "metadata.json").read_text())
    else:
        members = archive_members(source)
        with np.load(source, allow_pickle=False) as file:
            document = json.loads(str(file["metadata"]))

    def mutate(generator: Generator) -> Path:
        text = json.dumps(change_document(document, generator))
        if source.is_dir():
            (target / "metadata.json").write_text(text)
        else:
            np.save(tmp_path / "text.npy", np.array(text))
            write_members(target, {**members, "metadata.npy": (tmp_path / "text.npy").read_bytes()})
        return target

    run(N_METADATA // 2, mutate, sha256)


def change_document(document: dict[str, Any], generator: Generator) -> dict[str, Any]:
    changed = json.loads(json.dumps(document))
    node = changed
    if generator.integers(4) == 0:
        node = changed["seed_protocol"]
    key = list(node)[int(generator.integers(len(node)))]
    kind = generator.integers(4)
    if kind == 0:
        del node[key]
    elif kind == 1:
        node[f"{key}_"] = node.pop(key)
    else:
        added = ["is_partial", "mlp_range", "total_n_mlps", "seed", "splits", "default_split", "salt"]
        key = key if kind == 2 else added[int(generator.integers(len(added)))]
        node[key] = VALUES[int(generator.integers(len(VALUES)))]
    return changed


def archive_members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_changed_archives(tmp_path: Path, originals: Path, sha256: str) -> None:
    """Members dropped, renamed, swapped or damaged, with correct checksums of the archive."""
    members = archive_members(originals / "set.npz")

    def mutate(generator: Generator) -> Path:
        changed = dict(members)
        one, other = (str(name) for name in generator.choice(list(members), 2, replace=False))
        kind = generator.integers(4)
        if kind == 0:
            del changed[one]
        elif kind == 1:
            changed[f"x{one}"] = changed.pop(one)
        elif kind == 2:
            changed[one], changed[other] = changed[other], changed[one]
        else:
            changed[one] = damage(changed[one], generator)
        write_members(tmp_path / "set.npz", changed)
        return tmp_path / "set.npz"

    assert run(N_ARCHIVES, mutate, sha256)["refused"] > N_ARCHIVES / 2


def test_there_are_enough_mutations() -> None:
    assert 3 * N_BYTES + N_TABLES + N_METADATA + N_ARCHIVES >= 500
