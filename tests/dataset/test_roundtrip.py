"""Written datasets are read back unchanged: in either format, whole or in slices, with every seed protocol."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.formats_data import (
    OURS,
    as_foreign,
    data_file,
    edit_metadata,
    edit_npz,
    edit_table,
    load,
    provenance,
    save,
    save_slice,
    tiny,
    with_truth,
)
from whest.dataset import stored as source
from whest.dataset.dataset import Dataset
from whest.dataset.formats import save as save_module
from whest.dataset.formats.combine import combine, merge
from whest.dataset.formats.metadata import Part
from whest.dataset.formats.save import Share, write_single
from whest.dataset.formats.split import Record
from whest.dataset.sources import SeedsDataset
from whest.errors import ConfigError, WhestError
from whest.mlp import SALT_VARIABLE, draw_mlp

SALT = bytes(range(32))


def assert_same(found: Dataset, expected: Dataset) -> None:
    """Rows, truth, weights and the estimator's randomness."""
    assert [row.index for row in found.rows] == [row.index for row in expected.rows]
    for row, wanted in zip(found.rows, expected.rows, strict=True):
        assert (row.mlp_seed, row.name) == (wanted.mlp_seed, wanted.name)
        assert row.truth is not None
        assert wanted.truth is not None
        np.testing.assert_array_equal(row.truth.means, wanted.truth.means)
        np.testing.assert_array_equal(row.truth.standard_errors, wanted.truth.standard_errors)
        assert (row.truth.avg_variance, row.truth.n_samples) == (wanted.truth.avg_variance, wanted.truth.n_samples)
        assert row.truth.n_replicates == wanted.truth.n_replicates
        mlp, drawn = found.mlp(row), expected.mlp(wanted)
        np.testing.assert_array_equal(mlp.weights, drawn.weights)
        assert (mlp.seed, mlp.name) == (drawn.seed, drawn.name)
        np.testing.assert_array_equal(mlp.key_samples, drawn.key_samples)


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_dataset_comes_back_as_it_was_saved(tmp_path: Path, name: str) -> None:
    dataset = tiny(3)
    sha256 = save(dataset, tmp_path / name)
    found = load(tmp_path / name)
    assert_same(found, dataset)
    assert found.sha256 == sha256
    assert (found.width, found.depth, found.split, found.path) == (4, 2, "public", str(tmp_path / name))
    assert found.hidden[0] == tmp_path / name
    assert all(path.is_relative_to(tmp_path / name) for path in found.hidden)
    assert found.n_samples == 1000


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_unusual_shapes_come_back(tmp_path: Path, name: str) -> None:
    for number, shape in enumerate([{"width": 1, "depth": 1}, {"width": 1, "depth": 3}, {"width": 5, "depth": 1}]):
        dataset = tiny(1, **shape)
        save(dataset, tmp_path / f"{number}{name}")
        assert_same(load(tmp_path / f"{number}{name}"), dataset)


def test_sha256_is_of_the_content_alone(tmp_path: Path) -> None:
    """Format, date, machine, compression and slicing change nothing; one bit of a weight does."""
    dataset = tiny(4)
    digests = {save(dataset, tmp_path / "a"), save(dataset, tmp_path / "a.npz")}
    digests.add(save(dataset, tmp_path / "b", created_at=datetime(2020, 1, 1, tzinfo=UTC), hardware={}))
    edit_table(tmp_path / "b", lambda table: table, compression="zstd", row_group_size=3)
    save_slice(dataset, tmp_path / "s0", 0, 1)
    save_slice(dataset, tmp_path / "s1.npz", 1, 4)
    digests.add(merge([tmp_path / "s1.npz", tmp_path / "s0"], tmp_path / "merged"))
    digests |= {load(tmp_path / name).sha256 for name in ("a", "a.npz", "b", "merged")}
    assert len(digests) == 1
    assert data_file(tmp_path / "merged").read_bytes() == data_file(tmp_path / "a").read_bytes()
    weights = np.array(dataset.mlp(dataset.rows[0]).weights)
    weights[0, 0, 0] = np.nextafter(weights[0, 0, 0], np.float32(9))
    changed = (Record(row, weights) for row in dataset.rows)
    document = json.loads((tmp_path / "a" / "metadata.json").read_text())
    assert write_single(tmp_path / "c", Share(changed, 4, document)) not in digests


