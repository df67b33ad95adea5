"""Truth from few samples can lie below 0 by its noise. Such a dataset is written and read; damage is still refused."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.formats_data import load, save, tiny
from whest.dataset.dataset import Dataset
from whest.dataset.sources import SeedsDataset
from whest.errors import ConfigError
from whest.truth.fast import FastTruth
from whest.truth.truth import Truth

SHAPES = [(3, 5, 2), (4, 8, 30), (8, 12, 2)]
"""Width, depth and samples: few replicates, and deep enough for neurons that are almost never on."""


@pytest.fixture(scope="module")
def baked() -> list[Dataset]:
    return [drawn(width, depth, n_samples) for width, depth, n_samples in SHAPES]


def drawn(width: int, depth: int, n_samples: int) -> Dataset:
    dataset = SeedsDataset(width, depth, list(range(1000, 1012))).load()
    rows = []
    for row in dataset.rows:
        *_, last = FastTruth(n_samples).stream(dataset.mlp(row))
        rows.append(replace(row, truth=last.truth()))
    return replace(dataset, rows=tuple(rows))


def truths(datasets: list[Dataset]) -> Iterator[Truth]:
    for row in (row for dataset in datasets for row in dataset.rows):
        assert row.truth is not None
        yield row.truth


@pytest.mark.parametrize("name", ["a", "a.npz"])
def test_what_few_samples_give_is_read_back(baked: list[Dataset], tmp_path: Path, name: str) -> None:
    n_below = sum(bool((truth.means < 0).any()) for truth in truths(baked))
    assert n_below > 10, "the shapes no longer show the case that this test is for"
    for number, dataset in enumerate(baked):
        output = tmp_path / f"{number}{name}"
        sha256 = save(dataset, output)
        found = load(output)
        assert found.sha256 == sha256
        pairs = zip(truths([found]), truths([dataset]), strict=True)
        assert all(np.array_equal(one.means, other.means) for one, other in pairs)


@pytest.mark.slow
def test_the_peer_reads_it_too(baked: list[Dataset], tmp_path: Path, peer: Any) -> None:
    read = "import json, sys, whestbench\nread = whestbench.load_dataset\n"
    read += "json.dump([[row['all_layer_means'] for row in read(path)] for path in sys.argv[1:]], sys.stdout)"
    paths = [tmp_path / str(number) for number in range(len(baked))]
    for dataset, path in zip(baked, paths, strict=True):
        save(dataset, path)
    for dataset, seen in zip(baked, json.loads(peer("python", "-c", read, *paths)), strict=True):
        np.testing.assert_array_equal(np.array(seen, np.float32), [truth.means for truth in truths([dataset])])


def with_mean(value: float, **knobs: Any) -> Dataset:
    """One MLP with a mean set. Its errors are 0.01, and those of plain sampling less."""
    dataset = tiny(1)
    truth = dataset.rows[0].truth
    assert truth is not None
    means = truth.means.copy()
    means[1, 0] = value
    made = Truth(means, np.full_like(means, 0.01), 0.01, 1000, **{"n_replicates": 16} | knobs)
    return replace(dataset, rows=(replace(dataset.rows[0], truth=made),))


@pytest.mark.parametrize(("value", "knobs"), [(-0.061, {}), (-0.001, {"n_replicates": None})])
def test_what_noise_does_not_explain_is_refused(tmp_path: Path, value: float, knobs: dict[str, Any]) -> None:
    save(with_mean(value, **knobs), tmp_path / "a")
    with pytest.raises(ConfigError, match="MLP 0: all_layer_means has values below 0 by more than their noise"):
        load(tmp_path / "a")


def test_six_error_bars_are_accepted(tmp_path: Path) -> None:
    save(with_mean(-0.059), tmp_path / "a")
    assert load(tmp_path / "a").n_mlps == 1
