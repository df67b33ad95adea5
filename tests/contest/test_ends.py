"""FHERMA's, PRISM's and ARI's ways from the inbox to a board that verifies and runs again, at a small size."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whest
from tests.support.byte_learners import Bigram, Uniform
from tests.support.contests import fix_secret, organise, put, sealed, sealed_constant
from tests.support.forgeries import Json, problems, with_report
from tests.support.sealing import parts_of, seal_learner, seal_programs, with_header
from whest.contest.published import open_published
from whest.contest.rerun import run_again
from whest.contest.rules import purpose_of, rules_of
from whest.errors import ConfigError
from whest.learner.contract import LearnerContext

pytestmark = pytest.mark.slow

FHERMA = (
    "contest=fherma",
    "round.width=8",
    "round.depth=2",
    "round.n_samples=500",
    "truth=plain",
    "budget=1e6",
    "contest.n_mlps=3",
    "contest.deadline=2026-09-22T00:00:00Z",
    "contest.received=file",
    "leaderboard.n_winners=1",
)
LATE_S = 200_000


def rows_of(contest: Path) -> list[Json]:
    rows: list[Json] = json.loads((contest / "board.json").read_text())["rows"]
    return rows


def verdicts(contest: Path) -> list[str]:
    """Of every run, made again."""
    published, _ = open_published(contest)
    assert published is not None
    return [again.verdict for again in run_again(published, "all", whest.compose("job=verify"))]


def described(content: bytes, words: str) -> bytes:
    return with_header(content, {**parts_of(content)[0], "words": words})


def test_fherma_from_the_inbox_by_a_review_to_published_descriptions(tmp_path: Path) -> None:
    inbox, spring = tmp_path / "inbox", tmp_path / "spring"
    put(inbox, "ada/one.whest", described(sealed_constant(9.0), "first try"), 1)
    put(inbox, "bob/one.whest", described(sealed_constant(7.0), "a loser's idea"), 2)
    put(inbox, "ada/two.whest", described(sealed("cov_prop"), "second try"), 3)
    put(inbox, "eve/one.whest", described(sealed("mean_prop"), "too late"), LATE_S)
    organise(*FHERMA, f"output={spring}", f"inbox={inbox}", folder=tmp_path)
    assert [(row["rank"], row["participant"], row["status"]) for row in rows_of(spring)] == [
        (1, "ada", "preliminary"),
        (2, "bob", "ranked"),
        (None, "eve", "late"),
    ]
    assert problems(spring) == []

    review = ["host.do=judge", "host.entry=3", "host.verdict=reviewed", "host.solution=it propagates covariances"]
    with pytest.raises(ConfigError, match=r"host\.entry=000004 is no scored entry"):
        organise(f"output={spring}", *review, "host.entry=4", folder=tmp_path)
    organise(f"output={spring}", *review, folder=tmp_path)
    assert rows_of(spring)[0]["status"] == "reviewed"

    organise(f"output={spring}", "host.do=close", folder=tmp_path)
    told = json.loads((spring / "board.json").read_text())["entries"]
    assert [each["description"] for each in told] == ["first try", "a loser's idea", "it propagates covariances", ""]
    page = (spring / "board.html").read_text()
    assert all(word in page for word in ("first try", "a loser", "it propagates covariances"))
    assert "too late" not in page, "the words of a refused entry are not published"
    assert problems(spring) == []
    assert verdicts(spring) == ["same"] * 3


def test_a_small_prism_contest_with_sealed_learners(tmp_path: Path) -> None:
    words = ["contest=prism", "budget=1e10", "task.row_length=16", "data.max_bytes=4096", "data.val_bytes=1024"]
    wanted = purpose_of(rules_of(whest.compose("job=host", *words)))
    assert wanted is not None
    context = LearnerContext(wanted.budget, wanted.row_length or 0, wanted.n_bytes or 0, 1)
    spring = fix_secret(tmp_path / "spring")
    put(tmp_path / "inbox", "hk1/one.whest", seal_learner(Uniform(), context), 1)
    put(tmp_path / "inbox", "hk2/one.whest", seal_learner(Bigram(), context), 2)
    for number, message in enumerate(({}, {"programs": 7}, {"programs": {}, "arrays": {}, "rows_per_step": -1})):
        put(tmp_path / "inbox", f"eve/{number}.whest", seal_programs(message, [], wanted), 3 + number)
    organise(*words, f"output={spring}", f"inbox={tmp_path / 'inbox'}", folder=tmp_path)
    organise("host.do=close", f"output={spring}", folder=tmp_path)
    assert problems(spring) == []
    rows = rows_of(spring)
    assert sorted(row["participant"] for row in rows[:2]) == ["hk1", "hk2"], "which one wins is up to the text"
    assert [row["rank"] for row in rows] == [1, 2, None, None, None]
    assert rows[0]["score"] > rows[1]["score"]
    assert [row["status"] for row in rows[2:]] == ["unfinished"] * 3
    assert sum(row["weight"] for row in rows[:2]) == pytest.approx(1)
    assert all(row["protection"] == "protected" for row in rows[:2])
    assert verdicts(spring) == ["same"] * 5
    for word, change in PRISM_FORGERIES.items():
        found = problems(with_report(spring, tmp_path / word, "000002", change))
        assert any(f"reports/000002-0.json: its {word} is" in line for line in found), (word, found)


def reference(report: Json) -> None:
    report["run_config"]["is_reference"] = True


def failure(report: Json) -> None:
    report["results"]["failure"] = "it read ahead"


def row_length(report: Json) -> None:
    report["run_config"]["row_length"] = 8


def score_se(report: Json) -> None:
    report["results"]["score_se"] = 1.0


PRISM_FORGERIES: dict[str, Callable[[Json], None]] = {
    "is_reference": reference,
    "failure": failure,
    "row_length": row_length,
    "score_se": score_se,
}


def test_a_small_ari_contest_has_three_seeds_and_stays_provisional_on_the_demo(
    whest_process: Any, tmp_path: Path
) -> None:
    rules = ["contest=ari", "budget=3e9", "data.n_questions=4", "data.n_validation=4", "data.n_text_bytes=20000"]
    sealing = ["job=seal", *rules, "task.recipe.calls=1", "task.recipe.row_length=16", "estimator=byte_mlp"]
    made = whest_process(*sealing, f"output={tmp_path / 'inbox' / 'ada' / 'one.whest'}")
    assert made.exit_code == 0, made.err
    spring = tmp_path / "spring"
    held = whest_process("job=host", *rules, f"output={spring}", f"inbox={tmp_path / 'inbox'}")
    assert held.exit_code == 0, held.err
    assert whest_process("job=host", "host.do=close", f"output={spring}").exit_code == 0
    assert problems(spring) == []
    (row,) = rows_of(spring)
    assert (row["participant"], row["status"], row["n_runs"]) == ("ada", "provisional", 3)
    assert "a secret seed" in (spring / "log.jsonl").read_text()
    again = whest_process("job=verify", f"board={spring}", "rerun=all")
    assert (again.exit_code, again.out.count(": same, score")) == (0, 3), again.err
    for word, change in EXAM_FORGERIES.items():
        found = problems(with_report(spring, tmp_path / word, "000001", change))
        assert any(f"reports/000001-0.json: its {word} is" in line for line in found), (word, found)


def official(report: Json) -> None:
    report["run_config"]["dataset"]["is_demo"] = False


def invalid(report: Json) -> None:
    report["results"]["invalid"] = "run it again"


def recipe(report: Json) -> None:
    report["run_config"]["recipe"]["calls"] = 2


EXAM_FORGERIES: dict[str, Callable[[Json], None]] = {
    "is_demo": official,
    "invalid": invalid,
    "score_se": score_se,
    "recipe": recipe,
}
