"""An error of a stored dataset is reported before any work: its place, what is wrong, and the remedy."""

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.formats_data import (
    as_foreign,
    column,
    data_file,
    edit_metadata,
    edit_npz,
    edit_table,
    load,
    read_members,
    save,
    save_slice,
    tiny,
    write_members,
)
from whest.dataset.formats.combine import combine, merge
from whest.errors import ConfigError

Document = dict[str, Any]


def nested(value: float) -> Callable[[list[Any]], list[Any]]:
    """The first row's first number replaced."""

    def change(rows: list[Any]) -> list[Any]:
        inner = rows[0]
        while isinstance(inner[0], list):
            inner = inner[0]
        inner[0] = value
        return rows

    return change


def shorter(rows: list[Any]) -> list[Any]:
    return [rows[0][:-1], *rows[1:]]


# The metadata

METADATA: dict[str, tuple[Callable[[Document], object], str]] = {
    "schema 2.4": (lambda d: d.update(schema_version="2.4"), "schema_version is '2.4', this whest reads 3.0"),
    "no schema": (lambda d: d.pop("schema_version"), "schema_version is None"),
    "protocol 1.0": (
        lambda d: d["seed_protocol"].update(version="1.0"),
        "Incompatible dataset seed_protocol version: file has '1.0', this whest requires '2.0'",
    ),
    "no protocol": (lambda d: d.pop("seed_protocol"), "file has None"),
    "protocol of another name": (lambda d: d["seed_protocol"].update(name="mine"), "is not called 'mine'"),
    "2.0 without its root": (
        lambda d: d.update(seed_protocol={"name": "whestbench_seedsequence_hierarchy", "version": "2.0"}),
        r"2\.0 needs its root seed",
    ),
    "a root seed in 3.0": (lambda d: d.update(seed=7), "none in metadata.seed"),
    "4.0 without a digest": (
        lambda d: d.update(seed_protocol={"name": "whestbench_kdf_per_mlp_seeds", "version": "4.0"}),
        "salt_digest",
    ),
    "4.0 without its salt": (
        lambda d: d.update(
            seed_protocol={"name": "whestbench_kdf_per_mlp_seeds", "version": "4.0", "salt_digest": "00"}
        ),
        "salt field",
    ),
    "width 0": (lambda d: d.update(width=0), r"metadata\.width .*got 0"),
    "width of another type": (lambda d: d.update(width=[4]), r"metadata\.width"),
    "width true": (lambda d: d.update(width=True), r"metadata\.width"),
    "no depth": (lambda d: d.pop("depth"), r"metadata\.depth is missing"),
    "another width": (lambda d: d.update(width=5), "weights is ragged, or not of shape"),
    "another depth": (lambda d: d.update(depth=1), "weights is ragged, or not of shape"),
    "more MLPs": (lambda d: d.update(n_mlps=3), "metadata.n_mlps=3, its data files hold 2"),
    "other samples": (lambda d: d.update(n_samples=999), "n_samples=999, its rows have 1000"),
    "no samples": (lambda d: d.update(n_samples=0), r"metadata\.n_samples"),
    "split in capitals": (lambda d: d.update(split="Public"), r"metadata\.split"),
    "another split": (lambda d: d.update(split="holdout"), "data files of split holdout"),
    "partial": (
        lambda d: d.update(is_partial=True, mlp_range=[2, 4], total_n_mlps=4),
        r"partial dataset: MLPs \[2,4\) of 4.*job=merge",
    ),
    "partial without a range": (lambda d: d.update(is_partial=True), "lacks mlp_range"),
    "partial with a wrong range": (
        lambda d: d.update(is_partial=True, mlp_range=[2, 5], total_n_mlps=5),
        "doesn't fit 2 of 5",
    ),
    "splits null": (lambda d: d.update(splits=None), "metadata.splits"),
    "splits empty": (lambda d: d.update(splits={}), "metadata.splits"),
    "partial with splits": (lambda d: d.update(splits={"a": {}}, is_partial=True), "several splits"),
    "default split unknown": (lambda d: d.update(splits={"a": {}}, default_split="b"), "no split 'b'"),
    "another digest": (lambda d: d.update(content_sha256="0" * 64), "content_sha256"),
    "no digest": (lambda d: d.update(content_sha256="abc"), r"metadata\.content_sha256"),
}


