"""MLflow's own pages on whest's runs, at 1440 pixels: table, run, charts and comparison. The pictures are for docs/."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import IN_BROWSER, PATIENCE_MS, browser
from tests.support.places import ROOT
from whest.tracking.ui import CHARTS

__all__ = ["browser"]
pytestmark = IN_BROWSER
NO_ASSISTANT = """for (const [key, value] of [["fab.autoOpenedOnFirstLoad_v1", "true"], ["panelOpen_v1", "false"]])
  localStorage.setItem(`mlflow.assistant.${key}`, value);"""
"""MLflow's chat panel opens by itself at the first visit, over a quarter of the page."""
SMALL = ("dataset.n_mlps=4", "tracking=mlflow")
FROM_THE_LEFT = """cells => cells.sort((a, b) => a.getBoundingClientRect().left - b.getBoundingClientRect().left)
  .map(cell => cell.innerText.trim())"""
HIDE_PLACES = """host => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode;
    text.data = text.data === host ? "host" : text.data.replace(/\\/(tmp|home|root|work|wt)\\/[^ ]*/g, "outputs/…");
  }
}"""
"""The picture tells nothing of the machine that it was made on."""
EXPANDER = ".ag-row button.du-bois-light-btn-icon-only"


@pytest.fixture
def store(whest: Callable[..., Any]) -> None:
    """A sweep, a run with words of its own, and a comparison."""
    for words in (
        ("-m", "estimator=mean_prop,cov_prop,monte_carlo", "budget=1e10,6.8e10"),
        ("estimator=cov_prop", "name=baseline", "notes=the first run of the day", "tags.team=blue"),
        ("job=compare", "compare.runs=[cov_prop,mean_prop]"),
    ):
        made = whest(*words, *SMALL)
        assert made.exit_code == 0, made.err


@pytest.fixture
def ui(store: None, tmp_path: Path, outputs: Path, environment: dict[str, str]) -> Iterator[list[str]]:
    """`job=ui` on the test's own store and a free port; yields the addresses that it printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "whest", "job=ui", f"port={port}", f"outputs_dir={outputs}"]
    with (tmp_path / "ui.log").open("w") as log:
        server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until_it_answers(f"http://127.0.0.1:{port}/health", server)
        yield [line for line in (tmp_path / "ui.log").read_text().splitlines() if line.startswith("http")]
    finally:
        server.terminate()
        assert server.wait(PATIENCE_MS / 1000) == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "MLflow's server outlived the job"


def wait_until_it_answers(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(address, timeout=60):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"nothing answers at {address}")


def picture(page: Any, name: str, tmp_path: Path) -> None:
    """Save a picture in the folder WHEST_SCREENSHOTS, or in a temporary folder."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)  # MLflow draws charts and fades in for a moment
    place = ROOT / os.environ.get("WHEST_SCREENSHOTS", tmp_path) / name
    page.screenshot(path=place)
    assert place.stat().st_size > 20_000, "an empty page would be smaller"


def below(page: Any, text: str, top: float) -> list[tuple[int, int]]:
    """Where a text stands below a height: from the top, from the left. MLflow needs a while to lay out its charts."""
    for _ in range(200):
        boxes = [found.bounding_box() for found in page.get_by_text(text, exact=True).all()]
        found = [(round(box["y"]), round(box["x"])) for box in boxes if box and box["y"] > top]
        if found:
            return found
        page.wait_for_timeout(500)
    pytest.fail(f"no chart of {text}")


def test_mlflows_views(browser: Any, ui: list[str], tmp_path: Path) -> None:
    table, charts = ui
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(NO_ASSISTANT)

    page.goto(table)
    page.wait_for_selector(".ag-row a:has-text('baseline')")
    names = [name for name in page.locator(".ag-header-cell").evaluate_all(FROM_THE_LEFT) if name]
    assert names[:4] == ["Run Name", "Created", "score", "Description"], "the readable score is the first own column"
    page.locator(EXPANDER).last.click()
    page.wait_for_selector(".ag-row a:has-text('monte_carlo budget=1e10')")
    cells = "\n".join(page.locator(".ag-row").all_inner_texts())
    for words in ("cov_prop against mean_prop", " against ", "best at 1e+10", "the first run of the day. ", " ± "):
        assert words in cells, words
    assert "[Open the page]" not in cells, "a description in the table is plain text"
    picture(page, "mlflow-table.png", tmp_path)

    for name in ("cov_prop budget=1e10", "mean_prop budget=1e10", "monte_carlo budget=1e10"):
        row = page.locator(f".ag-row:has(a:has-text('{name}'))").first.get_attribute("row-index")
        page.locator(f".ag-row[row-index='{row}'] input.ag-checkbox-input").first.check(force=True)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector("text=Comparing 3 Runs")
    picture(page, "mlflow-compare.png", tmp_path)

    page.goto(charts)
    page.reload()
    page.get_by_text("Add chart").first.wait_for()
    page.locator(EXPANDER).last.click()
    page.wait_for_selector(".ag-row a:has-text('monte_carlo budget=1e10')")
    top = page.get_by_text("Add chart").first.bounding_box()["y"]
    places = [min(below(page, name, top)) for name in CHARTS]
    assert places == sorted(places), "score, C/B and ratio come first, in order"
    assert len({y for y, _ in places}) == 1
    picture(page, "mlflow-charts.png", tmp_path)

    page.goto(table)
    page.locator(".ag-row a:has-text('baseline')").first.click()
    page.wait_for_selector("text=the first run of the day")
    page.evaluate(HIDE_PLACES, socket.gethostname())
    picture(page, "mlflow-run.png", tmp_path)
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open the page").first.click()
    frame = opened.value.frame_locator("iframe")
    frame.locator("h1", has_text="baseline: cov_prop on suite-warmup").wait_for(timeout=PATIENCE_MS)
    frame.get_by_role("button", name="theme").click(timeout=PATIENCE_MS)
    assert frame.locator("html").get_attribute("data-theme") in ("dark", "light")
