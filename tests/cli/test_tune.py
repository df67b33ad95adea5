"""`job=tune`: training MLPs that no suite contains, a study that goes on, and a recommendation only after a test."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.places import ROOT
from whest.cli.tune import MOST_MLPS, Search, Space, read_spaces, root_of
from whest.compare.tuning import Tried, Tuning
from whest.dataset.sources import fresh_seeds
from whest.dataset.suite import shipped_suites
from whest.errors import ConfigError
from whest.scoring.paired import Paired

OPTUNA = version("optuna")
pytestmark = pytest.mark.skipif(
    OPTUNA.startswith("2."), reason=f"make launchers put Optuna {OPTUNA} here; make test runs these with a newer one"
)
Whest = Callable[..., Any]
TINY = ("job=tune", "debug=tiny", "truth=plain", "budget=1e6", "estimator=whitened_mc")
KNOBS = "tune.knobs={budget_fraction:[0.02,1.0],anchors:[none,mean]}"
FEW = ("tune.n_trials=3", "tune.n_mlps=2", "tune.confirm_mlps=8")


def test_no_suite_contains_a_training_or_held_out_mlp() -> None:
    """All the seeds that a search can draw, against all those of the shipped suites, and against each other."""
    training, held_out = (set(fresh_seeds(root_of(purpose), MOST_MLPS)) for purpose in ("training", "held out"))
    suites = {seed for suite in shipped_suites() for seed in suite.mlp_seeds}
    assert (len(training), len(held_out)) == (MOST_MLPS, MOST_MLPS)
    assert len(suites) >= 75
    assert not training & suites
    assert not held_out & suites
    assert not training & held_out


def test_a_search_is_kept_and_a_stopped_one_goes_on_to_the_same_trials(
    whest: Whest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt in the second trial leaves it running in the study, as a kill does."""
    scores, calls = Search.scores, []

    def interrupted(self: Search, knobs: Mapping[str, Any], purpose: str, n_mlps: int) -> np.ndarray:
        calls.append(dict(knobs))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return scores(self, knobs, purpose, n_mlps)

    monkeypatch.setattr(Search, "scores", interrupted)
    stopped = whest(*TINY, KNOBS, *FEW)
    assert stopped.exit_code == 130
    assert [path.name for path in stopped.outputs.glob("runs/*/*/*")] == [], "nothing half-written"
    monkeypatch.setattr(Search, "scores", scores)
    again = whest(*TINY, KNOBS, *FEW)
    assert again.exit_code == 0, again.err
    assert "1 trials are there" in again.out
    (document,) = (json.loads(path.read_text()) for path in again.outputs.glob("runs/*/*/tuning.json"))
    tried = [trial["knobs"] for trial in document["trials"]]
    assert tried[:2] == calls, "the killed trial is tried again"
    assert tried[0] == {"budget_fraction": 0.1, "anchors": "mean"} == document["default"]
    assert len(tried) == 3
    assert all(trial["score"] > 0 for trial in document["trials"])
    assert document["confirmation"]["n_mlps"] == 8
    whole = whest(*TINY, KNOBS, *FEW, "outputs_dir=elsewhere", "tune.confirm_mlps=2")
    assert whole.exit_code == 0, whole.err
    (other,) = (json.loads(path.read_text()) for path in again.outputs.parent.glob("elsewhere/runs/*/*/tuning.json"))
    assert other["trials"] == document["trials"], "as if it had never been stopped"
    (table,) = again.outputs.glob("runs/*/*/trials.csv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["score"]) for row in rows] == [trial["score"] for trial in document["trials"]]
    (page,) = again.outputs.glob("runs/*/*/tuning.html")
    assert "What was tried" in page.read_text()


def tuning(better: float, n: int = 20, default_first: bool = True) -> Tuning:
    rng = np.random.default_rng(0)
    default = np.exp(rng.normal(0, 0.2, n))
    trials = [Tried(0, {"a": 1.0}, 1.0), Tried(1, {"a": 2.0}, 0.5), Tried(2, {"a": 9.0}, None, "it failed")]
    paired = Paired(default * better * np.exp(rng.normal(0, 0.05, n)), default)
    return Tuning("mine", trials if default_first else trials[1:], {"a": 1.0}, True, 8, paired)


def test_nothing_is_recommended_before_the_held_out_mlps_resolve_it() -> None:
    good, same, worse = tuning(0.5), tuning(1.0), tuning(1.5)
    assert good.recommended == {"a": 2.0}
    assert good.words().endswith(": recommended")
    for one in (same, worse):
        assert one.recommended is None
        assert "not recommended, keep the default" in one.words()
    few = tuning(0.5, n=4)
    assert few.confirmed is not None
    assert few.confirmed.is_resolved
    assert few.recommended is None, "four MLPs cannot go below p = 0.125"
    assert "1 of them failed" in "\n".join(good.lines())
    none = Tuning("mine", [Tried(0, {"a": 9.0}, None, "x")], {"a": 1.0}, True, 8, None)
    assert "no trial has a score" in none.words()
    kept = Tuning("mine", [Tried(0, {"a": 1.0}, 1.0)], {"a": 1.0}, True, 8, None)
    assert "keep the default" in kept.words()


def test_ranges_are_read_as_intervals_or_choices() -> None:
    own = {"a": 0.5, "b": "full", "c": 3, "d": None}
    found = read_spaces({"a": [0.1, 1], "b": ["full", "lean"], "c": {"low": 1, "high": 100, "log": True}}, own)
    assert found["a"] == Space(low=0.1, high=1)
    assert found["b"] == Space(choices=("full", "lean"))
    assert found["c"] == Space(low=1, high=100, is_whole=True, log=True)
    assert found["b"].has("full")
    assert not found["a"].has(None)
    assert not found["c"].has(0)
    for wrong in ([1, 1], [2, 1], ["one"], "x", 3, {"low": 0, "high": 1, "log": True}, {"low": 0, "high": 1, "x": 1}):
        with pytest.raises(ConfigError, match=r"tune\.knobs\.a=.* is no range: give"):
            read_spaces({"a": wrong}, own)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "tune.knobs is missing"),
        (("tune.knobs={radius:[0.0,1.0]}",), "no estimator.radius to tune; its knobs are: budget_fraction, anchors"),
        (("tune.knobs={seed:[0,9]}",), "no estimator.seed to tune"),
        (("tune.knobs={budget_fraction:[1.0,0.1]}",), "is no range"),
        ((KNOBS, "dataset.n_mlps=3"), "dataset.n_mlps=3 has no effect on job=tune"),
        ((KNOBS, "dataset=suite"), "dataset=suite has no effect on job=tune"),
        ((KNOBS, "tune.n_trials=0"), "tune.n_trials"),
    ],
)
def test_what_cannot_be_tuned_is_refused(whest: Whest, words: tuple[str, ...], expected: str) -> None:
    refused = whest(*TINY, *words)
    assert refused.exit_code == 2, refused.out
    assert expected in refused.err
    assert not (refused.outputs / "tune").exists()


def test_without_optuna_the_error_names_the_command(whest: Whest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    refused = whest(*TINY, KNOBS)
    assert refused.exit_code == 2
    assert "pip install 'whest[tune]'" in refused.err
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "optuna", type(sys)("optuna"))
        patch.setattr(sys.modules["optuna"], "__version__", "2.10.1", raising=False)
        assert "Installed is 2.10.1" in whest(*TINY, KNOBS).err


@pytest.mark.slow
def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    """SIGKILL as soon as the first trial is told; the same command ends the search."""
    command = [sys.executable, "-m", "whest", *TINY, KNOBS, *FEW, "tune.n_trials=5", f"outputs_dir={tmp_path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as search:
        assert search.stdout is not None
        assert "trial 0" in search.stdout.readline()
        search.kill()
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert "trials are there" in ended.stdout
    assert "trial 0:" not in ended.stdout
    (document,) = (json.loads(path.read_text()) for path in tmp_path.glob("runs/*/*/tuning.json"))
    assert [trial["number"] for trial in document["trials"]] == [0, 1, 2, 3, 4]
    assert all(trial["score"] is not None for trial in document["trials"])
