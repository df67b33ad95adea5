"""A comparison's page: what differs between the runs, layer by layer, with links to both; words stay words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.page.test_page import Outline
from whest.compare.comparison import CompareOptions, Comparison, compare
from whest.compare.differences import MOST_PAIRS, difference_blocks, layer_blocks, page_link
from whest.compare.entrants import Entrant, kept_sources, named
from whest.compare.page import comparison_page, ratio_words
from whest.document import protocol_hash
from whest.page import Chart, Code, Fold, Table, Text, render

OPTIONS = CompareOptions(None, None, "run", None, 0.95, 200, 0)
PROTOCOL = {"task": {"name": "whitebox", "version": 1}}
ATTACK = "</script><img src=x onerror=alert(1)>"


def run(name: str, scale: float, source: bytes | None = None, **knobs: Any) -> Entrant:
    """A run on four MLPs of three layers, whose errors are known."""
    mses = scale * np.outer([1.0, 1.1, 1.2, 1.3], [1.0, 2.0, 4.0])
    rows = [
        {"mlp_index": i, "mlp_name": f"mlp-{i}", "adjusted_final_layer_score": mse[-1], "per_layer_mse": mse.tolist()}
        for i, mse in enumerate(mses)
    ]
    estimator = {"name": name, "mode": "traced", "knobs": knobs, "source_sha256": str(hash(source))}
    config = {"estimator": estimator, "dataset": {"name": "fresh"}, "flop_budget": 1e9, "width": 8, "depth": 3}
    meta = {"protocol": PROTOCOL, "protocol_hash": protocol_hash(PROTOCOL)}
    report = {"run_config": config, "run_meta": meta, "results": {"per_mlp": rows}}
    return Entrant(name, f"runs/{name}", report, None, sources={"e.py": source} if source else {})


def compared(*runs: Entrant) -> tuple[Comparison, list[Entrant]]:
    entrants = named(runs)
    return compare(entrants, OPTIONS), entrants


def test_the_error_by_layer_and_its_paired_difference() -> None:
    chart, table = layer_blocks([run("a", 1.0), run("b", 2.0)])
    assert isinstance(chart, Chart)
    assert isinstance(table, Table)
    assert {one.name: one.y for one in chart.series} == {
        "a": pytest.approx([1.15, 2.3, 4.6]),
        "b": pytest.approx([2.3, 4.6, 9.2]),
    }
    for layer, row in enumerate(table.rows):
        differences = -np.array([1.0, 1.1, 1.2, 1.3]) * 2.0**layer
        cell = row[3]
        assert cell.sort == pytest.approx(differences.mean())  # type: ignore[union-attr]
        assert cell.tone == "good"  # type: ignore[union-attr]
        assert f"± {differences.std(ddof=1) / 2:.2f}" in cell.text  # type: ignore[union-attr]
    failed = run("c", 1.0)
    failed.report["results"]["per_mlp"][2]["per_layer_mse"] = None
    assert layer_blocks([run("a", 1.0), failed]) == [], "a layer without an error has no difference"


def test_config_and_source_that_differ_are_shown_and_equal_ones_are_said_to_be_equal() -> None:
    config, source = difference_blocks([run("a", 1.0, b"x = 1\ny = 2\n", k=1), run("b", 2.0, b"x = 1\ny = 3\n", k=2)])
    assert isinstance(config, Table)
    rows = {row[0]: row[1:] for row in config.rows}
    assert rows["estimator.knobs.k"] == ("1", "2")
    assert "dataset.name" not in rows
    assert isinstance(source, Code)
    assert source.text.splitlines()[:2] == ["--- a/e.py", "+++ b/e.py"]
    assert "-y = 2" in source.text
    same = difference_blocks(named([run("a", 1.0, b"x = 1"), run("a", 2.0, b"x = 1")]))
    assert [block.text for block in same if isinstance(block, Text)] == [
        "a (1) and a (2) have the same config.",
        "The estimators' source is the same.",
    ]
    unknown = difference_blocks([run("a", 1.0, b"x"), run("b", 2.0)])[-1]
    assert isinstance(unknown, Text)
    assert "No source is kept of b" in unknown.text


def test_many_runs_are_folded_pair_by_pair() -> None:
    blocks = difference_blocks([run(f"r{i}", 1.0, b"x%d" % i) for i in range(MOST_PAIRS + 3)])
    assert [block.title for block in blocks if isinstance(block, Fold)] == [f"r0 and r{i + 1}" for i in range(8)]
    assert isinstance(blocks[-1], Text)
    assert "2 more runs" in blocks[-1].text


def test_the_verdict_and_the_ratio_in_words() -> None:
    found, entrants = compared(run("a", 1.0), run("b", 2.0))
    assert ratio_words(found.pairs[0]).startswith("The mean of a is 0.5 times that of b; with 95 % it is between 0.5")
    page = render(comparison_page(found, "the command", entrants))
    assert found.pairs[0].verdict.split()[-1] in page
    for title in ("By layer", "Config and source", "Runs", "Reproduce"):
        assert f">{title}</h2>" in page


def test_figures_link_to_both_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.html").write_text("page")
    runs = [Entrant(one.name, one.source, one.report, None, tmp_path / one.name) for one in (run("a", 1), run("b", 2))]
    assert page_link(runs[0], tmp_path / "cmp") == "../a/report.html"
    found, entrants = compared(*runs)
    addresses = Outline(render(comparison_page(found, "c", entrants, tmp_path / "cmp"))).all("href")
    assert [address for address in addresses if address.endswith("#mlps") and len(address) > 5] == [
        "../a/report.html#mlps",
        "../b/report.html#mlps",
    ] * 4
    assert {"../a/report.html", "../b/report.html"} <= set(addresses)


@pytest.mark.parametrize("text", [ATTACK, "x" * 5000])
def test_a_strangers_words_stay_words(text: str) -> None:
    found, entrants = compared(run(text, 1.0, text.encode(), k=text), run("b", 2.0, b"x", k=1))
    outline = Outline(render(comparison_page(found, text, entrants)))
    assert "img" not in {tag for tag, _ in outline.tags}
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]


def test_sources_that_lead_elsewhere_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run" / "source").mkdir(parents=True)
    (tmp_path / "run" / "source" / "e.py").symlink_to(tmp_path / "secret")
    assert kept_sources(tmp_path / "run") == {}
    (tmp_path / "run" / "source" / "e.py").unlink()
    (tmp_path / "run" / "source" / "e.py").write_text("x = 1")
    assert kept_sources(tmp_path / "run") == {"e.py": b"x = 1"}