def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    save(tiny(3), tmp_path / "a")
    save(tiny(3), tmp_path / "b", command="another", created_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert data_file(tmp_path / "a").read_bytes() == data_file(tmp_path / "b").read_bytes()


def test_one_row_group_an_mlp(tmp_path: Path) -> None:
    save(tiny(3), tmp_path / "a")
    footer = pq.ParquetFile(data_file(tmp_path / "a")).metadata
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [1, 1, 1]


def test_metadata_says_how_it_was_made(tmp_path: Path) -> None:
    sha256 = save_slice(tiny(4), tmp_path / "a", 1, 3)
    document = json.loads((tmp_path / "a" / "metadata.json").read_text())
    assert (document["schema_version"], document["format"]) == ("3.0", "hf-datasets-parquet")
    assert document["seed_protocol"] == {"name": "whestbench_explicit_per_mlp_seeds", "version": "3.0"}
    assert (document["is_partial"], document["mlp_range"], document["total_n_mlps"]) == (True, [1, 3], 4)
    assert (document["n_mlps"], document["n_samples"], document["content_sha256"]) == (2, 1000, sha256)
    assert document["sampler"] == "fast 1"
    floors = [row.truth.floor_mse for row in tiny(4).rows[1:3] if row.truth]
    assert document["truth_floor_mse"] == pytest.approx(np.mean(floors))
    assert "seed" not in document
    card = (tmp_path / "a" / "README.md").read_text()
    assert "data/public-*.parquet" in card
    assert sha256 in card
    assert "[1,3) of 4" in card


def test_the_seed_of_a_bake_is_kept_through_slices_and_formats(tmp_path: Path) -> None:
    """`metadata.seed` is the reference's key for protocol 2.0 alone, so ours has another name."""
    save_slice(tiny(2), tmp_path / "one", 0, 1)
    save_slice(tiny(2), tmp_path / "two", 1, 2)
    merge([tmp_path / "one", tmp_path / "two"], tmp_path / "merged")
    combine({"public": tmp_path / "merged"}, tmp_path / "combined")
    save(tiny(2), tmp_path / "a.npz")
    for name in ("merged", "combined", "a.npz"):
        found = load(tmp_path / name)
        assert (found.seed, found.describe()["seed"]) == (7, 7)
    assert json.loads((tmp_path / "merged" / "metadata.json").read_text())["root_seed"] == 7


def test_whole_part_is_no_part(tmp_path: Path) -> None:
    save(tiny(2), tmp_path / "a", Part(0, 2, 2))
    assert "is_partial" not in json.loads((tmp_path / "a" / "metadata.json").read_text())
    assert load(tmp_path / "a").n_mlps == 2


# Seed protocols


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_protocol_2_takes_its_streams_from_the_root(tmp_path: Path, name: str) -> None:
    dataset = tiny(3, seed_protocol="2.0")
    save(dataset, tmp_path / name)
    found = load(tmp_path / name)
    assert_same(found, dataset)
    assert (found.protocol_version, found.seed) == ("2.0", 7)
    save_slice(dataset, tmp_path / f"0{name}", 0, 1)
    save_slice(dataset, tmp_path / f"1{name}", 1, 3)
    assert merge([tmp_path / f"0{name}", tmp_path / f"1{name}"], tmp_path / f"merged{name}") == found.sha256


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_protocol_4_keeps_its_salt_out_of_the_files(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT_VARIABLE, SALT.hex())
    digest = hashlib.sha256(SALT).hexdigest()
    knobs = {"seed_protocol": "4.0", "salt_digest": digest}
    dataset = with_truth(SeedsDataset(4, 2, [6004799503160661, 5], **knobs).load())  # type: ignore[arg-type]
    save(dataset, tmp_path / name)
    found = load(tmp_path / name)
    assert_same(found, dataset)
    assert found.rows[0].name == "mark-figueroa"
    assert found.mlp(found.rows[0]).seed == 1914761819
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SALT.hex().encode() in path.read_bytes() for path in files)
    monkeypatch.setenv(SALT_VARIABLE, "00" * 32)
    with pytest.raises(ConfigError, match="salt_digest") as caught:
        load(tmp_path / name)
    assert "00" * 32 not in str(caught.value)
    monkeypatch.delenv(SALT_VARIABLE)
    with pytest.raises(ConfigError, match=SALT_VARIABLE):
        load(tmp_path / name)


def test_protocol_4_salt_in_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT_VARIABLE, SALT.hex())
    knobs = {"seed_protocol": "4.0", "salt_digest": hashlib.sha256(SALT).hexdigest()}
    dataset = with_truth(SeedsDataset(4, 2, [5], **knobs).load())  # type: ignore[arg-type]
    save(dataset, tmp_path / "a")
    monkeypatch.delenv(SALT_VARIABLE)
    published = {"salt_source": "metadata", "salt": SALT.hex()}
    edit_metadata(tmp_path / "a", lambda document: document["seed_protocol"].update(published))
    assert_same(load(tmp_path / "a"), dataset)
    assert SALT.hex() not in json.dumps(load(tmp_path / "a").describe())


