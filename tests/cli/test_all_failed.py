"""An estimator that failed on every MLP is told as failed: no score, no verdict on bits, no number of MLPs needed."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whest.cases.prediction import Failure
from whest.compare.comparison import CompareOptions, compare
from whest.compare.entrants import Entrant
from whest.compare.page import comparison_page
from whest.compare.reproduction import judge
from whest.compare.view import pair_rows, side_words
from whest.gallery.choose import protocols_of
from whest.gallery.index import update_index
from whest.page import Headline

Whest = Callable[..., Any]
SMALL = ("debug=tiny", "truth=plain", "page=false", "isolation=none", "estimator=mine.py")
RAISES = "class Estimator:\n    def predict(self, mlp, budget):\n        raise ValueError('my own trouble')\n"


@pytest.fixture
def failed(whest: Whest, tmp_path: Path) -> Any:
    (tmp_path / "mine.py").write_text(RAISES)
    return whest(*SMALL, "console=json")


def test_neither_the_answer_nor_the_list_has_a_score(failed: Any, whest: Whest, outputs: Path) -> None:
    answer = json.loads(failed.out)
    assert (answer["exit_code"], answer["score"], answer["score_se"]) == (1, None, None)
    assert (answer["n_failed"], answer["n_cases"]) == (2, 2)
    assert answer["error"] == "the estimator failed on all 2 MLPs: see the report"
    assert "failed (all 2 MLPs)" in failed.err
    listed = whest("runs", "tracking=none").out
    assert "failed (all 2 MLPs)" in listed
    assert "best of" not in listed
    entries = update_index(outputs).all()
    assert [entry.all_failed for entry in entries] == [True]
    assert protocols_of(entries) == []


def test_it_can_be_neither_repeated_nor_compared(failed: Any) -> None:
    report = failed.report
    found = judge(report, copy.deepcopy(report), (None, None), ({}, {}))
    assert found.verdict == "failed"
    assert found.reason == "all 2 MLPs failed, then and now: there is no answer to compare"
    better = copy.deepcopy(report)
    for place, row in enumerate(better["results"]["per_mlp"]):
        del row["error_code"]
        row["adjusted_final_layer_score"] = 1e-4 * (place + 1)
    assert judge(report, better, (None, None), ({}, {})).verdict == "differs"
    options = CompareOptions(["a", "b"], None, "run", None, 0.95, 100, 0)
    compared = compare([Entrant("bad", "a", report, None), Entrant("good", "b", better, None)], options)
    (pair,) = compared.pairs
    assert pair.verdict == "bad failed (all 2 MLPs): there is nothing to compare"
    assert not pair.is_resolved
    assert pair.to_json()["n_mlps_needed"] is None
    assert set(pair_rows(compared)[0][1:]) == {"–"}
    assert [side_words(side, "MLP")[:6] for side in compared.sides] == ["failed", "1.50e-"]
    headline = comparison_page(compared, "command").blocks[0]
    assert isinstance(headline, Headline)
    assert (headline.value, headline.note, headline.tone) == (pair.verdict, "", "warn")


def test_a_limit_is_told_by_its_key(whest: Whest) -> None:
    outcome = whest("debug=tiny", "truth=plain", "page=false", "estimator=mean_prop", "wall_time_limit_s=1e-9")
    assert outcome.exit_code == 0, outcome.err
    assert re.search(r"^score +failed \(all 2 MLPs\)", outcome.out, re.MULTILINE)
    assert "hint: the limit is wall_time_limit_s: raise it" in outcome.out
    assert "next " not in outcome.out, "there is nothing to compare"


def test_a_time_limit_of_the_setup_is_told_by_its_key() -> None:
    assert "setup_timeout_s" in Failure("SETUP_TIMEOUT", "setup took more than 1 s: killed").hints[0]
    assert Failure("WORKER_DIED", "no more").hints == ()
