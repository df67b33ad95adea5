"""The board of PRISM goes by the run's manifest: a forged or missing one is shown, and its run is not ranked."""

import json
from pathlib import Path
from typing import Any

import pytest

RUN = ("experiment=prism", "data=generated", "data.max_bytes=2048", "data.val_bytes=512", "task.row_length=32")
MANIFEST = "prism_run_manifest.v2.json"


def statuses(whest: Any, folder: Path) -> list[tuple[str, str]]:
    made = whest("job=leaderboard", "leaderboard=prism", f"output={folder}")
    assert made.exit_code == 0, made.err
    rows = json.loads((folder / "board.json").read_text())["rows"]
    return [(row["status"], row["note"]) for row in rows]


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")  # MLflow's
@pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning")  # MLflow's
def test_a_forged_or_missing_manifest_is_shown_and_not_ranked(whest: Any, tmp_path: Path) -> None:
    ran = whest(*RUN, "estimator=ngram", "page=false")
    assert (ran.exit_code, (ran.outputs / "mlflow.db").exists()) == (0, True), ran.err + ran.out
    assert [status for status, _ in statuses(whest, tmp_path / "whole")] == ["reference"]
    (kept,) = (ran.outputs / "mlartifacts").rglob(MANIFEST)
    content = json.loads(kept.read_text())
    content["score"]["final_score"] = 0.99
    kept.write_text(json.dumps(content))
    ((status, note),) = statuses(whest, tmp_path / "forged")
    assert (status, note) == ("tampered", f"its {MANIFEST} differs from its report: stated score")
    kept.unlink()
    ((status, note),) = statuses(whest, tmp_path / "missing")
    assert (status, note) == ("tampered", f"its {MANIFEST} is missing")