# Datasets made by other programs


def test_foreign_dataset_has_no_error_bars(tmp_path: Path) -> None:
    save(tiny(3), tmp_path / "a")
    as_foreign(tmp_path / "a")
    found = load(tmp_path / "a")
    for row, ours in zip(found.rows, tiny(3).rows, strict=True):
        assert row.truth is not None
        assert ours.truth is not None
        assert np.isnan(row.truth.standard_errors).all()
        assert row.truth.floor_mse == ours.truth.avg_variance / 1000
        np.testing.assert_array_equal(row.truth.means, ours.truth.means)


def test_foreign_slices_merge_and_stay_what_they_were(tmp_path: Path) -> None:
    save(tiny(3), tmp_path / "whole")
    save_slice(tiny(3), tmp_path / "s0", 0, 2)
    save_slice(tiny(3), tmp_path / "s1", 2, 3)
    for name in ("whole", "s0", "s1"):
        as_foreign(tmp_path / name)
    sha256 = merge([tmp_path / "s0", tmp_path / "s1"], tmp_path / "merged")
    assert sha256 == load(tmp_path / "merged").sha256 == load(tmp_path / "whole").sha256


@pytest.mark.parametrize("group", [1, 2, 5])
def test_rows_are_read_in_any_order(tmp_path: Path, group: int) -> None:
    """Also if a row group has several MLPs: reading backwards starts the group again."""
    dataset = tiny(5)
    save(dataset, tmp_path / "a")
    edit_table(tmp_path / "a", lambda table: table, row_group_size=group)
    found = load(tmp_path / "a")
    for place in (4, 0, 2, 1, 1, 3, 4):
        expected = draw_mlp(dataset.rows[place].streams, 4, 2, "").weights
        np.testing.assert_array_equal(found.mlp(found.rows[place]).weights, expected)


def test_sharded_split_is_one_dataset(tmp_path: Path) -> None:
    dataset = tiny(5)
    sha256 = save(dataset, tmp_path / "a")
    table = pq.read_table(data_file(tmp_path / "a"))
    data_file(tmp_path / "a").unlink()
    for number, rows in enumerate([table[:2], table[2:5]]):
        pq.write_table(rows, tmp_path / "a" / "data" / f"public-{number:05}-of-00002.parquet")
    assert load(tmp_path / "a").sha256 == sha256
    (tmp_path / "a" / "data" / "public-00000-of-00002.parquet").unlink()
    with pytest.raises(ConfigError, match="not complete"):
        load(tmp_path / "a")


def test_npz_2_3_has_its_names_synthesised(tmp_path: Path) -> None:
    dataset = tiny(3, seed_protocol="2.0")
    save(dataset, tmp_path / "a.npz")
    gone = [*OURS, "mlp_names", "sampling_budget_breakdowns"]
    edit_npz(
        tmp_path / "a.npz",
        lambda members: [members.pop(name) for name in gone],
        schema_version="2.3",
        content_sha256=None,
    )
    found = load(tmp_path / "a.npz")
    assert [row.name for row in found.rows] == [row.name for row in dataset.rows]
    np.testing.assert_array_equal(found.mlp(found.rows[2]).weights, dataset.mlp(dataset.rows[2]).weights)


def test_compressed_npz_is_read_too(tmp_path: Path) -> None:
    sha256 = save(tiny(3), tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        members = {name: file[name] for name in file.files}
    np.savez_compressed(tmp_path / "b.npz", **members)  # type: ignore[arg-type]
    found = load(tmp_path / "b.npz")
    assert found.sha256 == sha256
    np.testing.assert_array_equal(found.mlp(found.rows[0]).weights, tiny(3).mlp(tiny(3).rows[0]).weights)


# Selection, and what is read for it


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_selection_keeps_places_and_names(tmp_path: Path, name: str) -> None:
    save(tiny(5), tmp_path / name)
    part = load(tmp_path / name, range=(2, 5), n_mlps=2)
    assert_same(part, replace(tiny(5), rows=tiny(5).rows[2:4]))
    with pytest.raises(ConfigError, match=r"dataset\.n_mlps=6"):
        load(tmp_path / name, n_mlps=6)
    with pytest.raises(ConfigError, match=r"dataset\.range=\[4,6\]"):
        load(tmp_path / name, range=(4, 6))


def test_of_a_very_large_file_only_the_chosen_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tiny(3), tmp_path / "a")
    content = bytearray(data_file(tmp_path / "a").read_bytes())
    place = content.index(tiny(3).mlp(tiny(3).rows[2]).weights.tobytes()[:16])
    content[place] ^= 1
    data_file(tmp_path / "a").write_bytes(content)
    with pytest.raises(ConfigError, match="MLP 2"):
        load(tmp_path / "a", n_mlps=2)
    monkeypatch.setattr(source, "VERIFIED_BYTES", 0)
    assert_same(load(tmp_path / "a", n_mlps=2), tiny(2))
    with pytest.raises(ConfigError, match="MLP 2"):
        load(tmp_path / "a", range=(2, 3))


