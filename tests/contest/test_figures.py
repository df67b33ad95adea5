"""Figures and fields that an organiser could forge beside an honest score: each follows from something else."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.forgeries import Json, Lines, forged, problems, with_report
from whest.contest.intake import file_date
from whest.contest.keys import Key, read_secret
from whest.contest.published import open_published
from whest.contest.storage import SIGNED
from whest.contest.verify import warnings
from whest.document import protocol_hash


def slow(report: Json, seconds: float = 0.0) -> None:
    """Every MLP is said to have taken too long, with all that follows from it."""
    results = report["results"]
    for row in results["per_mlp"]:
        row |= {"time_exhausted": True, "score_multiplier": 1.0, "adjusted_final_layer_score": row["final_layer_mse"]}
        row |= {"backend_time_s": row["backend_time_s"] + seconds, "wall_time_s": row["wall_time_s"] + seconds}
    n = len(results["per_mlp"])
    results["n_failed_mlps"] = results["failure_breakdown"]["time_exhausted"] = n
    results["score"] = results["adjusted_final_layer_score"] = results["final_layer_mse"]
    results["score_se"] = results["adjusted_final_layer_score_se"] = results["final_layer_mse_se"]


def surer(report: Json) -> None:
    report["results"]["score_se"] /= 10


def failed(report: Json) -> None:
    """One MLP is said to have failed, which costs its multiplier."""
    results = report["results"]
    row = results["per_mlp"][0]
    row |= {"error_code": "PREDICT_ERROR", "error": {"message": "I say so"}, "score_multiplier": 1.0}
    row["adjusted_final_layer_score"] = row["final_layer_mse"]
    results["score"] = sum(each["adjusted_final_layer_score"] for each in results["per_mlp"]) / 3


def trusted(report: Json) -> None:
    report["run_config"]["isolation"]["status"] = "trusted"


def other_round(report: Json) -> None:
    report["run_config"]["round"] = "phase2"


def other_words(report: Json) -> None:
    report["run_config"]["dataset"]["name"] = "the OFFICIAL suite"


def knobs(report: Json) -> None:
    report["run_config"]["estimator"]["knobs"] = {"stolen from": "bob"}


def other_truth(report: Json) -> None:
    report["run_config"]["truth"]["sampler"] = "exact"


def one_failure_less(report: Json) -> None:
    report["results"]["n_failed_mlps"] = 2


REPORTS: dict[str, Callable[[Json], None]] = {
    "time_exhausted of MLP 0 is True, its rows give False": slow,
    "score_se is": surer,
    "error_code of MLP 0 is PREDICT_ERROR": failed,
    "isolation.status is trusted": trusted,
    "round is phase2": other_round,
    "n_failed_mlps is 2": one_failure_less,
    "dataset.name is ('the OFFICIAL suite', None)": other_words,
    "estimator.knobs is": knobs,
    "truth is": other_truth,
}


@pytest.mark.parametrize("words", REPORTS)
def test_a_reports_flags_and_figures_follow_from_its_rows(contest: Path, tmp_path: Path, words: str) -> None:
    found = problems(with_report(contest, tmp_path / "forged", "000001", REPORTS[words]))
    assert any(f"reports/000001-0.json: its {words}" in line for line in found), found


def test_times_themselves_are_the_organisers_word(contest: Path, tmp_path: Path) -> None:
    """docs/contest.md says so: a flag that follows from false times is found by a rerun alone."""
    assert problems(with_report(contest, tmp_path / "forged", "000001", lambda report: slow(report, 3600.0))) == []


def elsewhere(report: Json) -> None:
    """Another protocol, and all that follows from it: the row would be on a board of its own."""
    protocol = report["run_meta"]["protocol"]
    protocol["remark"] = "not compared"
    report["run_meta"]["protocol_hash"] = protocol_hash(protocol)


def test_no_entry_has_a_board_of_its_own(contest: Path, tmp_path: Path) -> None:
    found = problems(with_report(contest, tmp_path / "forged", "000002", elsewhere))
    assert (
        "log.jsonl, line 5: entry 000002 has another protocol than entry 000001, so that they are not compared" in found
    )


def meter(manifest: Json) -> None:
    manifest["rules"]["meter"] = "xla"


def metered_before(manifest: Json) -> None:
    manifest["versions"]["meter"] -= 1


def round_name(manifest: Json) -> None:
    manifest["rules"]["round"]["name"] = "phase2"


def opened_at(manifest: Json) -> None:
    manifest["opened_at"] = "1999-01-01T00:00:00+00:00"


def less_time(manifest: Json) -> None:
    manifest["rules"]["setup_timeout_s"] = 1


def less_memory(manifest: Json) -> None:
    manifest["rules"]["contest"]["memory_limit_mb"] = 10


def more_rules(manifest: Json) -> None:
    manifest["rules"]["prize"] = "a million"


RULES: dict[str, Callable[[Json], None]] = {
    "its protocol.meter is {'name': 'xla-traced', 'version': 3}, the contest says {'name': 'xla-cost": meter,
    "its protocol.meter is": metered_before,
    "its round is warmup, the contest says phase2": round_name,
    "its setup_timeout_s is 60.0, the contest says 1.0": less_time,
    "its memory_limit_mb is 8000.0, the contest says 10.0": less_memory,
    "contest.json: opened_at is a field too many": opened_at,
    "contest.json: rules.prize is no rule of a contest": more_rules,
}


@pytest.mark.parametrize("words", RULES)
def test_rules_are_those_of_the_reports_and_there_are_no_others(contest: Path, tmp_path: Path, words: str) -> None:
    found = problems(forged(contest, tmp_path / "forged", rules=RULES[words]))
    assert any(words in line for line in found), found


def test_a_boards_signature_says_nothing_else(contest: Path, tmp_path: Path) -> None:
    """What it says is not shown on the page, and there are no other words."""
    place = forged(contest, tmp_path / "forged")
    signed = json.loads((place / SIGNED).read_text()) | {"folder": "spring # BOB CHEATED"}
    key = Key(read_secret(contest.with_name("spring.private") / "key"))
    (place / SIGNED).write_bytes(key.signed({name: value for name, value in signed.items() if name != "signature"}))
    assert problems(place) == ["board.signed.json: it is signed, but it is no board of this contest"]


def by_file(manifest: Json) -> None:
    manifest["rules"]["contest"]["received"] = "file"


def test_the_date_of_a_file_is_its_receipt_where_the_rules_say_so(contest: Path, tmp_path: Path) -> None:
    def dated(lines: Lines) -> None:
        for line in lines:
            if line["kind"] == "received":
                date = file_date(line["mtime_ns"])
                assert date is not None
                line["received_at"] = date.isoformat(timespec="milliseconds")

    def one_is_older(lines: Lines) -> None:
        dated(lines)
        lines[1]["mtime_ns"] -= 10**9

    assert problems(forged(contest, tmp_path / "honest", dated, by_file)) == []
    found = problems(forged(contest, tmp_path / "forged", one_is_older, by_file))
    assert any("line 2: it was received at" in line and "has another date" in line for line in found), found


def stolen(lines: Lines) -> None:
    lines[1]["file"] = "bob/one.whest"


def more_fields(lines: Lines) -> None:
    lines[1]["email"] = "ada@example.org"


def more_facts(lines: Lines) -> None:
    lines[3]["runs"][0]["opinion"] = "good"


LINES: dict[str, Callable[[Lines], None]] = {
    "line 2: its file is bob/one.whest, and its participant ada": stolen,
    "line 2: email is a field too many": more_fields,
    "line 4: a run has a field too many": more_facts,
}


@pytest.mark.parametrize("words", LINES)
def test_a_line_has_its_own_fields_and_its_senders_file(contest: Path, tmp_path: Path, words: str) -> None:
    found = problems(forged(contest, tmp_path / "forged", LINES[words]))
    assert any(words in line for line in found), found


def test_that_an_entry_failed_is_told_as_the_organisers_word(contest: Path, tmp_path: Path) -> None:
    def said(lines: Lines) -> None:
        lines[3] |= {"failed": "it can't be run", "runs": []}

    place = forged(contest, tmp_path / "forged", said, files=lambda at: (at / "reports" / "000001-0.json").unlink())
    assert problems(place) == []
    published, _ = open_published(place)
    assert published is not None
    assert warnings(published) == ["that 000001 failed is the organiser's word: rerun=all shows it"]
    honest, _ = open_published(contest)
    assert honest is not None
    assert warnings(honest) == []
