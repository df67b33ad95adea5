"""Charts in a real Chromium: pointer, keys, legend, zoom, scales, tables; labels with room and contrast."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.test_page import contrast, page_saying
from tests.support.browser import ATTACK, IN_BROWSER, Visit, open_browser, overlaps
from whest.page import Axis, Chart, Choice, Guide, Page, Series, save_page

pytestmark = IN_BROWSER
GROUNDS = {"light": "#ffffff", "dark": "#181e27"}
"""The colour of a card, on which charts stand."""


def curve(low: float, high: float, is_log: bool = False, is_whole: bool = False, n: int = 7) -> Chart:
    """A chart whose both axes go from `low` to `high`."""
    values = [low + (high - low) * i / (n - 1) for i in range(n)]
    if is_log:
        values = [low * (high / low) ** (i / (n - 1)) for i in range(n)]
    series = [Series("a", values, values), Series("b", values, values[::-1], "points", "alarm")]
    axis = f"from {low:g} to {high:g}, with a label that is longer than a small chart"
    return Chart(Axis(axis, is_log, is_whole), Axis(axis, is_log), series, "two curves")


SCALES = [
    curve(0, 1),
    curve(-3e-7, 2.5e-7),
    curve(0.81234561, 0.81234579),
    curve(1, 8, is_whole=True),
    curve(1, 5000, is_whole=True),
    curve(1e-15, 1e-4, is_log=True),
    curve(1.1e9, 9.7e13, is_log=True),
    curve(2.1e-6, 2.9e-6, is_log=True),
    curve(3e-6, 8e-6, is_log=True),
    curve(123456, 999999),
    Chart(Axis("x"), Axis("y", is_log=True), [Series("one point", [5], [0.1])], "one point"),
    Chart(Axis("x"), Axis("y"), [Series("no point", [5], [None])], "none"),
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    yield from open_browser()


def visit(chromium: Any, tmp_path: Path, *blocks: Any, width: int = 1180, scheme: str = "light") -> Visit:
    return Visit(chromium, save_page(Page("t", "s", blocks), tmp_path / "page.html"), width, scheme)


@pytest.fixture
def one(chromium: Any, tmp_path: Path) -> Visit:
    """Two series with errors and names, over a positive range."""
    first = Series(
        "first",
        [1, 2, 4],
        [10, 100, 1000],
        low=[9, 90, 900],
        high=[11, 110, 1100],
        names=["u", "v", "w"],
        notes=["n"] * 3,
    )
    second = Series("second", [1, 2, 4], [20, 50, 30], "points", "series-6")
    chart = Chart(
        Axis("budget"), Axis("score", is_log=True), [first, second], "It rises.", guides=[Guide("mean", y=60)]
    )
    return visit(chromium, tmp_path, chart)


def ticks(seen: Visit) -> list[str]:
    (labels,) = seen.labels()
    return [label["text"] for label in labels]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1180, 640, 320])
def test_labels_have_room_and_contrast(chromium: Any, tmp_path: Path, width: int, scheme: str) -> None:
    seen = visit(chromium, tmp_path, *SCALES, width=width, scheme=scheme)
    drawn = seen.labels()
    assert len(drawn) == len(SCALES)
    sizes = seen.page.locator("figure.chart canvas").evaluate_all("all => all.map(c => [c.width, c.height])")
    for chart, labels, (across, down) in zip(SCALES, drawn, sizes, strict=True):
        assert overlaps(labels) == [], chart.x.label
        for label in labels:
            assert 0 <= label["left"] < label["right"] <= across, (chart.x.label, label)
            assert 0 <= label["top"] < label["bottom"] <= down, (chart.x.label, label)
            assert contrast(label["colour"], GROUNDS[scheme]) >= 4.5
        assert len(labels) >= 2 + 2 * 2 - 2 * (len(chart.series[0].x) == 1), (chart.x.label, labels)
    assert not seen.overflows()
    assert seen.pale_texts() == []
    assert seen.complaints == []


def test_arrow_keys_say_what_is_there(one: Visit) -> None:
    chart = one.page.locator(".canvas")
    assert chart.get_attribute("aria-label") == "It rises. Arrow keys move from point to point."
    chart.focus()
    spoken = one.page.locator("[aria-live]")
    for key, words in (
        ("ArrowRight", "u, n. first. score: 10 ± 1. budget: 1"),
        ("ArrowRight", "v, n. first. score: 100 ± 10. budget: 2"),
        ("End", "w, n. first. score: 1000 ± 100. budget: 4"),
        ("ArrowRight", "w, n. first. score: 1000 ± 100. budget: 4"),
        ("ArrowDown", "second. score: 30. budget: 4"),
        ("Home", "second. score: 20. budget: 1"),
        ("ArrowUp", "u, n. first. score: 10 ± 1. budget: 1"),
    ):
        one.page.keyboard.press(key)
        assert spoken.text_content() == words
    assert one.page.locator(".tip").is_visible()
    one.page.keyboard.press("Tab")
    assert not one.page.locator(".tip").is_visible()
    assert one.complaints == []


def test_the_pointer_names_the_nearest_point(one: Visit) -> None:
    one.page.locator(".canvas").focus()
    one.page.keyboard.press("End")
    box = one.page.locator(".ring").bounding_box()
    one.page.keyboard.press("Escape")
    assert not one.page.locator(".tip").is_visible()
    one.page.mouse.move(box["x"] + 2, box["y"] + 3)
    assert one.page.locator(".tip").inner_text() == "w, n\nfirst\nscore: 1000 ± 100\nbudget: 4"
    tip, over = one.page.locator(".tip").bounding_box(), one.page.locator(".u-over").bounding_box()
    assert tip["x"] >= over["x"]
    assert tip["x"] + tip["width"] <= over["x"] + over["width"] + 1
    one.page.mouse.move(box["x"] - 150, box["y"] + 120)
    assert not one.page.locator(".tip").is_visible()


PIXELS = """([colour]) => {
  const canvas = document.querySelector("figure.chart canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const [r, g, b] = colour;
  let n = 0;
  for (let i = 0; i < data.length; i += 4) n += data[i] === r && data[i + 1] === g && data[i + 2] === b;
  return n;
}"""
SERIES_6 = [0xBE, 0x18, 0x5D]


def test_the_legend_takes_a_series_away_and_brings_it_back(one: Visit) -> None:
    before = one.page.evaluate(PIXELS, [SERIES_6])
    assert before > 20
    button = one.page.get_by_role("button", name="second")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert one.page.evaluate(PIXELS, [SERIES_6]) == 0
    one.page.locator(".canvas").focus()
    one.page.keyboard.press("ArrowDown")
    assert one.page.locator("[aria-live]").text_content() == "u, n. first. score: 10 ± 1. budget: 1"
    button.click()
    assert one.page.evaluate(PIXELS, [SERIES_6]) == before
    for name in ("first", "second", "mean"):
        one.page.get_by_role("button", name=name).click()
    assert one.complaints == [], "a chart without any series is only empty"


def test_log_and_linear(one: Visit) -> None:
    assert {"10", "100", "1000"} <= set(ticks(one))
    button = one.page.get_by_role("button", name="log y")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert {"0", "200", "400"} <= set(ticks(one))
    one.page.get_by_role("button", name="log x").click()
    assert "1" in ticks(one)
    assert one.complaints == []


def test_a_chart_with_a_zero_has_no_log_button(chromium: Any, tmp_path: Path) -> None:
    seen = visit(chromium, tmp_path, curve(0, 1))
    assert seen.page.get_by_role("button", name="log").count() == 0


def test_dragging_zooms_and_two_ways_lead_back(one: Visit) -> None:
    whole, reset = ticks(one), one.page.get_by_role("button", name="Reset zoom")
    assert not reset.is_visible()
    over = one.page.locator(".u-over").bounding_box()
    for leave in (reset.click, lambda: one.page.locator(".u-over").dblclick(position={"x": 5, "y": 5})):
        one.page.mouse.move(over["x"] + 100, over["y"] + 40)
        one.page.mouse.down()
        one.page.mouse.move(over["x"] + 300, over["y"] + 150, steps=4)
        one.page.mouse.up()
        assert ticks(one) != whole
        assert overlaps(one.labels()[0]) == []
        assert reset.is_visible()
        leave()
        assert ticks(one) == whole
        assert not reset.is_visible()
    assert one.complaints == []


def test_the_data_is_a_table(one: Visit, chromium: Any, tmp_path: Path) -> None:
    one.page.get_by_text("Data as a table").click()
    rows = one.page.locator("details.data tbody tr").all_inner_texts()
    assert rows[0].split("\t") == ["first", "u, n", "1", "10 ± 1"]
    assert len(rows) == 6
    assert "mean: 60" in one.page.locator("details.data caption").inner_text()

    dense = Series("many", list(range(2000)), [i % 5 for i in range(2000)], "points")
    seen = visit(chromium, tmp_path, Chart(Axis("x"), Axis("y"), [dense], "a wave"))
    seen.page.get_by_text("Data as a table").click()
    assert [row.split("\t") for row in seen.page.locator("details.data tbody tr").all_inner_texts()] == [
        ["many", "2000", "0", "999.5", "1999", "0", "2", "4"]
    ]


def test_one_of_several_charts_is_chosen(chromium: Any, tmp_path: Path) -> None:
    seen = visit(chromium, tmp_path, Choice("Layer", [("8", [curve(0, 1)]), ("3", [curve(1, 2)])]))
    assert seen.page.locator("canvas").count() == 1
    seen.page.get_by_label("Layer").select_option("3")
    seen.page.wait_for_selector(".option:nth-of-type(2) canvas")
    assert [option.is_visible() for option in seen.page.locator(".option").all()] == [False, True]
    assert seen.complaints == []


def test_theme_and_print_change_the_ink(one: Visit) -> None:
    light = one.ink()
    one.page.get_by_role("button", name="Dark theme").click()
    dark = one.ink()
    assert contrast(dark, GROUNDS["dark"]) >= 4.5 > contrast(dark, GROUNDS["light"])
    one.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert one.ink() == light
    one.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert one.ink() == dark
    one.page.emulate_media(media="print")
    assert not one.page.get_by_role("button", name="log y").is_visible()


def test_a_chart_follows_the_width(one: Visit) -> None:
    for width in (1180, 320, 700):
        one.page.set_viewport_size({"width": width, "height": 800})
        one.until("document.querySelector('.uplot').offsetWidth === document.querySelector('.canvas').clientWidth")
        assert overlaps(one.labels()[0]) == []
        assert not one.overflows()


def test_copying_a_command(one: Visit, chromium: Any, tmp_path: Path) -> None:
    from whest.page import Code

    seen = visit(chromium, tmp_path, Code("python -m whest 'a b'", "The command."))
    seen.page.get_by_role("button", name="Copy").click()
    seen.page.get_by_role("button", name="Copied").wait_for()
    seen.page.evaluate("document.body.append(document.createElement('textarea'))")
    seen.page.locator("textarea").focus()
    seen.page.keyboard.press("Control+V")
    assert seen.page.locator("textarea").input_value() == "python -m whest 'a b'"


@pytest.mark.parametrize("text", [ATTACK, "x" * 5000, "<" * 5000])
def test_a_strangers_words_stay_words_in_every_block(chromium: Any, tmp_path: Path, text: str) -> None:
    seen = Visit(chromium, save_page(page_saying(text), tmp_path / "page.html"), width=375)
    seen.page.locator(".canvas").first.focus()
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.locator(".tip").first.is_visible()
    seen.page.get_by_text("Data as a table").first.click()
    assert seen.page.locator("img").count() == 0
    assert seen.page.title() == f"{text} · whest"
    assert all(overlaps(labels) == [] for labels in seen.labels())
    assert not seen.overflows()
    assert seen.complaints == []
