"""An organiser who has the key changes lines and reports and signs all of it again: verify or a rerun finds it out."""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import whest
from tests.support.forgeries import Json, Lines, forged, problems, with_report
from whest.contest.published import open_published
from whest.contest.rerun import compared, run_again
from whest.contest.storage import HEAD, LOG, SIGNED
from whest.contest.verify import verify, warnings


def set_score(report: Json, multiplier: Callable[[Json], float]) -> None:
    rows = report["results"]["per_mlp"]
    score = sum(row["final_layer_mse"] * multiplier(row) for row in rows) / len(rows)
    report["results"] |= {"score": score, "adjusted_final_layer_score": score}


def lower_floor(report: Json) -> None:
    report["run_config"]["scoring"]["multiplier_floor"] = 1e-9
    set_score(report, lambda row: row["flops_used"] / 1e6)


def larger_budget(report: Json) -> None:
    report["run_config"]["flop_budget"] = 1e7
    set_score(report, lambda row: max(0.1, row["flops_used"] / 1e7))


def residual_time(report: Json) -> None:
    for row in report["results"]["per_mlp"]:
        row["residual_wall_time_s"] = 1.0
    set_score(report, lambda row: (row["flops_used"] + 1e11) / 1e6)


def fewer_rows(report: Json) -> None:
    rows = report["results"]["per_mlp"]
    report["results"]["per_mlp"] = [min(rows, key=lambda row: row["final_layer_mse"])]
    report["run_config"]["n_mlps"] = 1
    set_score(report, lambda row: 0.1)


def other_source(report: Json) -> None:
    report["run_config"]["estimator"]["source_sha256"] = "00" * 32


def other_name(report: Json) -> None:
    report["run_config"]["estimator"]["name"] = "winner"


