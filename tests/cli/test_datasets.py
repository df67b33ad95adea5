"""Stored datasets on the command line: score, merge, combine, describe; and a dataset of the hub from a snapshot."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.formats_data import as_foreign, load, save, save_slice, tiny
from whest.dataset.hub import HubDataset, pinned
from whest.errors import ConfigError

Whest = Callable[..., Any]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SCORE = ["estimator=mean_prop", "tracking=none", "isolation=none", "budget=1e9"]


@pytest.mark.parametrize("name", ["set", "set.npz"])
def test_stored_dataset_is_scored(whest: Whest, tmp_path: Path, name: str) -> None:
    sha256 = save(tiny(3), tmp_path / name)
    ended = whest("dataset=file", f"dataset.path={name}", *SCORE)
    assert ended.exit_code == 0, ended.err
    dataset = ended.report["run_config"]["dataset"]
    assert (dataset["sha256"], dataset["split"], dataset["n_samples"]) == (sha256, "public", 1000)
    assert dataset["path"] == str(tmp_path / name)
    assert dataset["seed_protocol"] == {"name": "whestbench_explicit_per_mlp_seeds", "version": "3.0"}
    assert [case["mlp_name"] for case in ended.report["results"]["per_mlp"]] == [row.name for row in tiny(3).rows]
    floors = [row.truth.floor_mse for row in tiny(3).rows if row.truth]
    assert ended.report["results"]["truth_floor_mse"] == pytest.approx(sum(floors) / 3)


def test_truth_without_error_bars_leaves_a_valid_report(whest: Whest, tmp_path: Path) -> None:
    """The report is read as strict JSON; its floor is that of independent samples, its pictures are drawn."""
    save(tiny(3), tmp_path / "set")
    as_foreign(tmp_path / "set")
    ended = whest("dataset=file", "dataset.path=set", *SCORE, "figures=true")
    assert ended.exit_code == 0, ended.err
    variances = [row.truth.avg_variance for row in tiny(3).rows if row.truth]
    results = ended.report["results"]
    assert results["truth_floor_mse"] == pytest.approx(sum(variances) / 3 / 1000)
    assert results["final_layer_mse_corrected"] is not None
    assert "nan" not in ended.out.lower().split()
    assert (ended.folder / "figures" / "layer_error.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dataset=file"], "dataset.path"),
        (["dataset=file", "dataset.path=absent"], "absent: no such dataset"),
        (["dataset=file", "dataset.path=part"], "job=merge"),
        (["dataset=file", "dataset.path=set", "dataset.split=test"], "Its splits are: public"),
        (["dataset=file", "dataset.path=set", "dataset.range=[1,9]"], "dataset.range=[1,9]"),
        (["dataset=file", "dataset.path=set", "truth.n_samples=10"], "the dataset has its own truth"),
        (["dataset=hub", "dataset.repo=a/b"], "dataset.revision=null is not pinned"),
        (["job=merge", "output=new"], "inputs is empty"),
        (["job=merge", "inputs=[part]"], "output is missing"),
        (["job=merge", "inputs=[part]", "output=new"], "no slice holds MLPs [0,1)"),
        (["job=merge", "inputs={a:part}", "output=new"], "inputs must be a list"),
        (["job=combine", "inputs=[set,part]", "output=new"], "partial dataset"),
        (["job=combine", "inputs=7", "output=new"], "inputs"),
        (["job=combine", "inputs=[set]", "output=set"], "exists already"),
        (["job=info"], "path is missing"),
        (["job=info", "path=absent"], "no such dataset"),
    ],
)
def test_wrong_command_is_refused(whest: Whest, tmp_path: Path, arguments: list[str], said: str) -> None:
    save(tiny(3), tmp_path / "set")
    save_slice(tiny(3), tmp_path / "part", 1, 3)
    ended = whest(*arguments)
    assert ended.exit_code == 2, ended.err
    assert said in ended.err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "outputs") == ["part", "set"]


def test_slices_merge_into_the_dataset_they_came_from(whest: Whest, tmp_path: Path) -> None:
    sha256 = save(tiny(4), tmp_path / "whole")
    save_slice(tiny(4), tmp_path / "a", 0, 3)
    save_slice(tiny(4), tmp_path / "b", 3, 4)
    ended = whest("job=merge", "inputs=[b,a]", "output=merged")
    assert ended.exit_code == 0, ended.err
    assert sha256 in ended.out
    assert load(tmp_path / "merged").sha256 == sha256
    document = json.loads((tmp_path / "merged" / "metadata.json").read_text())
    assert (document["partials_count"], document["hardware_fingerprints"]) == (2, [{"machine": "x86_64"}])
    assert not {"is_partial", "mlp_range", "total_n_mlps"} & set(document)


def test_splits_combine_and_are_described(whest: Whest, tmp_path: Path) -> None:
    digests = [save(tiny(3), tmp_path / "a"), save(tiny(2, seed=9), tmp_path / "b")]
    ended = whest("job=combine", "inputs={public:a,holdout:b}", "output=both", "default_split=holdout")
    assert ended.exit_code == 0, ended.err
    assert load(tmp_path / "both").sha256 == digests[1]
    told = whest("job=info", "path=both")
    assert told.exit_code == 0, told.err
    for words in (*digests, "4x2", "1,000", "whestbench_explicit_per_mlp_seeds 3.0", "fast 1", "holdout"):
        assert words in told.out


def test_info_describes_a_slice(whest: Whest, tmp_path: Path) -> None:
    save_slice(tiny(3), tmp_path / "part.npz", 1, 3)
    told = whest("job=info", "path=part.npz")
    assert told.exit_code == 0, told.err
    assert "[1,3) of 3" in told.out


# The hub


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in huggingface_hub's layout: blobs, a snapshot of links to them, a tag; without network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    save(tiny(3), tmp_path / "set")
    storage = tmp_path / "cache" / "datasets--owner--name"
    (storage / "blobs").mkdir(parents=True)
    for number, path in enumerate(sorted(path for path in (tmp_path / "set").rglob("*") if path.is_file())):
        link = storage / "snapshots" / COMMIT / path.relative_to(tmp_path / "set")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.rename(storage / "blobs" / f"{number:040}"))
    (storage / "refs").mkdir()
    (storage / "refs" / "v1").write_text(COMMIT)
    return tmp_path / "cache"


@pytest.mark.parametrize("repo", ["owner/name", f"hf://owner/name@{COMMIT}", "hf://owner/name@v1"])
def test_hub_dataset_is_read_from_its_snapshot(snapshot: Path, repo: str) -> None:
    revision = None if "@" in repo else COMMIT
    dataset = HubDataset(repo, revision, range=(1, 3), cache_dir=str(snapshot)).load()
    assert [row.name for row in dataset.rows] == [row.name for row in tiny(3).rows[1:]]
    assert dataset.path == f"hf://owner/name@{'v1' if repo.endswith('v1') else COMMIT}"
    assert dataset.hidden == (snapshot / "datasets--owner--name",), "the blobs hold the answers, too"


def test_hub_dataset_that_is_not_there_is_refused(snapshot: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.repo=owner/other .* can't be downloaded"):
        HubDataset("owner/other", COMMIT, cache_dir=str(snapshot)).load()


def test_hub_dataset_s_unknown_split_is_refused(snapshot: Path) -> None:
    with pytest.raises(ConfigError, match="no split 'test'"):
        HubDataset("owner/name", COMMIT, "test", cache_dir=str(snapshot)).load()


@pytest.mark.parametrize("revision", [None, "main", "master", "HEAD", "refs/heads/main", "refs/heads/dev"])
def test_moving_revisions_are_refused(revision: str | None) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.revision=.* is not pinned: give a commit"):
        pinned("owner/name", revision)


@pytest.mark.parametrize("repo", ["name", "a/b/c", "hf://a", "../x/y", "https://huggingface.co/a/b", ""])
def test_names_of_no_repo_are_refused(repo: str) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.repo"):
        pinned(repo, COMMIT)


def test_two_revisions_are_refused() -> None:
    with pytest.raises(ConfigError, match="two revisions"):
        pinned("hf://owner/name@v1", "v2")
    assert pinned("hf://owner/name@v1", "v1") == ("owner/name", "v1")


def test_without_the_extra_the_hub_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install 'whest\[hub\]'"):
        HubDataset("owner/name", COMMIT).load()
