"""What people read in MLflow: names that say what varied, scores with their error, plain descriptions, own tags."""

import json
from pathlib import Path
from typing import Any

import pytest

from whest.config.words import written_out
from whest.errors import ConfigError
from whest.sweeps.view import best_words
from whest.tracking.naming import describe_run, note, own_tags, run_name, score_words, sweep_name
from whest.tracking.ui import CHARTS, view_state


def document(command: str = "", budget: float = 6.8e10, **config: Any) -> dict[str, Any]:
    return {
        "run_meta": {"command": f"python -m whest {command}".strip()},
        "run_config": {
            "estimator": {"name": "cov_prop"},
            "round": "warmup",
            "flop_budget": budget,
            "width": 256,
            "depth": 8,
            "dataset": {"name": "suite"},
            **config,
        },
        "results": {
            "score": 3.83e-6,
            "score_se": 0.14e-6,
            "direction": "lower",
            "mean_compute_utilization": 0.0075,
            "ratio_to_sampling": 0.26,
            "per_mlp": [{}] * 3,
        },
    }


@pytest.mark.parametrize(
    ("command", "budget", "name"),
    [
        ("budget=6.8e10", 6.8e10, "cov_prop warmup"),
        ("budget=1e9", 1e9, "cov_prop warmup budget=1e9"),
        ("estimator=cov_prop +estimator.k=3", 6.8e10, "cov_prop warmup k=3"),
        ("estimator=file estimator.path=mine.py", 6.8e10, "cov_prop warmup"),
    ],
)
def test_a_single_run_is_named_by_its_choices(tmp_path: Path, command: str, budget: float, name: str) -> None:
    assert run_name(document(command, budget), tmp_path / "run") == name


def test_a_sweeps_job_is_named_by_what_varied(tmp_path: Path) -> None:
    state = {"words": "", "state": "open", "keys": ["estimator", "budget", "estimator.seed"]}
    (tmp_path / "sweep_state.json").write_text(json.dumps(state))
    command = "estimator=cov_prop dataset.n_mlps=4 budget=10000000000.0 estimator.seed=2"
    assert run_name(document(command, 1e10), tmp_path / "0") == "cov_prop budget=1e10 seed=2"
    assert run_name(document(command, 1e10, name="mine"), tmp_path / "0") == "mine budget=1e10 seed=2"
    assert run_name(document(command, 1e10, name="mine"), tmp_path / "elsewhere" / "0") == "mine"


def test_parents_have_names_and_scores_too() -> None:
    assert sweep_name(["estimator", "estimator.k"], 6, None) == "sweep of estimator, k (6 jobs)"
    assert sweep_name(["budget"], None, "my curve") == "my curve"
    assert best_words([]) == "no score"


def test_a_description_is_plain_text_and_its_link_comes_after_it() -> None:
    words = describe_run(document(notes="a remark\nin two lines."))
    kept = note(words, "1", "abc", "report.html")
    first, _, link = kept.partition("\n\n")
    assert first == (
        "a remark in two lines. 3.83e-06 ± 0.14e-06 (lower is better), C/B 0.0075, 0.26 x the error of sampling. "
        "3 MLPs of 256x8 of suite, budget 6.8e10"
    )
    assert link == "[Open the page](#/experiments/1/runs/abc/artifacts/report.html)"
    assert note(words, "1", "abc", None) == first
    assert score_words({"score": None}) == "no score"


@pytest.mark.parametrize("name", ["score", "participant", "mlflow.runName", "verdict.1", "a b<", ""])
def test_a_tag_that_would_hide_one_of_whests_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"tags.{name}"):
        own_tags({name: "x"})


def test_tags_are_text() -> None:
    assert own_tags({"group": "a", "n": 3, "is_new": True}) == {"group": "a", "n": "3", "is_new": "True"}
    for value in (None, {"b": 1}, "x" * 2000):
        with pytest.raises(ConfigError, match=r"tags\.a=.* must be a text"):
            own_tags({"a": value})


@pytest.mark.parametrize(
    ("word", "full"),
    [
        ("notes=a, b [c]", "notes='a, b [c]'"),
        ("notes=it's", r"notes='it\'s'"),
        ("name='kept as it is'", "name='kept as it is'"),
        ("name=null", "name=null"),
        ("tags.a=b", "++tags.a=b"),
    ],
)
def test_free_text_and_tags_need_no_marks_of_hydra(word: str, full: str) -> None:
    assert written_out([word]) == [full]


def test_the_chart_view_opens_on_score_compute_and_ratio() -> None:
    state = json.loads(view_state())
    keys = [chart["metricKey"] for chart in state["compareRunCharts"] if chart["type"] == "BAR"]
    assert keys == ["score", "mean_compute_utilization", "ratio_to_sampling"] == list(CHARTS)
    assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == {state["compareRunSections"][0]["uuid"]}
    assert state["isAccordionReordered"], "else MLflow sorts the sections by name"
    assert state["selectedColumns"][0] == "tags.`score`"
