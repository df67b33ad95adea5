"""Pages: any input text stays text and never becomes HTML; nothing is loaded; each run has a page."""

import base64
import hashlib
import html
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whest.page import (
    Axis,
    Bar,
    Bars,
    Cell,
    Chart,
    Choice,
    Code,
    Column,
    Fact,
    Facts,
    Gauge,
    Grid,
    Guide,
    Headline,
    Interval,
    Intervals,
    Page,
    Quantity,
    Section,
    Series,
    Table,
    Text,
    render,
)
from whest.page.failures import shorten
from whest.page.render import clean, table_cells

Whest = Callable[..., Any]
ATTACKS = (
    "<script>alert(1)</script>",
    "</pre></style></script><img src=x onerror=alert(1)>",
    "\"><svg onload='alert(1)'>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "$\\frac{$ \x00\x1b[31m\u202e\ud800",
)


class Outline(HTMLParser):
    """What a browser would build: tags with their attributes' names, every address, every word."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data

    def all(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def page_saying(text: str) -> Page:
    """One block of every kind, with the same text in every place that takes text."""
    series = Series(text, [1, 2], [1, 3], names=[text, "b"], notes=[text, "d"])
    chart = Chart(Axis(text), Axis(text), [series], text, f"x{text}", [Guide(text, y=1)])
    quantity = Quantity(text, np.eye(3), "size")
    grid = Grid(text, text, [quantity, quantity], [text], np.zeros((3, 3), int), (0, 1), text, f"x{text}")
    return Page(
        title=text,
        subtitle=text,
        kind=text,
        blocks=[
            Headline(text, text, text, facts=[Fact(text, text, f"x{text}")]),
            Gauge(text, 0.3, 0.1, text),
            Section(
                text,
                [
                    Table([Column(text, f"x{text}"), "n"], [[text, 1], [Cell(text, text), 2]], f"x{text}"),
                    chart,
                    grid,
                    Choice(text, [(text, [chart]), ("other", [Text(text)])]),
                    Bars([Bar(text, 1, text, parts=[Bar(text, 1, text)])], f"x{text}"),
                    Intervals([Interval(text, 2, 1, 3, text)], f"x{text}", mark=1),
                    Text(text),
                    Code(text, f"x{text}"),
                    Code(text, f"x{text}", is_folded=True),
                    Facts([(text, text), (text, Cell(text, href="a.json"))], f"x{text}"),
                ],
                note=f"x{text}",
            ),
        ],
    )


@pytest.fixture(scope="module")
def harmless() -> Outline:
    return Outline(render(page_saying("word")))


def assert_inert(text: str, harmless: Outline) -> str:
    page = render(page_saying(text))
    outline = Outline(page)
    word = ("span", ("class",))  # text of two words has one more
    found, known = (Counter(tag for tag in o.tags if tag != word) for o in (outline, harmless))
    assert found == known
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    return page


@pytest.mark.parametrize("text", ATTACKS)
def test_an_attack_is_only_text(text: str, harmless: Outline) -> None:
    page = assert_inert(text, harmless)
    page.encode()
    assert "\x00" not in page
    assert "\u202e" not in page


@settings(max_examples=10, deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_no_text_changes_the_pages_structure(harmless: Outline, text: str) -> None:
    assert_inert(text, harmless)


def assert_self_contained(page: str) -> None:
    outline = Outline(page)
    assert not {tag for tag, _ in outline.tags} & {"link", "iframe", "object", "embed", "base", "form"}
    assert all(source.startswith("data:") for source in outline.all("src"))
    files = (".html", ".json", ".yaml", ".npz")
    assert all(href.startswith("#") for href in outline.all("href") if "://" not in href and not href.endswith(files))
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", page)
    assert "http://" not in page
    ids = outline.all("id")
    assert len(ids) == len(set(ids))
    assert {href[1:] for href in outline.all("href") if href.startswith("#")} <= set(ids)


def test_a_page_loads_nothing_and_allows_no_script_but_its_own() -> None:
    page = render(page_saying("word"))
    assert_self_contained(page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    policy = html.unescape(re.findall(r'Security-Policy" content="(.*?)"', page)[0])
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    assert f"script-src {hashes};" in policy
    assert len(scripts) == page.count("<script") - page.count('<script type="application/json">')
    assert "uPlot" in scripts[1]
    assert "uPlot" not in render(Page("t", "s", [Text("no chart")])), "a page without a chart carries no library"
    assert policy.startswith("default-src 'none'")


def test_the_same_page_is_the_same_file() -> None:
    assert render(page_saying("word")) == render(page_saying("word"))


@pytest.mark.parametrize("theme", [0, 1])
def test_text_is_readable_in_both_themes(theme: int) -> None:
    pairs = dict(re.findall(r"--([\w-]+): light-dark\((.*?)\);", render(page_saying("x"))))
    colours = {name: pair.split(", ")[theme] for name, pair in pairs.items()}
    for name in ("ink", "soft", "accent", "alarm", "good", *(f"series-{i}" for i in range(3, 9))):
        for ground in ("paper", "card"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    assert contrast(colours["muted"], colours["card"]) >= 3


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of luminances."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_cells_sort_by_value_and_read_as_text() -> None:
    table = Table(["name", "x", "y"], [["b", 1.5e-6, Cell("2 %", 0.02)], ["a", None, Cell("10 %", 0.1)]], "")
    columns, rows = table_cells(table)
    assert [is_numeric for _, is_numeric in columns] == [False, True, True]
    assert [[cell.text for cell in row] for row in rows] == [["b", "1.50e-06", "2 %"], ["a", "–", "10 %"]]
    assert [[cell.sort for cell in row] for row in rows] == [["b", "1.5e-06", "0.02"], ["a", "", "0.1"]]
    with pytest.raises(ValueError, match="a row of 1 cells under 2 columns"):
        table_cells(Table(["a", "b"], [[1]], ""))


@pytest.mark.parametrize(
    ("href", "kept"),
    [
        ("0/report.html", True),
        ("https://example.org/a:b", True),
        ("#part", True),
        ("javascript:alert(1)", False),
        (" JavaScript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("data:text/html,x", False),
        ("vbscript:x", False),
    ],
)
def test_a_link_leads_to_a_file_or_a_web_page(href: str, kept: bool) -> None:
    _, ((cell,),) = table_cells(Table(["a"], [[Cell("x", href=href)]], ""))
    assert (cell.href == href) is kept
    assert cell.href is None or kept


def test_text_is_cleaned_and_shortened_openly() -> None:
    assert clean("a\x1b[0m\tb\n\u202e\ud800") == "a\ufffd[0m\tb\n\ufffd\ufffd"
    assert shorten("x" * 10, 10) == "x" * 10
    assert "90 characters left out" in shorten("x" * 100, 10)


SOURCE = "class Estimator:\n    def predict(self, mlp, budget):\n        {}\n"
HOSTILE = SOURCE.format(f"raise ValueError({ATTACKS[0] + ATTACKS[1]!r})")


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")  # MLflow's
@pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning")  # MLflow's
def test_a_run_leaves_its_page_on_disk_and_in_mlflow(whest: Whest, outputs: Path) -> None:
    run = whest("debug=tiny", "tracking=mlflow", "estimator=cov_prop", "seed=null")
    assert run.exit_code == 0, run.err
    page, results = (run.folder / "report.html").read_text(), run.report["results"]
    assert_self_contained(page)
    words = Outline(page).words
    for section in ("Error", "Where the FLOPs went", "Prediction against truth", "MLPs", "Reproduce", "Config"):
        assert f">{section}</h2>" in page
    assert "Failures" not in words
    for row in results["per_mlp"]:
        assert row["mlp_name"] in words
        assert f'data-sort="{row["final_layer_mse"]!r}"' in page
    assert f"{results['score']:.2e}" in words
    assert all(f"Layer {layer}, all neurons. RMSE" in words for layer in (1, 2, 3))
    assert run.report["run_meta"]["protocol_hash"] in words
    assert f"seed={run.report['run_config']['dataset']['seed']}" in words
    assert "floor 10 %" in words
    assert page.count('"label":"adjusted final-layer score"') == 1, "an axis says what it shows"
    assert {"report.json", "config.yaml", "predictions.npz"} <= set(Outline(page).all("href"))
    assert "XLA counts" in words
    assert "dot_general" in words
    assert len(page) < 400_000
    assert all(label for label in Outline(page).all("aria-label"))

    (stored,) = outputs.glob("mlartifacts/*/artifacts/report.html")
    assert stored.read_text() == page
    from mlflow import MlflowClient

    from whest.tracking.runs import MlflowTracking
    from whest.tracking.ui import open_store, view_state

    client = MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    _, experiment_id = open_store(MlflowTracking(None, "whest", outputs))
    (found,) = client.search_runs([experiment_id])
    link = f"(#/experiments/{experiment_id}/runs/{found.info.run_id}/artifacts/report.html)"
    assert link in found.data.tags["mlflow.note.content"]
    assert client.get_experiment(experiment_id).tags["mlflow.sharedViewState.whest"] == view_state()
    known = {"metrics": found.data.metrics, "params": found.data.params, "tags": found.data.tags}
    for column in json.loads(view_state())["selectedColumns"]:
        kind, _, name = column.partition(".")
        assert kind == "attributes" or name.strip("`") in known[kind], column

    again = whest("job=page", f"path={run.folder}", f"output={outputs / 'again.html'}")
    assert again.exit_code == 0, again.err
    assert "Prediction against truth" not in (outputs / "again.html").read_text()
    assert f"{results['score']:.2e}" in (outputs / "again.html").read_text()


def test_a_failed_run_has_a_page_that_says_why(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(HOSTILE)
    name = 'estimator.name="<b>$x^{</b>"'
    run = whest("debug=tiny", "estimator=file", "estimator.path=mine.py", name)
    assert run.exit_code == 1
    page = (run.folder / "report.html").read_text()
    assert_self_contained(page)
    outline = Outline(page)
    assert "2 of 2 MLPs failed" in outline.words
    assert "PREDICT_ERROR" in outline.words
    assert page.count(ATTACKS[0]) == page.count(ATTACKS[1]) == 0
    assert ATTACKS[0] in outline.words
    assert ATTACKS[1] in outline.words
    assert "<b>$x^{</b>" in outline.words
    assert sum(tag == ("script", ()) for tag in outline.tags) == page.count("sha256-")
    assert page.index(">Failures</h2>") < page.index(">MLPs</h2>"), "failures come first"
    assert not {"b", "img"} & {tag for tag, _ in outline.tags}


def test_a_run_without_any_mlp_has_a_page(whest: Whest, tmp_path: Path) -> None:
    source = SOURCE.format("pass") + "\n    def setup(self, context):\n        raise KeyboardInterrupt\n"
    (tmp_path / "mine.py").write_text(source)
    run = whest("debug=tiny", "estimator=file", "estimator.path=mine.py", "isolation=none")
    assert run.exit_code == 130
    words = Outline((run.folder / "report.html").read_text()).words
    assert "Interrupted after 0 of 2 MLPs" in words
    assert "No MLP was finished" in words


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["job=page"], "path is missing: name a run's folder or its report.json, job=page path=RUN_DIR"),
        (["job=page", "path=nowhere"], "path=nowhere is no file or folder"),
        (["job=ui", "tracking=none"], "tracking=none stores no runs to show"),
        (["job=ui", "tracking.uri=http://127.0.0.1:1"], "tracking.uri=http://127.0.0.1:1 is a server"),
        (["job=ui", "port=0"], "port must be greater than or equal to 1, got 0"),
    ],
)
def test_what_cannot_be_shown_is_refused(whest: Whest, outputs: Path, arguments: list[str], complaint: str) -> None:
    refused = whest(*arguments)
    assert refused.exit_code != 0
    assert complaint in refused.err
    assert refused.files == []


def test_a_page_is_made_where_the_locale_is_not_utf_8(tmp_path: Path) -> None:
    """With LC_ALL=C Python would read the page's own scripts as ASCII."""
    code = (
        "import locale, sys; from pathlib import Path; from whest.page import Page, Text, save_page\n"
        "save_page(Page('\\u03bb', '\\u00b1', [Text('\\u00d7')]), Path(sys.argv[1]))\n"
        "print(locale.getpreferredencoding(False))"
    )
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [sys.executable, "-c", code, str(tmp_path / "page.html")]
    ended = subprocess.run(words, env=plain, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.lower().strip() not in ("utf-8", "utf8")
    assert "λ" in (tmp_path / "page.html").read_text(encoding="utf-8")
