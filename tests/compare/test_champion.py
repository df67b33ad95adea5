"""`job=champion`: what takes a champion's place, and what doesn't. The ledger of a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.compare.champion import challenge, read_champions
from whest.compare.comparison import CompareOptions
from whest.compare.entrants import Entrant
from whest.errors import ConfigError

Whest = Callable[..., Any]
OPTIONS = CompareOptions(None, None, "run", None, 0.95, 100, 0)


def entrant(name: str, scores: list[float], protocol_hash: str = "ab" * 8) -> Entrant:
    rows = [{"mlp_index": i, "mlp_name": f"m{i}", "adjusted_final_layer_score": s} for i, s in enumerate(scores)]
    report = {
        "run_meta": {"protocol": {}, "protocol_hash": protocol_hash},
        "run_config": {
            "estimator": {"name": name, "knobs": {}, "mode": "traced"},
            "dataset": {"name": "fresh"},
            "flop_budget": 1e9,
            "scoring": {"name": "whest"},
        },
        "results": {"score": sum(scores) / len(scores), "score_se": 0.1, "per_mlp": rows},
    }
    return Entrant(name, name, report, None)


def test_a_champion_is_replaced_only_by_evidence(whest: Whest, outputs: Path) -> None:
    words = ("debug=tiny", "truth=plain", "dataset.n_mlps=8", "page=false")
    ledger = ("hypothesis=means alone, no covariance, will do", "decision=kept as a baseline")
    place = {name: outputs / "runs" / name for name in ("zeros", "mean_prop", "cov_prop")}
    for name, folder in place.items():
        scored = whest(*words, *ledger, f"estimator={name}", f"hydra.run.dir={folder}")
        assert scored.exit_code == 0, scored.err
    config = json.loads((place["zeros"] / "report.json").read_text())["run_config"]
    assert (config["hypothesis"], config["decision"]) == tuple(word.partition("=")[2] for word in ledger)

    assert "no champion yet" in whest("job=champion").out
    first = whest("job=champion", f"run={place['mean_prop']}")
    assert first.exit_code == 0, first.err
    assert "mean_prop is the first champion" in first.out
    assert "is the champion already" in whest("job=champion", f"run={place['mean_prop']}").out
    worse = whest("job=champion", f"run={place['zeros']}")
    assert "mean_prop stays champion: mean_prop is" in worse.out
    assert "evidence t test p" in worse.out
    better = whest("job=champion", f"run={place['cov_prop'] / 'report.json'}")
    assert "cov_prop replaces mean_prop as champion: cov_prop is" in better.out
    (record,) = read_champions(outputs)
    assert record["name"] == "cov_prop"
    assert record["hypothesis"] == config["hypothesis"]
    assert record["evidence"]["is_resolved"]
    assert [one["name"] for one in record["history"]] == ["mean_prop"]
    shown = whest("job=champion")
    assert "cov_prop" in shown.out
    assert "mean_prop stays" not in shown.out
    listed = whest("job=runs")
    assert "hypothesis: means alone" in listed.out
    assert "champions/" not in listed.out, "a champion is no run of its own"


def test_a_lower_score_alone_is_not_enough(tmp_path: Path) -> None:
    first = entrant("first", [1.0, 2.0, 3.0, 4.0])
    assert challenge(first, tmp_path, OPTIONS).is_new
    folder = tmp_path / "champions" / ("ab" * 8)
    stored = json.loads((folder / "report.json").read_text())
    assert stored == first.report


@pytest.mark.parametrize("bad", ["../../x", "", "AB" * 8])
def test_a_report_cannot_name_a_folder_elsewhere(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ConfigError, match="protocol hash"):
        challenge(entrant("x", [1.0, 2.0], bad), tmp_path, OPTIONS)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    assert challenge(entrant("first", [1.0, 2.0]), tmp_path, OPTIONS).is_new
    (tmp_path / "champions" / ("ab" * 8) / "champion.json").write_text("{")
    with pytest.raises(ConfigError, match="is damaged"):
        challenge(entrant("second", [1.0, 1.5]), tmp_path, OPTIONS)
