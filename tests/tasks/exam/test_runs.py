"""Exams from the command line to the board, in real runs: slow, since each trains models in processes of their own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.exam_setup import PAIRS, choices, write_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning"),  # MLflow's
    pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning"),  # MLflow's
]
Whest = Callable[..., Any]


@pytest.fixture
def words(tmp_path: Path, outputs: Path) -> list[str]:
    return [word for word in choices(write_files(tmp_path), outputs) if not word.startswith(("seed=", "outputs_dir="))]


def board(outcome: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((outcome.outputs / "leaderboards" / "ari" / "board.json").read_text())
    return found


def test_three_seeds_make_an_official_row_and_one_byte_makes_another_track(
    whest: Whest, words: list[str], tmp_path: Path
) -> None:
    assert whest("-m", *words, "seed=1,2", "participant=ada").exit_code == 0
    first = board(whest("job=leaderboard", "leaderboard=ari"))
    assert [(row["status"], row["rank"], row["n_runs"]) for row in first["rows"]] == [("provisional", None, 2)]
    assert whest(*words, "seed=3", "participant=ada").exit_code == 0
    second = board(whest("job=leaderboard", "leaderboard=ari"))
    (row,) = second["rows"]
    assert (row["status"], row["rank"], row["n_runs"]) == ("official", 1, 3)
    assert row["score"] == pytest.approx(100 * 10 / 12)
    assert row["score_se"] == pytest.approx(0, abs=1e-9)
    exam = tmp_path / "hidden-from-trainers" / "the-exam.jsonl"
    exam.write_bytes(exam.read_bytes().replace(b"zzzz", b"zzzy"))
    assert whest(*words, "seed=1", "participant=ada").exit_code == 0
    third = board(whest("job=leaderboard", "leaderboard=ari"))
    assert third["track"] == second["track"]
    assert len(third["other_tracks"]) == 1


def test_a_recipe_that_promotes_nothing_scores_zero_and_says_so(whest: Whest, words: list[str]) -> None:
    outcome = whest(*words, "seed=1", "task.recipe.promote=none", "tracking=none")
    assert outcome.exit_code == 0
    assert outcome.report["results"]["score"] == 0
    assert "NOTHING_PROMOTED" in outcome.out
    assert not (outcome.folder / "promoted.npz").exists()


def test_fherma_scores_the_same_exam_and_runs_are_paired_by_question(whest: Whest, words: list[str]) -> None:
    rules = [word for word in words if word != "scoring=ari"]
    assert whest(*rules, "scoring=fherma", "seed=1", "hydra.run.dir=a").exit_code == 0
    assert whest(*rules, "scoring=fherma", "seed=1", "task.recipe.promote=1", "hydra.run.dir=b").exit_code == 0
    compared = whest("job=compare", "compare.runs=[a,b]", "tracking=none")
    assert compared.exit_code == 0, compared.err
    assert "12 questions" in compared.out


def test_by_the_clock_calls_end_in_time_and_late_ones_are_refused(whest: Whest, words: list[str]) -> None:
    clock = ["task.budget_by=wall", "task.budget_s=70", "task.call_limit_s=4", "task.reserve_s=40"]
    outcome = whest(*words, *clock, "task.recipe.calls=20", "seed=1", "tracking=none")
    assert outcome.exit_code == 0
    history = outcome.report["results"]["training"]["history"]
    calls = [event for event in history if event["event"] == "call"]
    assert calls
    assert all(call["seconds_left"] == pytest.approx(70 - call["asked_at_s"]) for call in calls)
    assert history[-1]["event"] == "refusal"
    assert "no call begins in the last 40 s" in history[-1]["reason"]
    assert outcome.report["results"]["promoted"] == len(calls)


@pytest.mark.parametrize(
    ("change", "code", "exit_code"),
    [
        (("rate = ", "raise RuntimeError('too hard') #"), "LEARNER_ERROR", 1),
        (("1e-3 * jax", "known + 1e-3 * jax"), "TRAINED_INIT", 0),
        (("rate = jnp.where(state.optimiser < 40, 0.0, 300.0)", "rate = jnp.nan"), "NON_FINITE", 1),
    ],
)
def test_a_learner_at_fault_scores_zero_with_the_reason(
    whest: Whest, words: list[str], tmp_path: Path, change: tuple[str, str], code: str, exit_code: int
) -> None:
    """Smuggled weights, among them: a table that knows the pairs before its first update."""
    learner = tmp_path / "learner" / "pairs.py"
    follows = [(ord(x), ord(y)) for a, b in PAIRS for x, y in ((a, b), (b, a), (b, "\n"))]
    follows += [(256, ord(a)) for a, _ in PAIRS]
    rows, columns = zip(*follows, strict=True)
    known = f"known = jnp.zeros((257, 256)).at[{rows}, {columns}].set(9.0)"
    source = learner.read_text().replace("    def init(self, key):\n", f"    def init(self, key):\n        {known}\n")
    assert change[0] in source
    learner.write_text(source.replace(*change))
    outcome = whest(*words, "seed=1", "tracking=none")
    assert outcome.exit_code == exit_code, outcome.err
    assert outcome.report["results"]["score"] == 0
    assert {row["error_code"] for row in outcome.report["results"]["per_case"]} == {code}


def test_the_demo_exam_is_learnt_in_part(whest: Whest) -> None:
    outcome = whest("experiment=ari", "tracking=none")
    assert outcome.exit_code == 0, outcome.err
    families = outcome.report["results"]["families"]
    assert outcome.report["results"]["score"] >= 15
    assert families["copy"]["right"] + families["continue"]["right"] > 0
    assert outcome.report["run_config"]["dataset"]["is_demo"]
    assert "prefix" in outcome.report["results"]["per_case"][0]
