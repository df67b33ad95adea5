"""The network explorer in a real Chromium: pointer, keys, choices, theme, phone. Its picture is for docs/."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.page.test_explore import REPORT, network
from tests.support.browser import ATTACK, IN_BROWSER, Visit, keep, open_browser, overlaps
from whest.page import Cell, save_page
from whest.tasks.whitebox.explore import explorer_page
from whest.tasks.whitebox.network import Answer, Network

pytestmark = IN_BROWSER
LARGEST_PAGE = 1_000_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    yield from open_browser()


def visit(chromium: Any, tmp_path: Path, shown: Network, **how: Any) -> Visit:
    page = explorer_page(shown, REPORT, [("a", Cell("page", href="report.html"))], "the command")
    return Visit(chromium, save_page(page, tmp_path / "page.html"), **how)


def maps(seen: Visit) -> list[list[dict[str, Any]]]:
    return seen.page.locator(".field canvas").evaluate_all("all => all.map(canvas => labelsOf(canvas))")


def test_pointer_and_keys_say_what_a_neuron_is(chromium: Any, tmp_path: Path) -> None:
    shown = network()
    seen = visit(chromium, tmp_path, shown)
    fields, tips, cells = (seen.page.locator(name) for name in (".field", ".field .tip", ".field .cell"))
    fields.nth(0).focus()
    seen.page.keyboard.press("ArrowRight")
    spoken = seen.page.locator("figure.grid [aria-live]")
    order = np.lexsort((np.arange(12), shown.truth.means[-1], shown.kinds[-1]))
    kind = ("dead", "borderline", "on")[shown.kinds[-1][order[0]]]
    assert spoken.text_content().startswith(f"layer 4, neuron {order[0] + 1}, {kind}. true mean: ")
    assert "run 0's error: 0.01. " in spoken.text_content()
    assert [cells.nth(i).is_visible() for i in (0, 1)] == [True, True], "the cursor stands in both maps"
    assert [tips.nth(i).is_visible() for i in (0, 1)] == [True, False]
    for key, start in (("End", f"layer 4, neuron {order[-1] + 1}"), ("ArrowUp", "layer 3"), ("ArrowUp", "layer 2")):
        seen.page.keyboard.press(key)
        assert spoken.text_content().startswith(start)
    seen.page.keyboard.press("Escape")
    assert not cells.nth(0).is_visible()

    box = fields.nth(1).bounding_box()
    seen.page.mouse.move(box["x"] + 40, box["y"] + 5)
    assert tips.nth(1).inner_text().startswith("layer 1, neuron ")
    seen.page.mouse.move(box["x"] + 5, box["y"] + 5)
    assert not tips.nth(1).is_visible(), "there is no neuron beside the map"
    assert seen.complaints == []


def test_a_wide_layer_can_be_zoomed_and_moved(chromium: Any, tmp_path: Path) -> None:
    seen = visit(chromium, tmp_path, network(64, 4))
    closer, wider, slider = (
        seen.page.get_by_role(role, name=name)
        for role, name in (("button", "Zoom in"), ("button", "Zoom out"), ("slider", "First neuron shown"))
    )
    field, tip = seen.page.locator(".field").first, seen.page.locator(".field .tip").first
    assert wider.is_disabled()
    assert slider.count() == 0, "all neurons are shown"
    for _ in range(3):
        closer.click()
    assert closer.is_disabled(), "eight neurons, of 64"
    assert slider.input_value() == "28", "the middle"
    box = field.bounding_box()
    assert not seen.overflows()
    field.focus()
    spoken = seen.page.locator("figure.grid [aria-live]")
    said = []
    for key in ("ArrowRight", "End", "Home"):
        seen.page.keyboard.press(key)
        assert tip.is_visible()
        shown = tip.bounding_box()
        assert box["x"] <= shown["x"]
        assert shown["x"] + shown["width"] <= box["x"] + box["width"] + 1
        said.append(spoken.text_content())
    assert len(set(said)) == 3
    assert slider.input_value() == "0", "the map follows the cursor"
    seen.page.keyboard.press("-")
    assert tip.is_visible()
    slider.fill("48")
    seen.page.mouse.move(box["x"] + box["width"] - 3, box["y"] + 5)
    last = tip.inner_text()
    for _ in range(2):
        wider.click()
    assert wider.is_disabled()
    seen.page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 5)
    assert tip.inner_text() == last, "the last neuron of the first layer"
    assert seen.complaints == []


def test_choices_change_the_picture(chromium: Any, tmp_path: Path) -> None:
    seen = visit(chromium, tmp_path, network())
    pixels = "document.querySelector('.field canvas').toDataURL()"
    pictures = [seen.page.evaluate(pixels)]
    seen.page.get_by_label("First map").first.select_option("true mean")
    pictures.append(seen.page.evaluate(pixels))
    for name in ("sorted by class", "one scale per layer"):
        button = seen.page.get_by_role("button", name=name)
        before = button.get_attribute("aria-pressed")
        button.click()
        assert button.get_attribute("aria-pressed") != before
        pictures.append(seen.page.evaluate(pixels))
    seen.page.get_by_role("button", name="Dark theme").click()
    pictures.append(seen.page.evaluate(pixels))
    assert len(set(pictures)) == 5
    assert "largest of its layer" in seen.page.locator(".map .scale").first.inner_text()
    assert seen.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1180, "light"), (1180, "dark"), (375, "light")])
def test_labels_have_room_and_contrast(chromium: Any, tmp_path: Path, width: int, scheme: str) -> None:
    seen = visit(chromium, tmp_path, network(40, 32), width=width, scheme=scheme)
    for labels in (*maps(seen), *seen.labels()):
        assert len(labels) > 5
        assert overlaps(labels) == []
    assert seen.pale_texts() == []
    assert not seen.overflows()
    assert seen.complaints == []


@pytest.mark.parametrize(("width", "depth"), [(256, 8), (256, 32), (1024, 16)])
def test_real_sizes_fit_a_page(chromium: Any, tmp_path: Path, width: int, depth: int) -> None:
    seen = visit(chromium, tmp_path, network(width, depth))
    assert (tmp_path / "page.html").stat().st_size < LARGEST_PAGE + 500_000 * (width > 256)
    across, down = seen.page.locator(".field canvas").first.evaluate("c => [c.width, c.height]")
    assert across > 400
    assert down >= 10 * depth
    assert not seen.overflows()
    assert seen.complaints == []


@pytest.mark.parametrize("text", [ATTACK, "x" * 5000, "<" * 5000])
def test_a_strangers_words_stay_words(chromium: Any, tmp_path: Path, text: str) -> None:
    shown = network()
    answers = tuple(Answer(text, answer.row, answer.means) for answer in shown.answers)
    seen = visit(chromium, tmp_path, Network(shown.mlp, shown.truth, answers), width=375)
    seen.page.locator(".field").first.focus()
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.locator(".field .tip").first.is_visible()
    assert seen.page.locator("img").count() == 0
    assert seen.page.title() == "ada-lovelace, 12×4 · whest"
    assert not seen.overflows()
    assert seen.complaints == []


def test_a_real_network(chromium: Any, whest: Callable[..., Any], tmp_path: Path) -> None:
    runs = [tmp_path / "outputs" / "runs" / "day" / name for name in ("cov_prop", "mean_prop")]
    for place in runs:
        made = whest("dataset.n_mlps=3", "tracking=none", f"estimator={place.name}", f"hydra.run.dir={place}")
        assert made.exit_code == 0, made.err
    told = whest("job=explore", f"path={runs[0]}", f"against={runs[1]}", f"output={tmp_path / 'explore.html'}")
    assert told.exit_code == 0, told.err
    seen = Visit(chromium, tmp_path / "explore.html")
    seen.page.locator(".field").nth(0).hover(position={"x": 300, "y": 90})
    assert "layer 4, neuron" in seen.page.locator(".field .tip").first.inner_text()
    seen.page.mouse.move(0, 0)
    keep(seen, "page-explore.png", tmp_path, 1700)
    assert seen.complaints == []
