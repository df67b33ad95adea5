"""Charts as data: short numbers, names that stay text, places on a scale; the data of each page's charts."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.page.test_page import ATTACKS, Outline
from whest.page import Axis, Bar, Bars, Chart, Choice, Guide, Interval, Intervals, Page, Section, Series, Text, render
from whest.page.cases import case_chart
from whest.page.charts import chart_json, colours_of, interval_places
from whest.page.render import VENDOR, bar_widths, kinds_of
from whest.page.words import LONGEST_LABEL, label
from whest.tasks.whitebox.answers import MAX_POINTS, answer_blocks, choose, layers_to_show
from whest.tasks.whitebox.figures import Answers
from whest.tasks.whitebox.layers import layer_chart
from whest.tasks.whitebox.neurons import KINDS, classify, input_means


def chart(series: Series) -> Chart:
    return Chart(Axis("x"), Axis("y"), [series], "alt")


def read(series: Series) -> dict[str, object]:
    (found,) = json.loads(chart_json(chart(series)))["series"]
    return found


def test_numbers_are_short_and_missing_ones_are_null() -> None:
    found = read(Series("a", [1, 2.0, 3], [1 / 3, math.nan, 123456.789e-12], low=[0, None, math.inf], high=[1, 2, 3]))
    assert found["x"] == [1, 2, 3]
    assert found["y"] == [0.33333, None, 1.2346e-07]
    assert found["low"] == [0, None, None]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_shortened_number_is_within_half_of_its_fifth_digit(value: float) -> None:
    (short,) = read(Series("a", [0], [value]))["y"]  # type: ignore[misc]
    assert short == pytest.approx(value, rel=0.5e-4, abs=0)


def test_each_name_is_written_once() -> None:
    found = read(Series("a", [1, 2, 3], [1, 2, 3], names=["u", "v", "u"], notes=["n", "n", "n"]))
    assert found["names"] == {"words": ["u", "v"], "of": [0, 1, 0]}
    assert found["notes"] == {"words": ["n"], "of": [0, 0, 0]}


@pytest.mark.parametrize("text", [*ATTACKS, "a\u2028b\u2029c", "x" * 5000])
def test_a_name_cannot_leave_the_data(text: str) -> None:
    data = chart_json(chart(Series(text, [1], [1], names=[text], notes=[text])))
    assert not set(data) & set("<>&\u2028\u2029")
    data.encode()
    found = json.loads(data)["series"][0]
    assert found["name"] == found["names"]["words"][0] == label(text)
    assert len(found["name"]) <= LONGEST_LABEL


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="the columns of the series 'a' differ in length: 2, 2, 1"):
        chart_json(chart(Series("a", [1, 2], [1, 2], names=["one"])))


def test_a_chart_is_found_at_any_depth() -> None:
    one = chart(Series("a", [1], [1]))
    assert kinds_of([Section("s", [Choice("c", [("o", [one])])])]) == {Section, Choice, Chart}
    assert Chart not in kinds_of([Section("s", [Choice("c", [("o", [Text("t")])])])])


def test_bars_are_shares_of_the_largest_or_of_the_given_whole() -> None:
    bars = [Bar("a", 3, "", parts=[Bar("b", 1, "")]), Bar("c", 6, "")]
    assert [width for _, width, _ in bar_widths(Bars(bars))] == [50, 100]
    assert [width for _, width, _ in bar_widths(Bars(bars, full=12))] == [25, 50]
    assert bar_widths(Bars(bars, full=12))[0][2][0][1] == 8.33
    assert [width for _, width, _ in bar_widths(Bars([Bar("a", 0, "")]))] == [0]


def test_intervals_share_one_scale() -> None:
    rows = [Interval("a", 2, 1, 4, ""), Interval("b", 0.5, 0.25, 1, "")]
    placed, mark = interval_places(Intervals(rows, is_log=True, mark=1))
    assert mark == 50, "1 is in the middle of 1/4 and 4 on a log scale"
    assert [places for _, *places in placed] == [[50, 73.5, 97], [3, 26.5, 50]]
    (one, *_), none = interval_places(Intervals([Interval("a", 1, -1, 3, "")], is_log=True))
    assert one[1:] == (3, 50, 97), "a log scale needs positive ends"
    assert none is None


def test_colours_begin_again_after_the_last() -> None:
    assert colours_of("abcab", ("ink", "alarm")) == {"a": "ink", "b": "alarm", "c": "ink"}


def make_results(mses: list[list[float | None]], scores: list[float | None]) -> dict[str, object]:
    rows = [
        {"mlp_index": i, "mlp_name": f"mlp-{i}", "per_layer_mse": mse, "score": score, "error_code": None}
        for i, (mse, score) in enumerate(zip(mses, scores, strict=True))
    ]
    rows[0] |= {"error_code": "PREDICT_ERROR"}
    by_case = {"field": "score", "label": "own score", "unit": "MLP", "direction": "lower"}
    means = np.mean(mses, axis=0).tolist()
    return {"per_mlp": rows, "case_score": by_case, "per_layer_mse": means, "truth_floor_mse": 1e-9}


def test_error_by_layer_names_each_mlp_and_says_what_is_below_the_axis() -> None:
    found = layer_chart(make_results([[1e-15, 2e-6], [1e-15, 4e-6]], [1, 2]), np.array([0.0, 1e-6]))  # type: ignore[arg-type]
    strands, mean, noise = found.series
    assert list(strands.y) == [1e-15, 2e-6, None, 1e-15, 4e-6, None]
    assert list(strands.names) == ["mlp-0"] * 3 + ["mlp-1"] * 3
    assert list(mean.y) == pytest.approx([1e-15, 3e-6])
    assert math.isnan(noise.y[0] or 0)
    assert found.y.is_log
    assert found.y.low == pytest.approx(1e-6 / 30)
    assert "Below the axis: 1.0e-15 at layer 1" in found.caption


def test_case_scores_are_in_order_and_failed_cases_apart() -> None:
    found = case_chart(make_results([[1], [1], [1]], [3.0, 1.0, 2.0]))  # type: ignore[arg-type, list-item]
    answered, failed = found.series
    assert (list(answered.x), list(answered.y), list(answered.names)) == ([1, 2], [1, 2], ["mlp-1", "mlp-2"])
    assert (list(failed.x), list(failed.y), failed.colour) == ([3], [3], "alarm")
    assert found.guides == [Guide("mean", y=2.0)]


def test_neurons_are_classified_by_the_side_of_the_bend() -> None:
    rng = np.random.default_rng(0)
    weights = np.stack([np.eye(3), np.array([[1.0, -1.0, 0.1], [1.0, -1.0, -0.1], [1.0, -1.0, 0.05]])])
    hidden = np.maximum(rng.normal(size=(20_000, 3)) + 0.5, 0)  # any law: the classes need only means
    means = np.stack([hidden.mean(axis=0), np.maximum(hidden @ weights[1], 0).mean(axis=0)])
    inputs = input_means(weights, means)
    np.testing.assert_allclose(inputs[1], (hidden @ weights[1]).mean(axis=0))
    assert [KINDS[kind] for kind in classify(means, inputs)[1]] == ["on", "dead", "borderline"]
    assert [KINDS[kind] for kind in classify(np.zeros(1), np.zeros(1))] == ["dead"]


@pytest.fixture(scope="module")
def many_answers() -> Answers:
    truth = np.abs(np.random.default_rng(1).normal(size=(40, 16, 200)))
    names = tuple(f"mlp-{i}" for i in range(40))
    return Answers(names, truth, truth + np.linspace(0.1, 0.01, 16)[:, None], None, classify(truth, truth - 0.5))


def test_neurons_are_all_drawn_or_a_number_is_given(many_answers: Answers) -> None:
    assert list(choose(5, 10)) == [0, 1, 2, 3, 4]
    chosen = choose(10_000, 100)
    assert len(set(chosen)) == 100
    assert list(chosen) == list(choose(10_000, 100))
    choice, table = answer_blocks(many_answers)
    assert isinstance(choice, Choice)
    charts = [block for _, blocks in choice.options for block in blocks if isinstance(block, Chart)]
    assert sum(len(series.x) for one in charts for series in one.series) <= MAX_POINTS
    assert [name.split(":")[0] for name, _ in choice.options[:3]] == ["16 (last)", "1 (largest error)", "2"]
    page = render(Page("t", "s", [choice, table]))
    assert "Layer 16, 1,400 of 8,000 neurons, drawn at random. RMSE 0.01," in page
    assert len(page) < 350_000


def test_a_layer_stands_once_in_the_chooser() -> None:
    assert layers_to_show(np.array([1.0, 3.0, 2.0])) == [2, 1, 0]
    assert layers_to_show(np.array([1.0, 2.0, 3.0])) == [2, 0, 1]
    assert layers_to_show(np.array([1.0])) == [0]


def test_a_strangers_library_is_the_one_that_was_chosen() -> None:
    script = (VENDOR / "uplot.js").read_text()
    assert script.startswith("/*! https://github.com/leeoniya/uPlot (v1.6.32) */")
    assert "Leon Sorokin" in (VENDOR / "LICENSE").read_text()
    assert "eval(" not in script
    assert "new Function" not in script


def test_a_page_is_made_without_matplotlib(tmp_path: Path) -> None:
    """In a new process: other tests have imported it in this one."""
    tasks = [f"tasks.{name}.page" for name in ("whitebox", "exam", "prequential")]
    lines = [f"import whest.{name}" for name in ("page", *tasks, "sweeps.page", "compare.page", "boards.page")]
    lines += ["import sys", "print([name for name in sys.modules if name.startswith('matplotlib')])"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, cwd=Path.cwd())
    assert done.stdout == "[]\n", done.stderr


def test_a_charts_words_are_in_the_page_without_a_script() -> None:
    outline = Outline(render(Page("t", "s", [chart(Series("a", [1], [1]))])))
    assert outline.all("data-alt") == ["alt"]
    assert "alt" in outline.words
