"""FHERMA's, PRISM's and ARI's ways as contests: their rules compose, and their boards follow from a log."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import whest
from tests.support.contests import RULES, organise, put
from whest.contest.board import board_files, contest_board
from whest.contest.intake import look_into
from whest.contest.log import line_of
from whest.contest.published import open_published
from whest.contest.rerun import run_again
from whest.contest.rules import derived_seed, read_contest, rules_of, run_config
from whest.contest.verify import verify
from whest.errors import ConfigError

CONTESTS = ("whitebox", "fherma", "prism", "ari")


def manifest_of(name: str, *words: str) -> dict[str, Any]:
    rules = rules_of(whest.compose("job=host", f"contest={name}", *words))
    return {"name": name, "rules": rules, "commitment": "00", "public_key": "00" * 32}


def scored(manifest: dict[str, Any], *entries: tuple[str, str, float, dict[str, Any]]) -> list[dict[str, Any]]:
    """The log of entries (participant, description, score, more facts of the run); `n_seeds` runs each."""
    n_seeds = manifest["rules"]["contest"]["n_seeds"]
    rule = manifest["rules"]["scoring"]["_target_"].split(".")[-2]
    lines: list[dict[str, Any]] = [{"kind": "opened"}]
    for number, (participant, description, score, more) in enumerate(entries, start=1):
        entry = f"{number:06d}"
        told = {"entry": entry, "participant": participant, "description": description, "refused": None}
        told |= {"received_at": f"2026-11-18T10:00:{number:02d}+00:00", "estimator": "mine", "file_sha256": entry}
        lines.append({"kind": "received", **told})
        facts = {"rule": rule, "protocol": "p", "score_se": None, "estimator": "mine", "config": entry, "version": 2}
        facts |= {"is_demo": False, "unfinished": None, "invalid": None, "reference": None, "problem": None}
        facts |= {"is_aside": False, "protection": "protected", "knobs": {"source": entry}, "track": "t", **more}
        runs = [{**facts, "score": score + n / 100, "number": n} for n in range(n_seeds)]
        lines.append({"kind": "scored", "entry": entry, "failed": None, "runs": runs})
    return [line_of(n, "0" * 64, line) for n, line in enumerate(lines)]


def rows_of(manifest: dict[str, Any], lines: list[dict[str, Any]]) -> list[tuple[int | None, str, str]]:
    return [(row.rank, row.participant, row.status) for row in contest_board(manifest, lines).rows]


@pytest.mark.parametrize("name", CONTESTS)
def test_the_rules_of_each_contest_are_whole(name: str) -> None:
    manifest = manifest_of(name)
    contest = read_contest(whest.compose("job=host", f"contest={name}"))
    assert contest.sealed_only
    assert manifest["rules"]["dataset"].get("seed") is None
    json.dumps(manifest, allow_nan=False)


def test_a_published_dataset_is_no_contest() -> None:
    with pytest.raises(ConfigError, match="dataset=fresh"):
        rules_of(whest.compose("job=host", "contest=whitebox", "dataset=suite"))
    with pytest.raises(ConfigError, match=r"contest\.n_mlps"):
        rules_of(whest.compose("job=host", "contest=prism", "contest.n_mlps=3"))


def test_fherma_takes_the_best_of_many_and_publishes_every_description(tmp_path: Path) -> None:
    manifest = manifest_of("fherma", "leaderboard.n_winners=1")
    entries = [("ada", "first try", 10.0, {}), ("ada", "second try", 900.0, {}), ("bob", "a loser's idea", 500.0, {})]
    lines = scored(manifest, *entries)
    assert rows_of(manifest, lines) == [(1, "ada", "preliminary"), (2, "bob", "ranked")]
    judged = {"kind": "verdict", "entry": "000002", "verdict": "reviewed", "reason": "r", "solution": None, "at": ""}
    lines.append(line_of(len(lines), "0" * 64, judged))
    assert rows_of(manifest, lines)[0] == (1, "ada", "reviewed")
    files = board_files(manifest, lines)
    assert "a loser's idea" in [each["description"] for each in json.loads(files["board.json"])["entries"]]
    assert b"loser" in files["board.html"]


def test_an_entry_that_is_disqualified_gives_its_place_to_the_next(tmp_path: Path) -> None:
    manifest = manifest_of("fherma")
    lines = scored(manifest, ("ada", "", 10.0, {}), ("ada", "", 900.0, {}), ("bob", "", 500.0, {}))
    judged = {
        "kind": "verdict",
        "entry": "000002",
        "verdict": "disqualified",
        "reason": "r",
        "solution": None,
        "at": "",
    }
    lines.append(line_of(len(lines), "0" * 64, judged))
    assert rows_of(manifest, lines)[0][1] == "bob"
    assert (None, "ada", "disqualified") in rows_of(manifest, lines)


def test_prism_has_one_row_per_hotkey_with_weights() -> None:
    manifest = manifest_of("prism")
    board = contest_board(manifest, scored(manifest, ("hk1", "", 0.1, {}), ("hk1", "", 0.3, {}), ("hk2", "", 0.1, {})))
    assert [(row.participant, row.score, row.n_runs) for row in board.rows] == [("hk1", 0.3, 2), ("hk2", 0.1, 1)]
    assert [row.weight for row in board.rows] == pytest.approx([0.75, 0.25])


def test_ari_needs_three_seeds_and_a_demo_stays_provisional() -> None:
    manifest = manifest_of("ari")
    assert manifest["rules"]["contest"]["n_seeds"] == manifest["rules"]["leaderboard"]["n_seeds"] == 3
    entries = [("ada", "", 50.0, {}), ("ada", "", 20.0, {}), ("bob", "", 70.0, {"is_demo": True})]
    board = contest_board(manifest, scored(manifest, *entries))
    assert [(row.participant, row.status, row.n_runs) for row in board.rows] == [
        ("ada", "official", 3),
        ("ada", "official", 3),
        ("bob", "provisional", 3),
    ]
    assert [row.knobs for row in board.rows[:2]] == ["source=000001", "source=000002"]  # two configs, told apart
    counted = manifest_of("ari", "leaderboard.demo_counts=true")
    assert contest_board(counted, scored(counted, *entries)).rows[0].participant == "bob"


def test_an_exam_of_ones_own_is_in_the_rules_by_its_content(tmp_path: Path) -> None:
    exam = tmp_path / "exam.jsonl"
    exam.write_text("one")
    words = ["job=host", "contest=ari", f"data.exam={exam}"]
    manifest = manifest_of("ari", f"data.exam={exam}")
    assert manifest["rules"]["data"]["exam"] == hashlib.sha256(b"one").hexdigest()
    assert run_config(manifest, whest.compose(*words), bytes(32), 0, {})["data"]["exam"] == str(exam)
    with pytest.raises(ConfigError, match=r"add data=exam data\.exam=FILE"):
        run_config(manifest, whest.compose("job=host"), bytes(32), 0, {})
    exam.write_text("two")
    with pytest.raises(ConfigError, match="is not the contest's file"):
        run_config(manifest, whest.compose(*words), bytes(32), 0, {})
    with pytest.raises(ConfigError, match=r"data\.exam=.* can't be read"):
        manifest_of("ari", "data.exam=/no/such/file")


def test_seeds_follow_from_the_secret_and_differ_by_purpose() -> None:
    seeds = [derived_seed(bytes(32), purpose) for purpose in ("data", "run 0", "run 1")]
    assert len(set(seeds)) == 3
    assert seeds[0] < 2**63
    assert max(seeds[1:]) < 2**31
    assert derived_seed(bytes(32), "data") != derived_seed(bytes([1] * 32), "data")


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["ari byte_attention", "prism byte_contexts", "prism byte_ssm"])
def test_bundled_learners_are_sealed_for_the_shipped_contests(pair: str, whest_process: Any, tmp_path: Path) -> None:
    """They have more than 100 constants each."""
    name, learner = pair.split()
    made = whest_process("job=seal", f"contest={name}", f"estimator={learner}", f"output={tmp_path / 'it.whest'}")
    assert made.exit_code == 0, made.err
    config = whest.compose("job=host", f"contest={name}")
    told = look_into((tmp_path / "it.whest").read_bytes(), read_contest(config), rules_of(config))
    assert told == {"estimator": learner, "description": "", "damage": None}


@pytest.mark.slow
def test_python_runs_in_the_worker_where_the_rules_allow_it(tmp_path: Path) -> None:
    source = (
        "import os, jax.numpy as jnp\n"
        "class Estimator:\n"
        "    def predict(self, mlp, budget):\n"
        "        return jnp.zeros((mlp.depth, mlp.width)) + 0 * mlp.weights[:, 0]\n"
    )
    put(tmp_path / "inbox", "ada/mine.py", source.encode(), 1)
    put(tmp_path / "inbox", "eve/mine.py", f"open({str(tmp_path / 'spring.private' / 'secret')!r}).read()".encode(), 2)
    words = [*RULES, "contest.sealed_only=false", f"output={tmp_path / 'spring'}", f"inbox={tmp_path / 'inbox'}"]
    organise(*words, folder=tmp_path)
    organise("host.do=close", f"output={tmp_path / 'spring'}", folder=tmp_path)
    rows = json.loads((tmp_path / "spring" / "board.json").read_text())["rows"]
    assert [(row["participant"], row["status"]) for row in rows] == [("ada", "ranked"), ("eve", "unfinished")]
    assert rows[0]["protection"] == "protected"
    assert "FileNotFoundError" in rows[1]["note"] or "PermissionError" in rows[1]["note"]
    assert [str(problem) for problem in verify(tmp_path / "spring")[1]] == []
    published, _ = open_published(tmp_path / "spring")
    assert published is not None
    honest, failed = run_again(published, "all", whest.compose("job=verify"))
    assert (honest.verdict, failed.verdict) == ("same", "same")
    assert "it fails here, too" in failed.words
