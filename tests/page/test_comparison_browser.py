"""A comparison's page in a real Chromium: it points, sorts, links, folds and fits. Its picture is for docs/."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.browser import IN_BROWSER, Visit, browser, keep, overlaps

__all__ = ["browser"]
pytestmark = IN_BROWSER
ONE_LINE = """() => { const value = document.querySelector(".headline .value");
  return value.getBoundingClientRect().height < 2 * parseFloat(getComputedStyle(value).lineHeight); }"""


def test_a_comparisons_page(browser: Any, whest: Callable[..., Any], tmp_path: Path) -> None:
    words = ("job=compare", "compare.runs=[cov_prop,mean_prop]", "dataset.n_mlps=12", "tracking=none")
    made = whest(*words)
    assert made.exit_code == 0, made.err
    path = made.folder / "comparison.html"
    visit = Visit(browser, path)
    keep(visit, "page-comparison.png", tmp_path, 1560)
    assert visit.page.evaluate(ONE_LINE), "the verdict is one line"

    mlps = "section:has(> h2#mlps) table"
    header = visit.page.locator(f"{mlps} th").nth(1)
    header.locator("button").click()
    scores = [float(score) for score in visit.column(2, mlps)]
    assert scores == sorted(scores)
    links = visit.page.locator(f"{mlps} tbody tr").first.locator("a")
    assert links.count() == 2
    assert (path.parent / links.first.get_attribute("href").partition("#")[0]).exists()

    visit.page.locator(".canvas").first.focus()
    visit.page.keyboard.press("ArrowRight")
    assert visit.page.locator(".tip").first.is_visible()
    diff = visit.page.get_by_text("What differs in the source")
    diff.click()
    assert visit.page.locator("details[open] pre").inner_text().startswith("--- cov_prop/cov_prop.py")
    visit.page.get_by_role("button", name="Dark theme").click()
    assert all(overlaps(labels) == [] for labels in visit.labels())
    assert visit.pale_texts() == []
    visit.page.set_viewport_size({"width": 375, "height": 800})
    assert not visit.overflows()
    assert visit.complaints == []
    links.nth(1).click()
    visit.page.wait_for_selector("h2#mlps")
    assert visit.page.title().startswith("mean_prop on ")