@pytest.mark.parametrize(("edit", "said"), METADATA.values(), ids=METADATA.keys())
def test_wrong_metadata_is_refused(tmp_path: Path, edit: Callable[[Document], object], said: str) -> None:
    save(tiny(), tmp_path / "a")
    edit_metadata(tmp_path / "a", edit)
    with pytest.raises(ConfigError, match=f"(?s){said}") as caught:
        load(tmp_path / "a")
    assert str(tmp_path / "a") in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"a"', "[" * 100_000, "\udcff"])
def test_metadata_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    save(tiny(), tmp_path / "a")
    (tmp_path / "a" / "metadata.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match="metadata"):
        load(tmp_path / "a")


# The Parquet file

TABLES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "no weights": (lambda t: t.drop_columns("weights"), "0 columns named weights"),
    "a column twice": (lambda t: t.append_column("mlp_seed", t["mlp_seed"]), "2 columns named mlp_seed"),
    "another name": (
        lambda t: t.rename_columns([{"final_means": "means"}.get(n, n) for n in t.column_names]),
        "final_means",
    ),
    "ids as int64": (
        lambda t: t.set_column(0, "mlp_id", t["mlp_id"].cast(pa.int64())),
        "column mlp_id is int64, a dataset's is int32",
    ),
    "weights as double": (
        lambda t: t.set_column(3, "weights", t["weights"].cast(pa.list_(pa.list_(pa.list_(pa.float64()))))),
        "column weights is .*double",
    ),
    "flat weights": (lambda t: t.set_column(3, "weights", t["final_means"]), "3 nested lists of float"),
    "ids from 1": (column("mlp_id", lambda ids: [i + 1 for i in ids]), "MLP 0: mlp_id is 1"),
    "ids swapped": (lambda t: t.take([1, 0]), "MLP 0: mlp_id is 1"),
    "a name in capitals": (column("mlp_name", lambda names: ["Ann Lee", names[1]]), "mlp_name 'Ann Lee'"),
    "no name": (column("mlp_name", lambda names: ["", names[1]]), "mlp_name ''"),
    "a null name": (column("mlp_name", lambda names: [None, names[1]]), "mlp_name is null"),
    "the same name": (column("mlp_name", lambda names: [names[1]] * 2), "two MLPs are called"),
    "a negative seed": (column("mlp_seed", lambda seeds: [-1, seeds[1]]), "mlp_seed -1"),
    "NaN weights": (column("weights", nested(float("nan"))), "weights has NaN"),
    "infinite means": (column("all_layer_means", nested(float("inf"))), "all_layer_means has NaN or infinite"),
    "other final means": (column("final_means", nested(9.0)), "final_means differ"),
    "infinite variance": (column("avg_variance", lambda v: [float("inf"), v[1]]), "avg_variance is inf"),
    "negative errors": (column("standard_errors", nested(-1.0)), "standard_errors"),
    "one unknown error": (column("standard_errors", nested(float("nan"))), "standard_errors"),
    "no samples": (column("n_samples", lambda n: [0, n[1]]), "n_samples is 0"),
    "null samples": (column("n_samples", lambda n: [None, n[1]]), "n_samples is null"),
    "one replicate": (column("n_replicates", lambda n: [1, n[1]]), "n_replicates is 1"),
    "ragged means": (column("all_layer_means", shorter), "all_layer_means is ragged"),
    "a null in the means": (column("all_layer_means", nested(None)), "all_layer_means has nulls"),  # type: ignore[arg-type]
    "fewer rows": (lambda t: t[:1], "metadata.n_mlps=2, its data files hold 1"),
    "no rows": (lambda t: t[:0], "metadata.n_mlps=2"),
    "another seed": (column("mlp_seed", lambda seeds: [seeds[0] + 1, seeds[1]]), "content_sha256"),
    "another weight": (column("weights", nested(0.5)), "content_sha256"),
    "another error": (column("standard_errors", nested(0.5)), "content_sha256"),
}


