"""Datasets written for and read from `whestbench` itself, in its own environment."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.formats_data import load, save, save_slice, tiny
from whest.dataset.dataset import Dataset
from whest.dataset.formats.combine import combine, merge
from whest.dataset.sources import SeedsDataset
from whest.truth.reference import ReferenceTruth

pytestmark = pytest.mark.slow
SHAPE = ["--n-samples", "2000", "--width", "8", "--depth", "3"]
READ = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, whestbench
from whestbench.scoring import ContestSpec, make_contest_from_dataset
ds = whestbench.load_dataset(sys.argv[1], split=sys.argv[2] if len(sys.argv) > 2 else None)
mlps, said = list(whestbench.iter_mlps(ds)), whestbench.metadata(ds)
spec = ContestSpec(said["width"], said["depth"], len(mlps), flop_budget=10**9, ground_truth_samples=10)
contest = make_contest_from_dataset(spec, ds, len(mlps))
json.dump({
    "names": [mlp.name for mlp in mlps],
    "seeds": [mlp.seed for mlp in mlps],
    "weights": [np.asarray(mlp.weights).tolist() for mlp in mlps],
    "last": np.asarray(whestbench.mlp_at(ds, len(mlps) - 1).weights).tolist(),
    "means": [np.asarray(row["all_layer_means"]).tolist() for row in ds],
    "targets": [np.asarray(final).tolist() for final in contest.final_targets],
    "weights_feature": str(ds.features["weights"]),
    "metadata": said,
}, sys.stdout)
"""


def assert_peer_reads(peer: Any, dataset: Dataset, path: Path, split: str | None = None) -> dict[str, Any]:
    """Names, the estimator's seeds, weights and truth, equal to the last bit."""
    seen = json.loads(peer("python", "-c", READ, path, *([split] if split else [])))
    assert seen["names"] == [row.name for row in dataset.rows]
    assert seen["seeds"] == [dataset.mlp(row).seed for row in dataset.rows]
    weights = [dataset.mlp(row).weights for row in dataset.rows]
    np.testing.assert_array_equal(np.array(seen["weights"], np.float32), weights)
    np.testing.assert_array_equal(np.array(seen["last"], np.float32), weights[-1])
    means = [row.truth.means for row in dataset.rows if row.truth]
    np.testing.assert_array_equal(np.array(seen["means"], np.float32), means)
    np.testing.assert_array_equal(np.array(seen["targets"], np.float32), [layer[-1] for layer in means])
    metadata: dict[str, Any] = seen["metadata"]
    assert (metadata["n_mlps"], metadata["n_samples"]) == (dataset.n_mlps, 1000)
    assert seen["weights_feature"] == f"Array3D(shape=({dataset.depth}, 4, 4), dtype='float32')"
    return metadata


@pytest.mark.parametrize("protocol", ["3.0", "2.0"])
def test_peer_reads_what_we_write(peer: Any, tmp_path: Path, protocol: str) -> None:
    dataset = tiny(3, seed_protocol=protocol)
    sha256 = save(dataset, tmp_path / "a", split="holdout")
    metadata = assert_peer_reads(peer, dataset, tmp_path / "a")
    assert (metadata["content_sha256"], metadata["seed_protocol"]["version"]) == (sha256, protocol)


def test_peer_reads_what_we_merge_and_combine(peer: Any, tmp_path: Path) -> None:
    public, holdout = tiny(3), tiny(2, seed=8)
    save_slice(public, tmp_path / "a", 0, 1)
    save_slice(public, tmp_path / "b", 1, 3)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert_peer_reads(peer, public, tmp_path / "merged")
    save(holdout, tmp_path / "c")
    combine({"public": tmp_path / "merged", "holdout": tmp_path / "c"}, tmp_path / "both")
    assert_peer_reads(peer, public, tmp_path / "both", "public")
    assert_peer_reads(peer, holdout, tmp_path / "both", "holdout")


def test_peer_merges_and_combines_our_datasets(peer: Any, tmp_path: Path) -> None:
    """Its merge keeps our error bars, and our digest is still valid for its slice."""
    public = tiny(3)
    sha256 = save(public, tmp_path / "whole")
    save_slice(public, tmp_path / "a", 0, 1)
    save_slice(public, tmp_path / "b", 1, 3)
    save(tiny(2, seed=8), tmp_path / "c", split="holdout")
    peer("whest", "dataset", "merge", tmp_path / "b", tmp_path / "a", "--output", tmp_path / "merged")
    assert load(tmp_path / "merged").sha256 == sha256
    inputs = [tmp_path / "merged", tmp_path / "c"]
    peer("whest", "dataset", "combine-splits", *inputs, "--output", tmp_path / "both", "--default-split", "public")
    assert load(tmp_path / "both").sha256 == sha256
    assert load(tmp_path / "both", split="holdout").sha256 == load(tmp_path / "c").sha256


def bake(peer: Any, output: Path, seeds: list[int], *more: object) -> Path:
    (output.parent / "seeds.json").write_text(json.dumps(seeds))
    options = ["--n-mlps", len(seeds), *SHAPE, "--mlp-seeds", output.parent / "seeds.json", "--output", output]
    peer("whest", "dataset", "bake", *options, *more)
    return output


def test_we_read_what_the_peer_bakes(peer: Any, tmp_path: Path) -> None:
    """Our protocol gives its weights from its seeds, and our reference sampler gives its means."""
    seeds = [11, 12, 13, 14]
    found = load(bake(peer, tmp_path / "a", seeds))
    drawn = SeedsDataset(8, 3, seeds).load()
    for row, ours in zip(found.rows, drawn.rows, strict=True):
        mlp = found.mlp(row)
        np.testing.assert_array_equal(mlp.weights, drawn.mlp(ours).weights)
        assert (row.name, mlp.seed) == (ours.name, drawn.mlp(ours).seed)
        *_, last = ReferenceTruth(2000).stream(mlp)
        assert row.truth is not None
        np.testing.assert_allclose(row.truth.means, last.truth().means, rtol=1e-6, atol=1e-7)
        assert np.isnan(row.truth.standard_errors).all()


def test_we_merge_and_combine_what_the_peer_bakes(peer: Any, tmp_path: Path) -> None:
    seeds = [11, 12, 13, 14]
    whole = load(bake(peer, tmp_path / "whole", seeds)).sha256
    parts = [bake(peer, tmp_path / name, seeds, "--slice", f"{k}/2") for k, name in enumerate("ab")]
    assert merge(parts, tmp_path / "ours") == whole
    peer("whest", "dataset", "merge", *parts, "--output", tmp_path / "theirs")
    assert load(tmp_path / "theirs").sha256 == whole
    holdout = bake(peer, tmp_path / "holdout", [5, 6], "--split", "holdout")
    combine([tmp_path / "ours", holdout], tmp_path / "both")
    inputs = [tmp_path / "theirs", holdout]
    peer("whest", "dataset", "combine-splits", *inputs, "--output", tmp_path / "peer_both")
    for name in ("both", "peer_both"):
        assert load(tmp_path / name, split="public").sha256 == whole
        assert load(tmp_path / name, split="holdout").sha256 == load(holdout).sha256
