"""Datasets: the chosen MLPs, their names, and the digest that identifies them."""

import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whest.config.build import build_target
from whest.dataset import suite as suite_module
from whest.dataset.dataset import Dataset
from whest.dataset.row import KeptWeights, Row
from whest.dataset.sources import (
    FreshDataset,
    SeedsDataset,
    SuiteDataset,
    chosen_version,
    fresh_seeds,
    named_suite,
    of_its_time,
    suite_name,
)
from whest.dataset.suite import SUITE_ROOTS, Suite, load_suite, save_suite, suite_versions
from whest.errors import ConfigError, WhestError
from whest.mlp import SALT_VARIABLE, SeedProtocol, draw_mlp, legacy_streams, mlp_names
from whest.truth.truth import Truth

SHIPPED = [(suite.round, suite.version) for suite in suite_module.shipped_suites()]
SHAPES = {"warmup": (256, 8), "phase1": (256, 32), "phase2": (1024, 16)}
TWICE = 20260525
"""A seed to list several times: its name is kenneth-simmons."""


def fresh(**knobs: Any) -> Dataset:
    values = {"width": 4, "depth": 2, "seed": 7} | knobs
    return build_target(FreshDataset, values, "dataset").load()


def by_seeds(mlp_seeds: object, **knobs: Any) -> Dataset:
    values = {"width": 4, "depth": 2, "mlp_seeds": mlp_seeds} | knobs
    return build_target(SeedsDataset, values, "dataset").load()


def seeds_of(dataset: Dataset) -> list[int]:
    return [row.mlp_seed for row in dataset.rows]


def names_of(dataset: Dataset) -> list[str]:
    return [row.name for row in dataset.rows]


# Fresh seeds


