"""Moments in the dataset formats: optional columns that come back, are verified, and leave everything else alone."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.formats_data import data_file, edit_metadata, edit_npz, load, save, save_slice, tiny
from whest.dataset.bake import DrawnMoments
from whest.dataset.dataset import Dataset
from whest.dataset.formats.combine import merge
from whest.errors import ConfigError
from whest.truth.cache import TruthCache

Whest = Callable[..., Any]
N_SAMPLES = 128


def with_moments(dataset: Dataset, cache: Path) -> Dataset:
    return replace(dataset, source=DrawnMoments(dataset, TruthCache(cache), N_SAMPLES))


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return with_moments(tiny(3), tmp_path / "cache")


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_moments_come_back_and_the_content_keeps_its_digest(tmp_path: Path, dataset: Dataset, name: str) -> None:
    plain = save(tiny(3), tmp_path / f"plain-{name}")
    assert save(dataset, tmp_path / name) == plain, "a score on the same means is comparable"
    found = load(tmp_path / name)
    assert found.sha256 == plain
    assert all(row.truth is not None and row.truth.moments is None for row in found.rows), "read when they are used"
    for row, (_, truth), wanted in zip(found.rows, found, dataset.rows, strict=True):
        expected, moments = dataset.source.moments(wanted), found.source.moments(row)
        assert truth is not None
        assert expected is not None
        assert moments is not None
        assert truth.moments is not None
        assert moments.to_bytes() == truth.moments.to_bytes() == expected.to_bytes()
        assert moments.n_samples == N_SAMPLES
        assert moments.covariances is not None
        assert moments.covariances.shape == (2, 4, 4)
        diagonal = np.diagonal(moments.covariances, axis1=1, axis2=2)
        assert diagonal == pytest.approx(moments["variances"], rel=1e-5)
    assert all(truth is not None and truth.moments is None for _, truth in load(tmp_path / f"plain-{name}"))


def test_a_dataset_without_moments_has_no_column_of_them(tmp_path: Path, dataset: Dataset) -> None:
    save(tiny(3), tmp_path / "plain")
    save(dataset, tmp_path / "set")
    columns, more = (pq.read_schema(data_file(tmp_path / name)).names for name in ("plain", "set"))
    assert more[: len(columns)] == columns
    assert {"variances", "covariances_se", "n_moment_samples"} <= set(more) - set(columns)
    assert "moments_sha256" not in json.loads((tmp_path / "plain" / "metadata.json").read_text())


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_slices_merge_with_their_moments(tmp_path: Path, dataset: Dataset, name: str) -> None:
    save_slice(dataset, tmp_path / f"a-{name}", 0, 1)
    save_slice(dataset, tmp_path / f"b-{name}", 1, 3)
    merge([tmp_path / f"a-{name}", tmp_path / f"b-{name}"], tmp_path / name)
    found = load(tmp_path / name)
    for row in dataset.rows:
        moments, expected = found.source.moments(row), dataset.source.moments(row)
        assert moments is not None
        assert expected is not None
        assert moments.to_bytes() == expected.to_bytes()


def test_slices_with_and_without_moments_do_not_merge(tmp_path: Path, dataset: Dataset) -> None:
    save_slice(dataset, tmp_path / "a", 0, 1)
    save_slice(tiny(3), tmp_path / "b", 1, 3)
    with pytest.raises(ConfigError, match="moments_sha256"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_changed_moments_are_noticed(tmp_path: Path, dataset: Dataset) -> None:
    def more(arrays: dict[str, Any]) -> None:
        arrays["variances"] = arrays["variances"] * np.float32(1.5)

    save(dataset, tmp_path / "set.npz")
    edit_npz(tmp_path / "set.npz", more)
    with pytest.raises(ConfigError, match="moments_sha256"):
        load(tmp_path / "set.npz")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_moments_that_are_no_numbers_are_refused(tmp_path: Path, dataset: Dataset, value: float) -> None:
    def spoil(arrays: dict[str, Any]) -> None:
        arrays["fourth_traces"][1, 0] = value

    save(dataset, tmp_path / "set.npz")
    edit_npz(tmp_path / "set.npz", spoil)
    with pytest.raises(ConfigError, match="MLP 1: fourth_traces"):
        load(tmp_path / "set.npz")


def test_metadata_that_promises_moments_must_keep_its_word(tmp_path: Path) -> None:
    save(tiny(3), tmp_path / "set")
    edit_metadata(tmp_path / "set", lambda document: document.update(moments_sha256="0" * 64))
    with pytest.raises(ConfigError, match="columns named variances"):
        load(tmp_path / "set")


def test_a_bake_keeps_moments_and_a_run_reads_them(whest: Whest, tmp_path: Path) -> None:
    words = (
        "dataset=fresh",
        "seed=7",
        "dataset.width=8",
        "dataset.depth=2",
        "truth.n_samples=2000",
        "dataset.n_mlps=2",
    )
    asked = ("truth.moments=true", "truth.moment_samples=256")
    assert whest("job=bake", *words, f"output={tmp_path / 'plain'}").exit_code == 0
    outcome = whest("job=bake", *words, *asked, f"output={tmp_path / 'set'}")
    assert outcome.exit_code == 0, outcome.err
    plain, found = load(tmp_path / "plain"), load(tmp_path / "set")
    assert plain.sha256 == found.sha256
    moments = found.source.moments(found.rows[1])
    assert moments is not None
    assert moments.n_samples == 256
    runs = [
        whest("dataset=file", f"dataset.path={tmp_path / name}", "tracking=none", "budget=1e6", *more)
        for name, more in (("plain", ()), ("set", ()), ("plain", asked))
    ]
    assert [run.exit_code for run in runs] == [0, 0, 0], runs[-1].err
    reports = [json.loads(path.read_text()) for path in runs[0].outputs.glob("runs/*/*/report.json")]
    assert len(reports) == 3
    assert len({report["run_meta"]["protocol_hash"] for report in reports}) == 1
    assert len({str([row["final_layer_mse"] for row in report["results"]["per_mlp"]]) for report in reports}) == 1
    refused = whest(*words, "truth.moments=true", "truth.moment_samples=3")
    assert refused.exit_code == 2
    assert "truth.moment_samples must be greater than or equal to 64, got 3" in refused.err
