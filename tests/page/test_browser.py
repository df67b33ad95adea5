"""Pages in a real Chromium: they sort, change theme, fit a phone and load nothing. The pictures are for docs/.

`make screenshots` keeps the pictures.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import ATTACK, IN_BROWSER, Visit, browser, keep, overlaps

__all__ = ["browser"]
pytestmark = IN_BROWSER
LARGEST_RUN = 600_000
"""Bytes of a page with 50 MLPs."""
SCORE = 3
"""The column of scores in the table of MLPs, counted from 1."""
SWEEP = ("estimator=mean_prop,cov_prop,monte_carlo", "budget=1e9,1e10", "dataset.n_mlps=4", "tracking=none")


def test_a_runs_page(browser: Any, whest: Callable[..., Any], tmp_path: Path) -> None:
    run = whest("estimator=cov_prop", "dataset.version=1", "tracking=none")
    assert run.exit_code == 0, run.err
    path, scores = (
        run.folder / "report.html",
        [row["final_layer_mse"] * 0.1 for row in run.report["results"]["per_mlp"]],
    )
    visit = Visit(browser, path)
    assert len(scores) == 50
    assert path.stat().st_size <= LARGEST_RUN
    keep(visit, "page-run.png", tmp_path, 1560)
    mlps = "section:has(> h2#mlps) table"
    header = visit.page.locator(f"{mlps} th").nth(SCORE - 1)
    assert header.get_attribute("aria-sort") == "none"

    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert [float(score) for score in visit.column(SCORE, mlps)] == pytest.approx(sorted(scores))
    header.locator("button").focus()
    visit.page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert [float(score) for score in visit.column(SCORE, mlps)] == pytest.approx(sorted(scores, reverse=True))
    visit.page.keyboard.press("Shift+Tab")
    visit.page.keyboard.press("Space")
    assert visit.column(2, mlps) == sorted(row["mlp_name"] for row in run.report["results"]["per_mlp"])
    assert header.get_attribute("aria-sort") == "none"

    light = visit.ground(), visit.ink()
    visit.page.get_by_role("button", name="Dark theme").click()
    dark = visit.ground(), visit.ink()
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert visit.page.evaluate("localStorage.getItem('whest-theme')") == "dark"
    visit.page.reload()
    assert (visit.ground(), visit.ink()) == dark
    assert Visit(browser, path, scheme="dark").ground() == dark[0]

    assert all(overlaps(labels) == [] for labels in visit.labels())
    assert visit.pale_texts() == []
    assert visit.page.locator(".canvas:not([aria-label])").count() == 0
    assert visit.page.locator("h1").count() == 1
    visit.page.locator("section:has(> h2#config) summary").first.click()
    assert visit.page.get_by_text("lambda_flops_per_second").is_visible()
    for width in (1180, 375, 320):
        visit.page.set_viewport_size({"width": width, "height": 800})
        assert not visit.overflows(), width
    assert visit.complaints == []


def test_a_sweeps_page(browser: Any, whest: Callable[..., Any], tmp_path: Path) -> None:
    sweep = whest("-m", *SWEEP)
    assert sweep.exit_code == 0, sweep.err
    visit = Visit(browser, sweep.sweep / "sweep.html")
    keep(visit, "page-sweep.png", tmp_path, 1100)
    visit.page.get_by_role("button", name="score").first.click()
    scores = [float(score) for score in visit.column(4) if score]
    assert len(scores) == 6
    assert scores == sorted(scores)
    visit.page.locator(".canvas").first.focus()
    visit.page.keyboard.press("ArrowRight")
    box = visit.page.locator(".ring").first.bounding_box()
    visit.page.keyboard.press("Escape")
    visit.page.mouse.move(box["x"] + 6, box["y"] + 6)
    assert "budget" in visit.page.locator(".tip").first.inner_text()
    light = visit.ground()
    visit.page.get_by_role("button", name="Dark theme").click()
    assert visit.ground() != light
    assert visit.pale_texts() == []
    assert all(overlaps(labels) == [] for labels in visit.labels())
    visit.page.set_viewport_size({"width": 375, "height": 800})
    assert not visit.overflows()
    visit.page.get_by_role("link", name="0", exact=True).click()
    visit.page.wait_for_selector("h2#mlps")
    assert visit.complaints == []


def test_a_strangers_words_stay_words(browser: Any, whest: Callable[..., Any], tmp_path: Path) -> None:
    source = f"class Estimator:\n    def predict(self, mlp, budget):\n        raise ValueError({ATTACK!r})\n"
    (tmp_path / "mine.py").write_text(source)
    run = whest("debug=tiny", "estimator=file", "estimator.path=mine.py", 'estimator.name="<img src=x>"')
    assert run.exit_code == 1
    visit = Visit(browser, run.folder / "report.html")
    assert visit.page.title().startswith("<img src=x> on fresh")
    assert visit.page.locator("img").count() == 0
    assert ATTACK in visit.page.inner_text("main")
    assert visit.complaints == []
