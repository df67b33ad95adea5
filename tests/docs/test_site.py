"""The documentation site, built strictly and read in a real Chromium from a plain folder."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import IN_BROWSER, PATIENCE_MS, browser
from tests.support.places import ROOT

pytestmark = IN_BROWSER
__all__ = ["browser"]

READ_LINKS = """() => [...document.querySelectorAll("a[href]")]
  .filter((link) => link.checkVisibility() && link.protocol === "file:")
  .map((link) => decodeURI(link.href.split(/[?#]/)[0]))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "docs/site/build.py", "--output", folder]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-4000:]
    return folder


def links_of(page: Any, path: Path) -> set[Path]:
    """The files of the site that a page's visible links lead to."""
    page.goto(path.as_uri())
    return {Path(link.removeprefix("file://")) for link in page.evaluate(READ_LINKS)}


def found_by(page: Any, site: Path, words: str) -> list[str]:
    """The pages that the site's own search names, best first. The words are typed, as a reader does."""
    page.goto((site / "index.html").as_uri())
    page.locator("input[name=q]").first.fill(words)
    page.locator("input[name=q]").first.press("Enter")
    page.wait_for_selector("#search-results li a", timeout=PATIENCE_MS)
    page.wait_for_function("document.querySelector('.search-summary')?.textContent.includes('found')")
    links = page.locator("#search-results li > a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    return list(dict.fromkeys(Path(link.partition("?")[0].partition("#")[0]).name for link in links))


def test_every_page_is_two_clicks_from_the_start(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    pages = {path for path in site.rglob("*.html") if path.name != "search.html"}  # the search field leads there
    assert len(pages) > 45
    first = links_of(page, site / "index.html") & pages
    second = {link for path in sorted(first) for link in links_of(page, path)}
    assert {str(path.relative_to(site)) for path in pages - first - second} == set()


def test_no_link_of_a_page_is_dead(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    dead = {
        f"{path.name}: {link}"
        for path in sorted(site.glob("*.html"))
        for link in links_of(page, path)
        if not link.exists()
    }
    assert dead == set()


@pytest.mark.parametrize(
    ("words", "first", "among"),
    [
        ("budget", "glossary.html", {"meter.html", "config_reference.html", "use.html"}),
        ("λ", "glossary.html", {"meter.html", "report_reference.html"}),
        ("resolved", "glossary.html", {"statistics.html"}),
    ],
)
def test_the_search_finds_the_right_pages(site: Path, browser: Any, words: str, first: str, among: set[str]) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    found = found_by(page, site, words)
    assert first in found[:2]
    assert among <= set(found)


def test_the_live_pages_are_those_of_real_runs(site: Path, browser: Any) -> None:
    page = browser.new_page()
    live = links_of(page, site / "live_examples.html")
    names = {path.name for path in live if path.exists()}
    assert {"report.html", "sweep.html", "comparison.html", "board.html", "gallery.html"} <= names
    (board,) = (path for path in live if path.name == "board.html")
    page.goto(board.as_uri())
    assert "cov_prop" in page.locator("body").inner_text()
