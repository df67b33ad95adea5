"""Pages in a real Chromium: a visit notes every message, request and label that is drawn on a canvas."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

CHROMIUM = shutil.which("chromium")
PATIENCE_MS = 120_000
IN_BROWSER = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # MLflow's and greenlet's
]
"""The marks of a file with such tests. Without the browser they fail: a test that skips would hide a hole."""
ATTACK = "</script><script>document.title='broken into'</script><img src=x onerror=\"document.title='broken into'\">"

NOTE_LABELS = """
const drawn = new Map();
const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  drawn.set(this.canvas, []);
  clearRect.apply(this, box);
};
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const size = this.measureText(text);
  const at = this.getTransform();
  const corners = [[-size.actualBoundingBoxLeft, -size.actualBoundingBoxAscent],
    [size.actualBoundingBoxRight, size.actualBoundingBoxDescent]]
    .map(([dx, dy]) => at.transformPoint(new DOMPoint(x + dx, y + dy)));
  const [xs, ys] = [corners.map((c) => c.x), corners.map((c) => c.y)];
  if (!drawn.has(this.canvas)) drawn.set(this.canvas, []);
  drawn.get(this.canvas).push({ text, colour: this.fillStyle, isTick: !at.b,
    left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) });
  fillText.call(this, text, x, y);
};
window.labelsOf = (canvas) => drawn.get(canvas).filter((label) => label.text);
"""
"""Runs before the page's own script: the labels of a canvas with the boxes that they fill."""

READ_CONTRASTS = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
  };
  return [...document.querySelectorAll("body *")]
    .filter((element) => element.checkVisibility() && ![..."SCRIPT OPTION"].includes(element.tagName)
      && [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .map((element) => {
      const pair = [light(parse(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
      return [element.textContent.trim().slice(0, 40), (pair[0] + 0.05) / (pair[1] + 0.05)];
    });
}"""
"""Every visible text with the contrast of its colour and the ground behind it."""


def open_browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("playwright is not installed: make system-deps", pytrace=False)
    if CHROMIUM is None:
        pytest.fail("chromium is not installed: make system-deps", pytrace=False)
    with sync_playwright() as library:
        chromium = library.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


browser = pytest.fixture(open_browser, name="browser")


class Visit:
    """A page opened in the browser, with what it complained of and asked for."""

    def __init__(self, browser: Any, path: Path, width: int = 1180, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.add_init_script(NOTE_LABELS)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        assert self.requests == [path.as_uri()]

    def column(self, number: int, table: str = "table") -> list[str]:
        cells = self.page.locator(f"{table} tbody tr td:nth-child({number})")
        return cells.evaluate_all("cells => cells.map(cell => cell.dataset.sort)")

    def ground(self) -> str:
        return self.page.evaluate("getComputedStyle(document.body).backgroundColor")

    def labels(self, chart: str = "") -> list[list[dict[str, Any]]]:
        """The labels that stand on each drawn canvas now, with their boxes."""
        canvases = f"figure.chart{chart} canvas"
        return self.page.locator(canvases).evaluate_all("all => all.map(canvas => labelsOf(canvas))")

    def ink(self) -> str:
        """The colour of the first label on a canvas."""
        return self.labels()[0][0]["colour"]

    def until(self, expression: str) -> None:
        """Wait until an expression is true. The page's policy forbids Playwright's own way to wait for one."""
        for _ in range(200):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"never true: {expression}")

    def overflows(self) -> bool:
        """Whether the page stays wider than its window: after a change of width the charts are drawn anew."""
        for _ in range(50):
            if not self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                return False
            self.page.wait_for_timeout(100)
        return True

    def pale_texts(self) -> list[tuple[str, float]]:
        """The texts with a contrast below 4.5."""
        return [(text, ratio) for text, ratio in self.page.evaluate(READ_CONTRASTS) if ratio < 4.5]


def overlaps(labels: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The pairs of labels whose boxes share a point."""
    return [
        (one["text"], other["text"])
        for i, one in enumerate(labels)
        for other in labels[:i]
        if one["left"] < other["right"]
        and other["left"] < one["right"]
        and one["top"] < other["bottom"]
        and other["top"] < one["bottom"]
    ]


def keep(visit: Visit, name: str, tmp_path: Path, height: int) -> None:
    """Save a picture in the folder WHEST_SCREENSHOTS, or in a temporary folder."""
    folder = ROOT / os.environ.get("WHEST_SCREENSHOTS", tmp_path)
    visit.page.set_viewport_size({"width": 1180, "height": height})
    visit.page.evaluate("window.scrollTo(0, 0)")
    visit.page.screenshot(path=folder / name)
    assert (folder / name).stat().st_size > 20_000, "an empty page would be smaller"