def test_fresh_seeds_are_the_root_s_state_without_its_lowest_bit() -> None:
    state = np.random.SeedSequence(101).generate_state(5, np.uint64)
    assert fresh_seeds(101, 5) == [int(word) // 2 for word in state]
    assert all(0 <= seed < 2**63 for seed in fresh_seeds(101, 100))


@pytest.mark.parametrize("root", [0, 101, 2**63 - 1])
def test_a_shorter_list_of_fresh_seeds_begins_a_longer_one(root: int) -> None:
    assert fresh_seeds(root, 20)[:7] == fresh_seeds(root, 7)
    assert len(set(fresh_seeds(root, 20))) == 20


def test_fresh_dataset_draws_ten_by_default() -> None:
    dataset = fresh()
    assert seeds_of(dataset) == fresh_seeds(7, 10)
    assert names_of(dataset) == mlp_names(SeedProtocol(), fresh_seeds(7, 10))
    assert [row.index for row in dataset.rows] == list(range(10))
    assert (dataset.seed, dataset.protocol_version, dataset.has_truth) == (7, "3.0", False)


def test_fresh_dataset_s_mlps_follow_the_protocol() -> None:
    dataset = fresh(n_mlps=2)
    mlp, expected = dataset.mlp(dataset.rows[1]), SeedProtocol().streams(fresh_seeds(7, 2)[1])
    np.testing.assert_array_equal(mlp.weights, draw_mlp(expected, 4, 2, "").weights)
    assert (mlp.seed, mlp.name) == (expected.estimator_seed, dataset.rows[1].name)


def test_fresh_dataset_by_protocol_2_stores_the_estimator_s_seed() -> None:
    dataset, streams = fresh(n_mlps=3, seed_protocol="2.0"), legacy_streams(7, 3)
    assert seeds_of(dataset) == [stream.estimator_seed for stream in streams]
    assert [dataset.mlp(row).seed for row in dataset.rows] == seeds_of(dataset)
    np.testing.assert_array_equal(dataset.mlp(dataset.rows[2]).weights, draw_mlp(streams[2], 4, 2, "").weights)
    assert dataset.protocol_version == "2.0"


# Selection


def test_range_comes_first_and_n_mlps_takes_the_first_of_it() -> None:
    whole = fresh(n_mlps=8)
    part = fresh(range=[3, 8], n_mlps=2)
    assert part.rows[0].index == 3
    assert seeds_of(part) == seeds_of(whole)[3:5]
    assert names_of(part) == names_of(whole)[3:5]


def test_range_alone_takes_all_of_it() -> None:
    assert seeds_of(fresh(range=[10, 14])) == fresh_seeds(7, 14)[10:]


def test_names_come_from_the_whole_dataset() -> None:
    """The third of three MLPs with the same name gets -3, also if it is the only one chosen."""
    seeds = [TWICE, 1, TWICE, TWICE]
    assert names_of(by_seeds(seeds, range=[3, 4])) == ["kenneth-simmons-3"]
    assert names_of(by_seeds(seeds, range=[2, 4], n_mlps=1)) == ["kenneth-simmons-2"]
    assert by_seeds(seeds, range=[3, 4]).rows[0].index == 3


@pytest.mark.parametrize(
    "bounds", [[2, 2], [3, 1], [0, 5], [4, 5]], ids=["empty", "backwards", "end-too-far", "start-too-far"]
)
def test_range_outside_the_dataset_is_refused(bounds: list[int]) -> None:
    with pytest.raises(ConfigError) as caught:
        by_seeds([1, 2, 3, 4], range=bounds)
    message = str(caught.value)
    assert f"dataset.range=[{bounds[0]},{bounds[1]}]" in message
    assert "4 MLPs" in message


@pytest.mark.parametrize("bounds", [[-1, 2], [0], [0, 1, 2], "all", [0, 0]])
def test_range_that_is_no_range_is_refused(bounds: object) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.range"):
        fresh(range=bounds)


@pytest.mark.parametrize(
    ("knobs", "there_are"),
    [({"n_mlps": 5}, 4), ({"n_mlps": 3, "range": [1, 3]}, 2)],
)
def test_more_mlps_than_there_are_is_refused(knobs: dict[str, Any], there_are: int) -> None:
    with pytest.raises(ConfigError) as caught:
        by_seeds([1, 2, 3, 4], **knobs)
    assert f"dataset.n_mlps={knobs['n_mlps']}" in str(caught.value)
    assert f"the {there_are} MLPs" in str(caught.value)


def test_fresh_n_mlps_beyond_its_range_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dataset\.n_mlps=5 is more than the 3"):
        fresh(range=[2, 5], n_mlps=5)


# Seeds from a list or a file


def test_seeds_from_a_list() -> None:
    dataset = by_seeds([20260525, 568690286140009226])
    assert names_of(dataset) == ["kenneth-simmons", "sara-perez"]
    assert dataset.mlp(dataset.rows[0]).seed == 3804025179
    assert (dataset.path, dataset.seed) == (None, None)


def test_seeds_from_a_json_file_are_the_list_s(tmp_path: Path) -> None:
    file = tmp_path / "seeds.json"
    file.write_text(json.dumps([5, 2**63 - 1]))
    dataset = by_seeds(str(file))
    assert seeds_of(dataset) == [5, 2**63 - 1]
    assert (dataset.path, dataset.hidden) == (str(file.resolve()), (file.resolve(),))
    assert dataset.sha256 == by_seeds([5, 2**63 - 1]).sha256


@pytest.mark.parametrize(
    "content",
    ["", "[1, 2", '{"seeds": [1]}', "7", "[1.5]", "[true]", '["1"]', "[-1]", f"[{2**63}]", "[null]"],
)
def test_json_without_a_list_of_seeds_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "seeds.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"dataset\.mlp_seeds") as caught:
        by_seeds(str(file))
    assert str(file) in str(caught.value)


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "seeds.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"dataset\.mlp_seeds"):
        by_seeds(str(file))


def test_missing_seed_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        by_seeds(str(tmp_path / "absent.json"))
    with pytest.raises(ConfigError, match=r"dataset\.mlp_seeds"):
        by_seeds(str(tmp_path))


@pytest.mark.parametrize("in_a_file", [False, True])
def test_no_seeds_at_all_is_refused(tmp_path: Path, in_a_file: bool) -> None:
    (tmp_path / "seeds.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"dataset\.mlp_seeds is empty"):
        by_seeds(str(tmp_path / "seeds.json") if in_a_file else [])


def test_protocol_4_takes_its_salt_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    salt = bytes(range(32))
    monkeypatch.setenv(SALT_VARIABLE, salt.hex())
    digest = hashlib.sha256(salt).hexdigest()
    dataset = by_seeds([6004799503160661], seed_protocol="4.0", salt_digest=digest)
    assert names_of(dataset) == ["mark-figueroa"]
    assert dataset.mlp(dataset.rows[0]).seed == 1914761819
    assert dataset.protocol_version == "4.0"
    assert salt.hex() not in json.dumps(dataset.describe())


def test_protocol_4_without_a_digest_or_salt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SALT_VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=r"dataset\.salt_digest"):
        by_seeds([1], seed_protocol="4.0")
    with pytest.raises(ConfigError, match=SALT_VARIABLE):
        by_seeds([1], seed_protocol="4.0", salt_digest="0" * 64)


# The digest of the content


def with_truth() -> Dataset:
    rows = tuple(replace(row, truth=make_truth(row.index)) for row in fresh(n_mlps=3).rows)
    return replace(fresh(n_mlps=3), rows=rows)


def make_truth(seed: int) -> Truth:
    generator = np.random.default_rng(seed)
    means, errors = generator.random((2, 2, 4)).astype(np.float32)
    return Truth(means, errors, 0.25, 1000)


def change_truth(dataset: Dataset, **fields: Any) -> Dataset:
    """The last row's truth with other values."""
    *others, last = dataset.rows
    assert last.truth is not None
    return replace(dataset, rows=(*others, replace(last, truth=replace(last.truth, **fields))))


def change_row(dataset: Dataset, **fields: Any) -> Dataset:
    *others, last = dataset.rows
    return replace(dataset, rows=(*others, replace(last, **fields)))


def nudged(values: np.ndarray) -> np.ndarray:
    """One cell changed by one unit in its last place."""
    moved = values.copy()
    moved[-1, -1] = np.nextafter(moved[-1, -1], np.float32(2))
    return moved


def last_truth(dataset: Dataset) -> Truth:
    truth = dataset.rows[-1].truth
    assert truth is not None
    return truth


CHANGES: dict[str, Callable[[Dataset], Dataset]] = {
    "width": lambda d: replace(d, width=5),
    "depth": lambda d: replace(d, depth=3),
    "protocol": lambda d: replace(d, protocol_version="4.0"),
    "fewer rows": lambda d: replace(d, rows=d.rows[:-1]),
    "order": lambda d: replace(d, rows=d.rows[::-1]),
    "seed": lambda d: change_row(d, mlp_seed=d.rows[-1].mlp_seed + 1),
    "name": lambda d: change_row(d, name="someone-else"),
    "no truth": lambda d: change_row(d, truth=None),
    "one mean": lambda d: change_truth(d, means=nudged(last_truth(d).means)),
    "one standard error": lambda d: change_truth(d, standard_errors=nudged(last_truth(d).standard_errors)),
    "variance": lambda d: change_truth(d, avg_variance=float(np.nextafter(0.25, 1))),
    "samples": lambda d: change_truth(d, n_samples=1001),
    "replicates": lambda d: change_truth(d, n_replicates=16),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_sha256_changes_with_the_content(change: Callable[[Dataset], Dataset]) -> None:
    assert change(with_truth()).sha256 != with_truth().sha256


def test_sha256_does_not_change_with_anything_else() -> None:
    dataset = with_truth()
    assert len(dataset.sha256) == 64
    renamed = replace(dataset, name="other", path="/elsewhere", split="test", seed=99)
    assert renamed.sha256 == with_truth().sha256


def test_description_has_what_the_report_names() -> None:
    dataset = with_truth()
    assert dataset.describe() == {
        "name": "fresh",
        "path": None,
        "sha256": dataset.sha256,
        "seed": 7,
        "n_mlps": 3,
        "seed_protocol": {"name": "whestbench_explicit_per_mlp_seeds", "version": "3.0"},
        "split": None,
        "n_samples": 1000,
    }
    assert fresh().describe()["n_samples"] is None


# The shipped suites


def test_suite_roots_are_fixed() -> None:
    assert SUITE_ROOTS == {"warmup": 101, "phase1": 102, "phase2": 103}


@pytest.mark.parametrize(("round_name", "version"), SHIPPED)
def test_shipped_suite_is_the_fresh_dataset_of_its_root(round_name: str, version: int) -> None:
    suite, (width, depth) = load_suite(round_name, version), SHAPES[round_name]
    expected = fresh_seeds(SUITE_ROOTS[round_name], len(suite.mlp_seeds))
    assert suite.mlp_seeds == expected
    assert suite.mlp_names == mlp_names(SeedProtocol(), expected)
    assert (suite.width, suite.depth, suite.round) == (width, depth, round_name)
    assert len(suite.truths) == len(expected)
    assert all(truth.means.shape == truth.standard_errors.shape == (depth, width) for truth in suite.truths)
    assert all(np.isfinite(truth.means).all() and (truth.standard_errors >= 0).all() for truth in suite.truths)


@pytest.mark.parametrize(("round_name", "version"), SHIPPED)
def test_shipped_truth_agrees_with_the_closed_form_of_the_first_layer(round_name: str, version: int) -> None:
    """Layer 0 of neuron j has mean ‖W_0[:, j]‖/√(2π); float32 rounding adds to the sampling error."""
    dataset = SuiteDataset(round_name, n_mlps=2, version=version).load()
    for row in dataset.rows:
        weights = dataset.mlp(row).weights[0].astype(np.float64)
        exact = np.linalg.norm(weights, axis=0) / np.sqrt(2 * np.pi)
        truth = row.truth
        assert truth is not None
        assert (np.abs(truth.means[0] - exact) < 6 * truth.standard_errors[0] + 1e-6).all()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary suite folder with a small warmup suite. A test that leaves a file open fails."""
    monkeypatch.setattr(suite_module, "FOLDER", tmp_path)
    seeds = fresh_seeds(101, 3)
    names = mlp_names(SeedProtocol(), seeds)
    suite = Suite("warmup", 4, 2, seeds, names, [make_truth(i) for i in range(3)], "plain 1")
    (tmp_path / "v1").mkdir()
    save_suite(suite, tmp_path / "v1" / "warmup.npz")
    yield tmp_path / "v1"
    gc.collect()


def test_suite_comes_back_as_it_was_saved(folder: Path) -> None:
    suite = load_suite("warmup")
    assert suite.mlp_seeds == fresh_seeds(101, 3)
    assert (suite.width, suite.depth, suite.sampler) == (4, 2, "plain 1")
    for i, truth in enumerate(suite.truths):
        expected = make_truth(i)
        np.testing.assert_array_equal(truth.means, expected.means)
        np.testing.assert_array_equal(truth.standard_errors, expected.standard_errors)
        assert (truth.avg_variance, truth.n_samples) == (0.25, 1000)
    floors = [np.mean(np.square(make_truth(i).standard_errors[-1], dtype=np.float64)) for i in range(3)]
    assert suite.floor_mse == pytest.approx(np.mean(floors), rel=1e-12)


def test_suite_dataset_brings_its_truth_and_takes_a_selection(folder: Path) -> None:
    dataset = SuiteDataset("warmup", range=(1, 3), n_mlps=1).load()
    row = dataset.rows[0]
    assert isinstance(row, Row)
    assert (row.index, row.mlp_seed, dataset.n_mlps) == (1, fresh_seeds(101, 2)[1], 1)
    assert dataset.has_truth
    assert (dataset.seed, dataset.n_samples, dataset.name) == (101, 1000, "suite-warmup")
    np.testing.assert_array_equal(last_truth(dataset).means, make_truth(1).means)


def test_suite_and_fresh_dataset_of_its_root_have_the_same_networks(folder: Path) -> None:
    baked, drawn = SuiteDataset("warmup").load(), fresh(seed=101, n_mlps=3)
    assert names_of(baked) == names_of(drawn)
    for row, same in zip(baked.rows, drawn.rows, strict=True):
        np.testing.assert_array_equal(baked.mlp(row).weights, drawn.mlp(same).weights)


def test_absent_suite_names_those_there_are(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"round=phase1.*warmup"):
        SuiteDataset("phase1").load()


@pytest.fixture
def second(folder: Path) -> Path:
    """A second version of the small suite: one MLP more, and other truth."""
    (folder.parent / "v2").mkdir()
    seeds = fresh_seeds(101, 4)
    truths = [make_truth(10 + i) for i in range(4)]
    suite = Suite("warmup", 4, 2, seeds, mlp_names(SeedProtocol(), seeds), truths, "plain 2")
    save_suite(suite, folder.parent / "v2" / "warmup.npz")
    return folder.parent


def test_the_newest_version_is_taken_unless_another_is_asked_for(second: Path) -> None:
    newest, old = SuiteDataset("warmup").load(), SuiteDataset("warmup", version=1).load()
    assert (newest.n_mlps, newest.sampler, newest.name) == (4, "plain 2", "suite-warmup-v2")
    assert (old.n_mlps, old.sampler, old.name) == (3, "plain 1", "suite-warmup")
    assert SuiteDataset("warmup", version=2).load().sha256 == newest.sha256 != old.sha256
    assert seeds_of(newest)[:3] == seeds_of(old)
    np.testing.assert_array_equal(last_truth(old).means, make_truth(2).means)


def test_versions_are_counted_as_numbers_and_per_round(second: Path) -> None:
    (second / "v10").mkdir()
    (second / "v2" / "warmup.npz").rename(second / "v10" / "warmup.npz")
    (second / "vnew").mkdir()
    (second / "vnew" / "warmup.npz").write_bytes(b"no version")
    assert suite_versions("warmup") == [1, 10]
    assert load_suite("warmup").version == 10


def test_a_wrong_version_names_those_there_are(second: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.version=3.*round=warmup has the versions 1, 2"):
        SuiteDataset("warmup", version=3).load()
    with pytest.raises(ConfigError, match=r"dataset\.version must be greater than or equal to 1, got 0"):
        build_target(SuiteDataset, {"round": "warmup", "version": 0}, "dataset")


def test_a_suites_name_says_its_version(second: Path) -> None:
    for version in (1, 2):
        named = named_suite(suite_name("warmup", version))
        assert named == SuiteDataset("warmup", version=version)
    assert named_suite("fresh") is None


def test_a_record_says_which_version_it_was(second: Path) -> None:
    """A run writes the newest version down; a record from before versions means the first."""
    node = {"_target_": "whest.dataset.sources.SuiteDataset", "round": "warmup", "n_mlps": None}
    assert chosen_version({"dataset": {**node, "version": None}}) == {"version": 2}
    assert chosen_version({"dataset": {**node, "version": 1}}) == {}
    assert chosen_version({"dataset": {**node, "round": "prism", "version": None}}) == {}
    assert of_its_time({"dataset": node}) == {"dataset": {**node, "version": 1}}
    later = {"dataset": {**node, "version": 2}}
    assert of_its_time(later) == later
    other = {"dataset": {"_target_": "whest.dataset.sources.FreshDataset"}}
    assert of_its_time(other) == other


@pytest.mark.parametrize("array", ["mlp_seeds", "mlp_names", "means", "standard_errors", "avg_variances", "n_samples"])
def test_suite_with_changed_content_is_refused(folder: Path, array: str) -> None:
    path = folder / "warmup.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays[array] = arrays[array][::-1] if array == "mlp_names" else arrays[array] + 1
    np.savez_compressed(path, **arrays)
    with pytest.raises(WhestError, match=r"warmup\.npz is damaged"):
        load_suite("warmup")


def test_suite_of_another_schema_is_refused(folder: Path) -> None:
    path = folder / "warmup.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(str(arrays.pop("header"))) | {"schema": 99}
    np.savez_compressed(path, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(WhestError, match=r"warmup\.npz"):
        load_suite("warmup")


@pytest.mark.parametrize("keep", [0, 10, 200, 0.5, -1], ids=["empty", "10-bytes", "200-bytes", "half", "all-but-one"])
def test_truncated_suite_is_refused_with_a_remedy(folder: Path, keep: float) -> None:
    path = folder / "warmup.npz"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(WhestError, match=r"warmup\.npz is damaged"):
        load_suite("warmup")


def test_suite_with_a_flipped_byte_is_refused_or_unharmed(folder: Path) -> None:
    """Archive, compression and array headers fail in many ways. Each must give the same error or change nothing."""
    path = folder / "warmup.npz"
    content, original = path.read_bytes(), SuiteDataset("warmup").load().sha256
    surprises = set()
    for place in range(0, len(content), 5):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            if SuiteDataset("warmup").load().sha256 != original:
                surprises.add("another content was taken for the suite's")
        except WhestError as error:
            surprises |= set() if "warmup.npz is damaged" in str(error) else {str(error)}
        except Exception as error:
            surprises.add(type(error).__name__)
    assert surprises == set()


def test_what_is_made_of_kept_weights_is_made_once_per_values() -> None:
    kept, made = KeptWeights(), []

    def make(weights: np.ndarray, given: np.ndarray) -> np.ndarray:
        made.append(given)
        return weights.sum() * given

    def ask(given: list[float]) -> np.ndarray:
        return kept.made_of(kept.draw(np.random.SeedSequence(3), 4, 2), np.array(given), make)

    ask([1.0, 2.0])
    ask([1.0, 2.0])
    assert len(made) == 2, "nothing is kept outside a sweep"
    kept.keep()
    first = ask([1.0, 2.0])
    assert ask([1.0, 2.0]) is first
    assert not np.array_equal(ask([1.0, 3.0]), first), "other values"
    assert len(made) == 4
    kept.keep(0)
    ask([1.0, 3.0])
    assert len(made) == 5