def test_file_that_changes_in_use_is_noticed(tmp_path: Path) -> None:
    save(tiny(2), tmp_path / "a.npz")
    found = load(tmp_path / "a.npz")
    stored = found.source.stored  # type: ignore[attr-defined]
    other = replace(found.source, fingerprints={0: b"", 1: b""})  # type: ignore[type-var]
    assert stored.header.path == tmp_path / "a.npz"
    with pytest.raises(WhestError, match="changed while it was in use"):
        replace(found, source=other).mlp(found.rows[0])


# Splits


def test_splits_are_chosen_by_name(tmp_path: Path) -> None:
    public, holdout = tiny(3), tiny(2, seed=8)
    digests = [save(public, tmp_path / "a"), save(holdout, tmp_path / "b.npz", split="holdout")]
    assert combine([tmp_path / "a", tmp_path / "b.npz"], tmp_path / "both", "holdout") == ["public", "holdout"]
    assert [load(tmp_path / "both", split=split).sha256 for split in ("public", "holdout")] == digests
    assert_same(load(tmp_path / "both"), holdout)
    with pytest.raises(ConfigError, match=r"no split 'test'.*public, holdout"):
        load(tmp_path / "both", split="test")
    edit_metadata(tmp_path / "both", lambda document: document.pop("default_split"))
    with pytest.raises(ConfigError, match=r"several splits.*public, holdout"):
        load(tmp_path / "both")
    with pytest.raises(ConfigError, match=r"no split 'holdout'.*public"):
        load(tmp_path / "a", split="holdout")


def test_splits_can_be_renamed(tmp_path: Path) -> None:
    save(tiny(3), tmp_path / "a")
    save(tiny(2, seed=8), tmp_path / "b")
    with pytest.raises(ConfigError, match="same split"):
        combine([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    combine({"mini": tmp_path / "a", "full": tmp_path / "b"}, tmp_path / "both")
    assert_same(load(tmp_path / "both", split="full"), tiny(2, seed=8))
    assert load(tmp_path / "both").split == "mini"


# Writing


def interrupted() -> Iterator[Record]:
    dataset = tiny(2)
    yield Record(dataset.rows[0], dataset.mlp(dataset.rows[0]).weights)
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_interrupted_write_leaves_nothing(tmp_path: Path, name: str) -> None:
    save(tiny(2), tmp_path / "a")
    document = json.loads((tmp_path / "a" / "metadata.json").read_text())
    with pytest.raises(KeyboardInterrupt):
        write_single(tmp_path / "out" / name, Share(interrupted(), 2, document))
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_existing_output_is_never_written_over(tmp_path: Path, name: str) -> None:
    save(tiny(2), tmp_path / name)
    with pytest.raises(ConfigError, match=r"output=.*exists already"):
        save(tiny(3), tmp_path / name)
    assert load(tmp_path / name).n_mlps == 2


def test_output_that_can_not_be_made_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"output=.*can't be written"):
        save(tiny(2), tmp_path / "file" / "set")


def test_rows_must_be_the_part_they_are_said_to_be(tmp_path: Path) -> None:
    dataset = tiny(4)
    for rows, part in ((dataset.rows[1:3], None), (dataset.rows, Part(1, 5, 5)), (dataset.rows[1:3], Part(1, 3, 2))):
        with pytest.raises(ConfigError, match=r"bake\.slice"):
            save(replace(dataset, rows=rows), tmp_path / "a", part)
    bare = replace(dataset, rows=tuple(replace(row, truth=None) for row in dataset.rows))
    with pytest.raises(ConfigError, match="truth"):
        save(bare, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Public", "a_b", "a-b", "-a", "", "é", "1"])
def test_names_that_the_hub_refuses_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="split="):
        provenance(name)
    with pytest.raises(ConfigError, match="config="):
        provenance(config=name)


def test_the_stage_is_hidden_and_beside_the_output(tmp_path: Path) -> None:
    with save_module.staged(tmp_path / "a") as stage:
        assert stage.parent == tmp_path
        assert stage.name.startswith(".a.")
        stage.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
