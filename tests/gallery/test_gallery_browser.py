"""The gallery in a real Chromium, with a thousand rows: it filters, sorts, turns pages, keeps stars and notes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import ATTACK, IN_BROWSER, Visit, keep, open_browser, overlaps
from tests.support.many_runs import Outputs
from whest.document import GALLERY
from whest.gallery.index import update_index
from whest.gallery.page import save_gallery

pytestmark = IN_BROWSER
NAMES = ("cov_prop", "mean_prop", "monte_carlo", "kerdock")
N_RUNS = 1000
WHEN, WHAT, SCORE = 2, 3, 6
"""Columns, counted from 1; the first has the stars."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    yield from open_browser()


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand runs, three sweeps, a comparison and a board; one report is damaged."""
    made = Outputs(tmp_path_factory.mktemp("gallery") / "outputs")
    for i in range(N_RUNS - 12):
        factor = (1 - 0.8 * i / N_RUNS) * (1 + (i * 7919 % 97) / 20)
        made.add(NAMES[i * 31 % 97 % 4], factor, [6.8e10, 1e10][i % 2], run_config={"tags": {"plan": "ab"[i % 2]}})
    for i in range(3):
        made.add_sweep(*(0.3 - 0.01 * j - 0.05 * i for j in range(4)))
    made.add_comparison("cov_prop is better than mean_prop: 0.31 times its score")
    made.add_board()
    (made.add(ATTACK, run_config={"notes": ATTACK, "tags": {"x": ATTACK}}) / "report.html").unlink()
    (made.add() / "report.json").write_text("{")
    index = update_index(made.folder)
    return save_gallery(index.all(), made.folder, index.name, made.folder / GALLERY)


def rows(visit: Visit, column: int) -> list[str]:
    return visit.column(column, ".records table")


def count(visit: Visit) -> str:
    return visit.page.locator(".records .count").inner_text()


def choice(visit: Visit, name: str) -> Any:
    return visit.page.locator(".records .tools label", has_text=re.compile(f"^{name}")).locator("select")


def test_filter_sort_and_turn_pages(chromium: Any, gallery: Path, tmp_path: Path) -> None:
    visit = Visit(chromium, gallery)
    keep(visit, "page-gallery.png", tmp_path, 2000)
    page, total = visit.page, N_RUNS + 3 + 1 + 1 + 2
    assert count(visit) == f"{total:,} of {total:,} rows"
    first = rows(visit, WHEN)
    assert len(first) == 50
    assert first == sorted(first, reverse=True)
    page.get_by_role("button", name="Next").click()
    assert max(rows(visit, WHEN)) < min(first)
    page.get_by_role("button", name="Previous").click()
    assert rows(visit, WHEN) == first

    head = page.locator(".records th").nth(SCORE - 1)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    scores = [float(score) for score in rows(visit, SCORE)]
    assert scores == sorted(scores)
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    down = [float(score) for score in rows(visit, SCORE)]
    assert down == sorted(down, reverse=True)
    assert down[0] > scores[-1]

    page.get_by_label("Search", exact=True).fill("KERDOCK plan=a")
    found = rows(visit, WHAT)
    assert set(found) == {"kerdock"}
    page.get_by_label("Search", exact=True).fill("")
    page.get_by_label("From", exact=True).fill("2026-06-10")
    page.get_by_label("To", exact=True).fill("2026-06-10")
    assert {when[:10] for when in rows(visit, WHEN)} == {"2026-06-10"}
    assert count(visit).startswith("24 of")
    page.get_by_role("button", name="Clear").click()
    for label, word in (
        ("tags", "plan=a (494)"),
        ("what", "kerdock ("),
        ("round", "custom 16x3 ("),
        ("protocol", " (510)"),
    ):
        options = choice(visit, label).locator("option").all_inner_texts()
        assert any(word in option for option in options), (label, options)
    choice(visit, "tags").select_option(label="plan=a (494)")
    assert count(visit).startswith("494 of")
    choice(visit, "tags").select_option("all")
    choice(visit, "kind").select_option(label="sweep (3)")
    assert count(visit).startswith("3 of")
    links = page.locator(".records tbody a").evaluate_all("all => all.map(link => link.getAttribute('href'))")
    assert len(links) == 3
    assert all((gallery.parent / link).is_file() for link in links)
    assert visit.complaints == []


def test_stars_and_notes_stay(chromium: Any, gallery: Path) -> None:
    visit = Visit(chromium, gallery)
    page = visit.page
    name = rows(visit, WHEN)[3]
    star = page.locator("button.star").nth(3)
    star.focus()
    page.keyboard.press("Space")
    assert star.get_attribute("aria-pressed") == "true"
    note = page.locator(".records tbody tr").nth(3).locator("td").last
    note.locator("button").click()
    page.keyboard.type("<b>try again</b>")
    page.keyboard.press("Enter")
    assert note.inner_text() == "<b>try again</b>"
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    page.keyboard.press("Enter")
    page.keyboard.type("something else")
    page.keyboard.press("Escape")
    page.reload()
    page.get_by_label("starred only", exact=True).check()
    assert rows(visit, WHEN) == [name]
    assert page.locator(".records tbody tr td").last.inner_text() == "<b>try again</b>"
    page.get_by_label("starred only", exact=True).uncheck()
    page.get_by_label("Search", exact=True).fill("try again")
    assert rows(visit, WHEN) == [name]
    page.locator("button.star").click()
    assert visit.complaints == []


def test_the_chart_has_dates_and_names(chromium: Any, gallery: Path) -> None:
    visit = Visit(chromium, gallery)
    visit.page.locator(".canvas").first.focus()
    visit.page.keyboard.press("ArrowRight")
    spoken = visit.page.locator("[aria-live]").first.text_content()
    assert "date (UTC): 2026-0" in spoken
    assert "score: " in spoken
    box = visit.page.locator(".ring").first.bounding_box()
    visit.page.keyboard.press("Escape")
    visit.page.mouse.move(box["x"] + 6, box["y"] + 6)
    assert "date (UTC): 2026-0" in visit.page.locator(".tip").first.inner_text()
    ticks = [label["text"] for label in visit.labels()[0]]
    assert any(tick.endswith(" Jun") or tick == "Jun 2026" for tick in ticks), ticks
    assert visit.page.get_by_role("button", name="log x").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1180, 375, 320])
def test_room_contrast_and_hostile_words(chromium: Any, gallery: Path, width: int, scheme: str) -> None:
    visit = Visit(chromium, gallery, width, scheme)
    assert not visit.overflows()
    assert visit.pale_texts() == []
    assert all(overlaps(labels) == [] for labels in visit.labels())
    visit.page.get_by_label("Search", exact=True).fill("broken into")
    assert count(visit).startswith("1 of")
    assert visit.page.locator(".records tbody td").nth(WHAT - 1).inner_text().startswith("</script>")
    visit.page.get_by_label("Search", exact=True).fill("damaged")
    assert count(visit).startswith("1 of")
    assert visit.page.title() == "Gallery · whest"
    assert visit.page.locator("img").count() == 0
    visit.page.get_by_role("button", name="Dark theme" if scheme == "light" else "Light theme").click()
    assert visit.pale_texts() == []
    assert not visit.overflows()
    assert visit.complaints == []
    assert len(visit.requests) == 1
    assert gallery.stat().st_size < 1_000_000