REPORTS = {
    "estimator.name": other_name,
    "scoring": lower_floor,
    "flop_budget": larger_budget,
    "residual_wall_time_s": residual_time,
    "n_mlps": fewer_rows,
    "estimator.source_sha256": other_source,
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_keeps_to_the_rules_and_not_to_its_own(contest: Path, tmp_path: Path, name: str) -> None:
    place = with_report(contest, tmp_path / "forged", "000002", REPORTS[name])
    assert any(f"reports/000002-0.json: its {name} is" in line for line in problems(place)), problems(place)


def timeouts(report: Json) -> None:
    for row in report["results"]["per_mlp"]:
        row["time_exhausted"] = True
    set_score(report, lambda row: 1.0)


@pytest.mark.parametrize(("change", "word"), [(timeouts, "time_exhausted"), (lower_floor, "figure is off")])
def test_a_rerun_compares_scores_and_flags(contest: Path, change: Callable[[Json], None], word: str) -> None:
    after = json.loads((contest / "reports" / "000001-0.json").read_text())
    before = copy.deepcopy(after)
    change(before)
    again = compared("x", before, after)
    assert again.verdict == "differs"
    assert word in again.words


def line_of_kind(lines: Lines, kind: str) -> Json:
    return next(line for line in lines if line["kind"] == kind)


def never_scored(lines: Lines) -> Lines:
    return [line for line in lines if line["kind"] != "scored" or line["entry"] != "000001"]


def closed_twice(lines: Lines) -> Lines:
    return [*lines, dict(lines[-1])]


def opened_twice(lines: Lines) -> Lines:
    return [lines[0], *lines]


def taken_after_the_closing(lines: Lines) -> Lines:
    more = {**line_of_kind(lines, "received"), "entry": "000003", "file_sha256": "11" * 32, "at": lines[-1]["at"]}
    return [*lines, {**more, "received_at": lines[-1]["at"]}]


def unknown_kind(lines: Lines) -> Lines:
    return [*lines[:2], {"kind": "deal", "at": lines[2]["at"]}, *lines[2:]]


def another_year(lines: Lines) -> None:
    lines[2]["at"] = "1999-01-01T00:00:00+00:00"


def received_later(lines: Lines) -> None:
    lines[1]["received_at"] = "2999-01-01T00:00:00+00:00"


def received_before_the_opening(lines: Lines) -> None:
    lines[1]["received_at"] = "1999-01-01T00:00:00+00:00"


def runs_twice(lines: Lines) -> None:
    line_of_kind(lines, "scored")["runs"] *= 2


def no_runs(lines: Lines) -> None:
    line_of_kind(lines, "scored")["runs"] = []


def failed_with_runs(lines: Lines) -> None:
    line_of_kind(lines, "scored")["failed"] = "I say so"


def no_reason(lines: Lines) -> Lines:
    told = {"entry": "000001", "verdict": "disqualified", "reason": "", "solution": None}
    return [*lines, {"kind": "verdict", "at": lines[-1]["at"], **told}]


STORIES: dict[str, tuple[Callable[[Lines], Lines | None], str]] = {
    "never scored": (never_scored, "entry 000001 was taken, and never scored"),
    "closed twice": (closed_twice, "there may only be verdicts"),
    "opened twice": (opened_twice, "a contest is opened once"),
    "taken after the closing": (taken_after_the_closing, "there may only be verdicts"),
    "unknown kind": (unknown_kind, "deal is no kind of line"),
    "another year": (another_year, "line 3: its time 1999"),
    "received later": (received_later, "after the line was written"),
    "received before the opening": (received_before_the_opening, "before the line before it was written"),
    "runs twice": (runs_twice, "it has the runs [0, 0], the rules say [0]"),
    "no runs": (no_runs, "it has the runs [], the rules say [0]"),
    "failed with runs": (failed_with_runs, "it has the runs [0], the rules say []"),
    "no reason": (no_reason, "it is no verdict with a reason"),
}


@pytest.mark.parametrize("name", STORIES)
def test_a_log_that_tells_another_story_is_found_out(contest: Path, tmp_path: Path, name: str) -> None:
    change, word = STORIES[name]
    found = problems(forged(contest, tmp_path / "forged", change))
    assert any(word in line for line in found), found


def test_what_is_not_forged_verifies(contest: Path, tmp_path: Path) -> None:
    assert problems(forged(contest, tmp_path / "other name")) == []


@pytest.mark.parametrize("name", ["n_bytes", "estimator", "description"])
def test_what_the_log_says_of_an_entry_follows_from_its_file(contest: Path, tmp_path: Path, name: str) -> None:
    def lie(lines: Lines) -> None:
        line_of_kind(lines, "received")[name] = 1 if name == "n_bytes" else "stolen"

    found = problems(forged(contest, tmp_path / "forged", lie))
    assert f"{LOG}, line 2: its {name} does not follow from entries/000001.whest" in found


def test_limits_that_were_ignored_are_found_out(contest: Path, tmp_path: Path) -> None:
    def strict(manifest: Json) -> None:
        manifest["rules"]["contest"]["n_seeds"] = 2
        manifest["rules"]["contest"]["limit_bytes"] = 10

    found = problems(forged(contest, tmp_path / "forged", rules=strict))
    assert any("the rules say refused (it has" in line for line in found)
    assert any("it has the runs [0], the rules say [0, 1]" in line for line in found)


def test_a_page_that_shows_another_winner_is_found_out(
    contest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = forged(contest, tmp_path / "forged", page=lambda content: content.replace(b"ada", b"bob"))
    assert problems(place) == ["board.html: it is signed, but it does not follow from the log"]
    published, _ = open_published(place)
    assert published is not None
    assert warnings(published) == []
    monkeypatch.setattr("whest.contest.verify.__version__", "99")
    (problem,) = problems(place)
    assert "board.html: it does not follow from the log by this version" in problem
    assert "remove the page from your copy" in problem
    (place / "board.html").unlink()
    assert problems(place) == []
    assert warnings(published)[1] == "board.html is not there, and was not checked"


def test_an_entry_that_is_said_to_have_failed_is_run_again(contest: Path, tmp_path: Path) -> None:
    def failed(lines: Lines) -> None:
        line_of_kind(lines, "scored").update(failed="it can't be run", runs=[])

    place = forged(contest, tmp_path / "forged", failed, files=lambda at: (at / "reports" / "000001-0.json").unlink())
    assert problems(place) == []
    published, _ = open_published(place)
    assert published is not None
    (again,) = run_again(published, "1", whest.compose("job=verify"))
    assert again.verdict == "differs"
    assert "here it runs" in again.words


def test_no_other_signed_document_stands_for_the_head(contest: Path, tmp_path: Path) -> None:
    place = shutil.copytree(contest, tmp_path / "spring")
    shutil.copy(place / SIGNED, place / HEAD)
    assert problems(place) == ["head.json: it is signed, but it is no head of this contest's log"]


def test_a_participants_receipt_must_be_in_the_log(contest: Path, tmp_path: Path) -> None:
    own = Path(shutil.copy(contest / "receipts" / "000002.json", tmp_path))
    assert verify(contest, receipt=own)[1] == []
    dropped = forged(contest, tmp_path / "forged", lambda lines: [line for line in lines if line.get("entry") is None])
    found = [str(problem) for problem in verify(dropped, receipt=own)[1]]
    assert any("entry 000002: it promises line 3" in line for line in found)
    own.write_bytes((contest / HEAD).read_bytes())
    assert "it is no receipt" in str(verify(contest, receipt=own)[1][0])
