"""Knobs tell two rows of one participant apart, on the console, in CSV and JSON, and on a page that fits a screen."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.support.browser import Visit, open_browser
from whest.boards.board import Board, Track, told_apart
from whest.boards.entries import _knobs
from whest.boards.policies import Row
from whest.boards.show import print_board, save_board, to_csv, to_json

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def row(rank: int | None, who: str, estimator: str = "ridge", note: str = "", **knobs: str) -> Row:
    status = "official" if rank else "disqualified"
    run_ids = ("0123456789abcdef" * 2,)
    return Row(
        who, status, 3.83e-6, 0.14e-6, rank, note, estimator, 5, NOON, run_ids, protection="protected", settings=knobs
    )


def board() -> Board:
    rows = told_apart(
        [
            row(1, "ada", k="3", depth="8"),
            row(2, "ada", k="5", depth="8", note="2 more seeds make it official; scored on the demo exam"),
            row(3, "bob", k="7"),
            row(None, "eve", note="its score is 999.0 in MLflow, but its rows give 0.000123456789, so it was changed"),
        ]
    )
    others = tuple(Track(f"{n:016x}", "ari", f"exam {n}, 100 questions, budget 1e+15 FLOPs", n, NOON) for n in range(9))
    track = Track("f" * 16, "ari", "exam, 100 questions, budget 1e+15 FLOPs", 20, NOON)
    return Board("ari", "higher", "means over seeds", None, track, "as chosen", rows, others)


def test_only_what_differs_is_told() -> None:
    assert [one.knobs for one in board().rows] == ["k=3", "k=5", "", ""]
    unread = told_apart([row(1, "ada", k="3"), row(2, "ada")])
    assert [one.knobs for one in unread] == ["", ""], "a row that could not be read differs in nothing"
    assert [one.knobs for one in told_apart([row(1, "a", k="3", x="1"), row(2, "a", k="4")])] == ["k=3 x=1", "k=4 x=–"]


def test_a_strangers_source_is_among_the_knobs() -> None:
    mine = {"target": None, "source_sha256": "ab" * 32, "knobs": {"seed": 3, "k": 2}}
    assert _knobs(mine) == {"k": "2", "source": "abababab"}
    assert _knobs({**mine, "target": "estimators.cov_prop.CovProp"}, recipe=1) == {"k": "2", "recipe": "1"}


def test_console_csv_json_and_page_have_the_knobs_and_fold_the_other_tracks(tmp_path: Path) -> None:
    shown = board()
    console = Console(width=200, file=io.StringIO())
    print_board(shown, tmp_path, console)
    assert "knobs" in console.file.getvalue()  # type: ignore[attr-defined]
    assert [one["knobs"] for one in csv.DictReader(io.StringIO(to_csv(shown)))] == ["k=3", "k=5", "", ""]
    assert [one["knobs"] for one in to_json(shown)["rows"]] == ["k=3", "k=5", "", ""]
    page = (save_board(shown, tmp_path) / "board.html").read_text()
    assert '<details class="fold"><summary>9 other tracks</summary>' in page
    assert '<td class="wrap plain" data-sort="k=3">k=3</td>' in page


@pytest.fixture
def chromium() -> Iterator[Any]:
    yield from open_browser()


WIDE = """() => [...document.querySelectorAll(".scroll")].filter((box) => box.checkVisibility())
  .map((box) => [box.scrollWidth, box.clientWidth])"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # greenlet's
def test_a_board_fits_1280_pixels(chromium: Any, tmp_path: Path) -> None:
    visit = Visit(chromium, save_board(board(), tmp_path) / "board.html", width=1280)
    assert all(needed <= given for needed, given in visit.page.evaluate(WIDE)), visit.page.evaluate(WIDE)
    assert not visit.page.get_by_text("exam 3, 100 questions").is_visible()
    visit.page.get_by_text("9 other tracks").click()
    assert visit.page.get_by_text("exam 3, 100 questions").is_visible()
    assert all(needed <= given for needed, given in visit.page.evaluate(WIDE))
    assert visit.pale_texts() == []
    header = visit.page.locator("thead th").nth(1)
    header.locator("button").focus()
    for key, order in (("Enter", "ascending"), ("Space", "descending")):
        visit.page.keyboard.press(key)
        assert header.get_attribute("aria-sort") == order
        names = visit.page.locator("table").first.locator("tbody tr td:nth-child(2)").all_inner_texts()
        assert names == sorted(["ada", "ada", "bob"], reverse=order == "descending")
    visit.page.get_by_role("button", name="Dark theme").click()
    assert visit.pale_texts() == []
    visit.page.set_viewport_size({"width": 375, "height": 800})
    assert not visit.overflows()
    assert visit.complaints == []