@pytest.mark.parametrize(("edit", "said"), TABLES.values(), ids=TABLES.keys())
def test_wrong_table_is_refused(tmp_path: Path, edit: Callable[[pa.Table], pa.Table], said: str) -> None:
    save(tiny(), tmp_path / "a")
    edit_table(tmp_path / "a", edit)
    with pytest.raises(ConfigError, match=said) as caught:
        load(tmp_path / "a")
    assert str(tmp_path / "a") in str(caught.value)


def test_protocol_2_seed_must_follow_from_the_root(tmp_path: Path) -> None:
    save(tiny(seed_protocol="2.0"), tmp_path / "a")
    edit_metadata(tmp_path / "a", lambda document: document.update(seed=8))
    with pytest.raises(ConfigError, match=r"doesn't follow from metadata\.seed"):
        load(tmp_path / "a")


def test_paths_that_hold_no_dataset_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_text("not an archive")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    save(tiny(), tmp_path / "bare")
    data_file(tmp_path / "bare").unlink()
    said = {
        "absent": "no such dataset",
        "empty": r"no metadata\.json",
        "text.npz": "not an .npz dataset",
        "foreign.parquet": "not an .npz dataset",
        "bare": "not complete: there are none",
    }
    for name, words in said.items():
        with pytest.raises(ConfigError, match=words):
            load(tmp_path / name)


def test_truncated_data_file_is_refused(tmp_path: Path) -> None:
    save(tiny(), tmp_path / "a")
    content = data_file(tmp_path / "a").read_bytes()
    data_file(tmp_path / "a").write_bytes(content[: len(content) // 2])
    with pytest.raises(ConfigError, match="not a readable Parquet file"):
        load(tmp_path / "a")


def test_row_group_larger_than_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "a.npz"):
        save(tiny(), tmp_path / name)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 100})())
    for name in ("a", "a.npz"):
        with pytest.raises(ConfigError, match="GB of memory free"):
            load(tmp_path / name)


# The .npz file

MEMBERS: dict[str, tuple[Callable[[dict[str, np.ndarray]], object], str]] = {
    "no weights": (lambda m: m.pop("weights"), "it has no weights"),
    "no names in 2.4": (lambda m: m.pop("mlp_names"), "it has no mlp_names"),
    "no metadata": (lambda m: m.pop("metadata"), "metadata can't be read"),
    "metadata as a list": (lambda m: m.update(metadata=np.array(["{}"])), "metadata has shape"),
    "weights as double": (lambda m: m.update(weights=m["weights"].astype(float)), "weights has dtype float64"),
    "weights of another shape": (lambda m: m.update(weights=m["weights"][:, :1]), "weights has shape"),
    "Fortran order": (lambda m: m.update(weights=np.asfortranarray(m["weights"])), "Fortran"),
    "one mean missing": (lambda m: m.update(final_means=m["final_means"][:1]), "final_means has shape"),
    "NaN weights": (lambda m: m["weights"].__setitem__((1, 0, 0, 0), np.nan), "MLP 1: weights has NaN"),
    "seeds as floats": (lambda m: m.update(mlp_seeds=m["mlp_seeds"].astype(float)), "mlp_seeds has dtype"),
    "breakdowns of another length": (lambda m: m.update(sampling_budget_breakdowns=np.array("[]")), "not a list of 2"),
    "another seed": (lambda m: m["mlp_seeds"].__setitem__(0, 5), "content_sha256"),
    "another weight": (lambda m: m["weights"].__setitem__((0, 0, 0, 0), 0.5), "content_sha256"),
    "a name twice": (lambda m: m["mlp_names"].__setitem__(0, str(m["mlp_names"][1])), "two MLPs are called"),
}


