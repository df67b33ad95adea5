"""Reports and run folders made to mislead: import, page and compare stay in the folder they are given."""

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.recorded_store import Store
from whest.cli.page import page_of_recorded
from whest.compare.entrants import read_entrants
from whest.errors import ConfigError, WhestError
from whest.tasks.whitebox.predictions import read_predictions
from whest.whestbench.reports import NotAReportError, read_peer_report

Whest = Callable[..., Any]
pytestmark = [
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]
ROW = {
    "mlp_index": 0,
    "flops_used": 10,
    "wall_time_s": 1.0,
    "flopscope_backend_time_s": 1.0,
    "residual_wall_time_s": 0.0,
    "budget_exhausted": False,
    "time_exhausted": False,
    "residual_wall_time_exhausted": False,
    "final_layer_mse": 0.5,
}
CONFIG = {"n_mlps": 1, "width": 4, "depth": 2, "flop_budget": 100.0}


def document(**row: Any) -> dict[str, Any]:
    return {"run_config": CONFIG, "results": {"per_mlp": [{**ROW, **row}]}}


BROKEN: list[Any] = [
    {"estimator": {"by_namespace": {"a": {"operations": {"b": {"flop_cost": "x"}}}}}},
    {"estimator": {"by_namespace": {"a": {"operations": {"b": 3}}}}},
    {"estimator": {"by_namespace": [1]}},
    {"estimator": 3},
]


def test_a_folder_of_reports_takes_in_what_is_whole_and_says_the_rest(whest: Whest, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "whole.json").write_text(json.dumps(document()))
    for number, breakdowns in enumerate(BROKEN):
        (folder / f"broken{number}.json").write_text(json.dumps(document(breakdowns=breakdowns)))
    (folder / "meta.json").write_text(json.dumps({**document(), "run_meta": 3}))
    (folder / "deep.json").write_bytes(b"[" * 100_000)
    (folder / "large.json").write_bytes(b" " * (2**25 + 1))
    os.mkfifo(folder / "pipe.json")
    (tmp_path / "private.json").write_text(json.dumps(document(mlp_name="private")))
    (folder / "link.json").symlink_to(tmp_path / "private.json")
    outcome = whest("job=import", f"path={folder}")
    assert outcome.exit_code == 0, outcome.err
    lines = outcome.out.replace("\n", " ")
    for name in (*(f"broken{number}" for number in range(len(BROKEN))), "deep", "large", "pipe", "link"):
        assert f"{name}.json" in lines
    assert "link out of" in lines
    kept = list(outcome.outputs.glob("imported/*/whestbench.json"))
    assert "private" not in "".join(path.read_text() for path in kept)
    assert (folder / "whole.json").read_bytes() in [path.read_bytes() for path in kept]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(NotAReportError, match="no ordinary file"):
        read_peer_report(tmp_path / "pipe.json")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Store(tmp_path_factory.mktemp("outputs")).scored("mean_prop")


def copied(source: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    for name in ("report.json", "config.yaml", "predictions.npz"):
        (target / name).write_bytes((source / name).read_bytes())
    return target


@pytest.mark.parametrize("name", ["config.yaml", "report.json"])
def test_a_page_repeats_no_file_from_elsewhere(run_folder: Path, tmp_path: Path, name: str) -> None:
    folder = copied(run_folder, tmp_path / "run")
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="leads out of"):
        page_of_recorded(folder)


def test_a_page_of_a_damaged_report_is_an_error_in_words(run_folder: Path, tmp_path: Path) -> None:
    folder = copied(run_folder, tmp_path / "run")
    report = json.loads((folder / "report.json").read_text())
    report["results"]["per_mlp"] = {"a": 1}
    (folder / "report.json").write_text(json.dumps(report))
    with pytest.raises(WhestError, match="is damaged"):
        page_of_recorded(folder)


@pytest.mark.parametrize("name", ["predictions.npz", "report.json"])
@pytest.mark.parametrize("place", ["run", "sweep/0"])
def test_a_comparison_reads_no_file_from_elsewhere(run_folder: Path, tmp_path: Path, place: str, name: str) -> None:
    folder = copied(run_folder, tmp_path / place)
    given = str(tmp_path / place.split("/")[0])
    assert len(read_entrants(given, None, [])) == 1
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="link out of it"):
        read_entrants(given, None, [])


def test_predictions_that_unpack_to_too_much_are_none(tmp_path: Path) -> None:
    path = tmp_path / "predictions.npz"
    np.savez_compressed(path, mlp_index=np.arange(2), final_layer=np.zeros((2, 10**7), np.float32))
    assert path.stat().st_size < 10**6
    assert read_predictions(path) is None
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mlp_index.npy", b"")
    assert read_predictions(path) is None