@pytest.mark.parametrize(("edit", "said"), MEMBERS.values(), ids=MEMBERS.keys())
def test_wrong_archive_is_refused(tmp_path: Path, edit: Callable[[dict[str, np.ndarray]], object], said: str) -> None:
    save(tiny(), tmp_path / "a.npz")
    edit_npz(tmp_path / "a.npz", edit)
    with pytest.raises(ConfigError, match=said) as caught:
        load(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(caught.value)


@pytest.mark.parametrize("version", ["1.0", "2.2", "3.0"])
def test_npz_of_another_schema_is_refused(tmp_path: Path, version: str) -> None:
    save(tiny(), tmp_path / "a.npz")
    edit_npz(tmp_path / "a.npz", lambda members: None, schema_version=version)
    with pytest.raises(ConfigError, match=f"schema_version is '{version}', this whest reads 2.4 and 2.3"):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize("schema", ["2.4", "2.3", "1.0", "9.9"])
def test_npz_of_seed_protocol_1_is_refused(tmp_path: Path, schema: str) -> None:
    save(tiny(), tmp_path / "a.npz")
    old = {"name": "whestbench_seedsequence_hierarchy", "version": "1.0"}
    edit_npz(tmp_path / "a.npz", lambda members: None, seed_protocol=old, schema_version=schema)
    said = "Incompatible dataset seed_protocol version: file has '1.0', this whest requires '2.0'.*Re-bake"
    with pytest.raises(ConfigError, match=said):
        load(tmp_path / "a.npz")


class Bomb:
    """Leaves a trace if it is unpickled."""

    exploded: ClassVar[list[str]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Bomb.exploded.append, ("boom",)


@pytest.mark.parametrize("member", ["metadata", "weights", "mlp_names", "sampling_budget_breakdowns"])
def test_pickle_is_refused_and_never_run(tmp_path: Path, member: str) -> None:
    save(tiny(), tmp_path / "a.npz")
    loaded = np.empty(2, object)
    loaded[0] = Bomb()
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, loaded, allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for content in (buffer.getvalue(), pickle.dumps(Bomb())):
        write_members(tmp_path / "a.npz", {**members, f"{member}.npy": content})
        with pytest.raises(ConfigError, match="can't be read"):
            load(tmp_path / "a.npz")
    assert Bomb.exploded == []


def test_member_twice_is_refused(tmp_path: Path) -> None:
    save(tiny(), tmp_path / "a.npz")
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("weights.npy", b"")
    with pytest.raises(ConfigError, match="two members with the same name"):
        load(tmp_path / "a.npz")


# Merging and combining


def test_parquet_of_seed_protocol_1_is_told_so_whatever_its_schema(tmp_path: Path) -> None:
    save(tiny(), tmp_path / "a")
    edit_metadata(tmp_path / "a", lambda d: d.update(schema_version="1.0", seed_protocol={"version": "1.0"}))
    with pytest.raises(ConfigError, match=r"Incompatible dataset seed_protocol version: file has '1\.0'"):
        load(tmp_path / "a")


def slices(folder: Path) -> list[Path]:
    """A dataset of 6 in three slices."""
    paths = [folder / f"s{k}" for k in range(3)]
    for k, path in enumerate(paths):
        save_slice(tiny(6), path, 2 * k, 2 * k + 2)
    return paths


def test_gaps_and_overlaps_are_named(tmp_path: Path) -> None:
    a, b, c = slices(tmp_path)
    save_slice(tiny(6), tmp_path / "wide", 1, 4)
    save(tiny(6), tmp_path / "whole")
    said = {
        (b, c): r"no slice holds MLPs \[0,2\)",
        (a, c): r"no slice holds MLPs \[2,4\), between .*s0 and .*s2",
        (a, b): r"no slice holds MLPs \[4,6\)",
        (a, tmp_path / "wide", c): r"s0 and .*wide both hold MLPs \[1,2\)",
        (a, a, b, c): r"s0 and .*s0 both hold MLPs \[0,2\)",
        (a, b, tmp_path / "whole"): "whole: it is a complete dataset",
        (): "inputs is empty",
    }
    for inputs, words in said.items():
        with pytest.raises(ConfigError, match=words):
            merge(inputs, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize(
    ("key", "edit"),
    [
        ("n_samples", lambda d: d.update(n_samples=7)),
        ("total_n_mlps", lambda d: d.update(total_n_mlps=7)),
        ("sampler", lambda d: d.update(sampler="plain 1")),
        ("standard_error", lambda d: d.update(standard_error=1e-3)),
        ("backend", lambda d: d.update(backend="torch")),
        ("config", lambda d: d.update(config="other")),
    ],
)
def test_slices_made_differently_are_refused(tmp_path: Path, key: str, edit: Callable[[Document], object]) -> None:
    paths = slices(tmp_path)
    edit_metadata(paths[1], edit)
    with pytest.raises(ConfigError, match=f"s1: its {key} is .*, that of .*s0"):
        merge(paths, tmp_path / "merged")


def test_slice_damaged_inside_leaves_no_output(tmp_path: Path) -> None:
    paths = slices(tmp_path)
    edit_table(paths[2], column("weights", nested(0.5)))
    with pytest.raises(ConfigError, match="s2: its content doesn't match"):
        merge(paths, tmp_path / "out" / "merged")
    assert list((tmp_path / "out").iterdir()) == []


def test_slices_of_two_datasets_are_refused_by_their_names(tmp_path: Path) -> None:
    paths = slices(tmp_path)
    name = tiny(6).rows[0].name
    edit_table(paths[1], column("mlp_name", lambda names: [name, names[1]]))
    edit_metadata(paths[1], lambda document: document.pop("content_sha256"))
    with pytest.raises(ConfigError, match="same name"):
        merge(paths, tmp_path / "merged")


def test_combine_refuses_what_does_not_go_together(tmp_path: Path) -> None:
    save(tiny(), tmp_path / "a")
    save(tiny(width=5), tmp_path / "wide", split="wide")
    save_slice(tiny(4), tmp_path / "part", 0, 2, split="part")
    save(tiny(seed=9), tmp_path / "b", split="holdout")
    combine([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    said = {
        ("a", "wide"): "wide: its width is 5",
        ("a", "part"): "partial dataset",
        ("a", "both"): "several splits already: public, holdout",
        ("a", "absent"): "no such dataset",
        (): "inputs is empty",
    }
    for names, words in said.items():
        with pytest.raises(ConfigError, match=words):
            combine([tmp_path / name for name in names], tmp_path / "out")
    with pytest.raises(ConfigError, match="default_split=test"):
        combine([tmp_path / "a", tmp_path / "b"], tmp_path / "out", "test")
    with pytest.raises(ConfigError, match="split=hold-out"):
        combine({"hold-out": tmp_path / "a"}, tmp_path / "out")
    with pytest.raises(ConfigError, match="one split"):
        combine([tmp_path / "a", tmp_path / "b"], tmp_path / "out.npz")
    assert not (tmp_path / "out").exists()


def test_foreign_dataset_without_a_digest_is_still_checked(tmp_path: Path) -> None:
    save(tiny(), tmp_path / "a")
    as_foreign(tmp_path / "a")
    edit_table(tmp_path / "a", column("final_means", nested(9.0)))
    with pytest.raises(ConfigError, match="final_means differ"):
        load(tmp_path / "a")
    assert json.loads(str(read_members_of(tmp_path)["metadata"]))["n_mlps"] == 2


def read_members_of(folder: Path) -> dict[str, np.ndarray]:
    save(tiny(), folder / "b.npz")
    return read_members(folder / "b.npz")
