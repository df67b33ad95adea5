"""The network explorer: its figures are those of the arrays, and a wrong word is answered with what there is."""

import base64
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from whest.mlp import MLP, SeedProtocol, draw_mlp
from whest.page import Chart, Choice, Grid, Page, Quantity, Section, Table, render
from whest.page.grids import MOST_PLACES, grid_json
from whest.tasks.whitebox.explore import explorer_page
from whest.tasks.whitebox.network import Answer, Network
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE, read_network, read_predictions
from whest.tasks.whitebox.weights import BINS, histogram
from whest.truth.truth import Truth

Whest = Callable[..., Any]
REPORT = {"run_config": {"dataset": {"name": "fresh"}}}


def network(width: int = 12, depth: int = 4, n_answers: int = 2) -> Network:
    """An MLP whose truth is made up, and answers that are off by known amounts."""
    mlp: MLP = draw_mlp(SeedProtocol().streams(7), width, depth, "ada-lovelace")
    rng = np.random.default_rng(0)
    means = np.abs(rng.normal(size=(depth, width))).astype(np.float32)
    truth = Truth(means, np.full((depth, width), 0.001, np.float32), 1.0, 1000)
    answers = []
    for i in range(n_answers):
        off = means.astype(np.float64) + (i + 1) * 0.01
        mses = np.square(off - means).mean(axis=1).tolist()
        row = {"mlp_index": 0, "mlp_name": mlp.name, "per_layer_mse": mses, "final_layer_mse": mses[-1]}
        answers.append(Answer(f"run {i}", row, off))
    return Network(mlp, truth, tuple(answers))


def section(page: Page, title: str) -> Section:
    (found,) = [block for block in page.blocks if isinstance(block, Section) and block.title == title]
    return found


def block_of(part: Section, kind: type) -> Any:
    return next(block for block in part.blocks if isinstance(block, kind))


def test_the_maps_have_every_quantity_of_both_runs() -> None:
    shown = network()
    grid: Grid = block_of(section(explorer_page(shown, REPORT, [], "c"), "Layers"), Grid)
    values = {quantity.name: quantity.values for quantity in grid.quantities}
    assert list(values) == [
        "true mean",
        "run 0's mean",
        "run 0's error",
        "run 1's mean",
        "run 1's error",
        "|error| of run 1 − run 0",
        "standard error of the truth",
    ]
    np.testing.assert_allclose(values["run 0's error"], 0.01, rtol=1e-9)
    np.testing.assert_allclose(values["|error| of run 1 − run 0"], 0.01, rtol=1e-9)
    assert [grid.quantities[i].name for i in grid.shown] == ["run 0's error", "run 1's error"]
    document = json.loads(grid_json(grid))
    stored = np.frombuffer(base64.b64decode(document["quantities"][0]["values"]), "<f4").reshape(4, 12)
    np.testing.assert_array_equal(stored, shown.truth.means)
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(document["group"]), "u1"), shown.kinds.ravel())


def test_each_layer_in_figures() -> None:
    shown = network()
    table: Table = block_of(section(explorer_page(shown, REPORT, [], "c"), "Layers"), Table)
    for layer, row in enumerate(table.rows):
        assert row[0] == layer + 1
        assert [row[1], row[2], row[3]] == [int((shown.kinds[layer] == i).sum()) for i in range(3)]
        assert row[5:] == pytest.approx([0.01, 0.01, 0.02, 0.02, 0.001], rel=1e-5)


def test_how_the_error_grows() -> None:
    page = explorer_page(network(), REPORT, [], "c")
    growth, *by_class = section(page, "How the error grows").blocks
    assert isinstance(growth, Chart)
    assert {one.name: one.y[-1] for one in growth.series} == pytest.approx(
        {"run 0": 0.01, "run 1": 0.02, "noise of the truth": 0.001}, rel=1e-5
    )
    assert len(by_class) == 2
    pairs: Choice = block_of(section(page, "Side by side"), Choice)
    assert [name for name, _ in pairs.options] == ["4", "3", "2", "1"]
    assert "run 0 is nearer to the truth at 12 of 12 neurons" in pairs.options[0][1][0].caption  # type: ignore[union-attr]


def test_one_run_and_none_that_answered() -> None:
    alone = explorer_page(network(n_answers=1), REPORT, [], "c")
    assert "Side by side" not in render(alone)
    shown = network(n_answers=1)
    failed = Network(shown.mlp, shown.truth, (Answer("broken", shown.answers[0].row, None),))
    grid: Grid = block_of(section(explorer_page(failed, REPORT, [], "c"), "Layers"), Grid)
    assert [quantity.name for quantity in grid.quantities] == ["true mean", "standard error of the truth"]
    assert "broken has no valid answer" in render(explorer_page(failed, REPORT, [], "c"))


def test_an_older_run_has_only_its_last_layer() -> None:
    shown = network(n_answers=1)
    means = shown.answers[0].means
    assert means is not None
    means[:-1] = np.nan
    page = explorer_page(shown, REPORT, [], "c")
    assert "kept only the last layer" in render(page)
    growth = section(page, "How the error grows").blocks
    assert len(growth) == 1, "classes need every layer"
    table: Table = block_of(section(page, "Layers"), Table)
    assert [row[5] for row in table.rows] == [None, None, None, pytest.approx(0.01)]


def test_the_histogram_is_a_density() -> None:
    weights = np.random.default_rng(1).normal(0, 0.5, 20_000)
    bars, normal = histogram(weights, 0.5, "all").series
    step = bars.x[1] - bars.x[0]
    assert len(bars.x) == BINS
    assert sum(y for y in bars.y if y is not None) * step == pytest.approx(1)
    assert sum(y for y in normal.y if y is not None) * step == pytest.approx(1, abs=1e-3)
    for counted, expected in zip(bars.y, normal.y, strict=True):
        share = (expected or 0.0) * step
        bound = 6 * math.sqrt(share * (1 - share) / len(weights)) + 0.05 * share + 1e-4  # six sigma, and the tails
        assert abs((counted or 0.0) * step - share) < bound


def test_a_grid_checks_its_shapes() -> None:
    quantity = Quantity("q", np.zeros((2, 3)), "size")
    with pytest.raises(ValueError, match="differ in shape"):
        grid_json(Grid("r", "c", [quantity], ["g"], np.zeros((2, 2), int), (0, 0), "alt"))
    large = np.zeros((2, MOST_PLACES))
    with pytest.raises(ValueError, match="too large"):
        grid_json(Grid("r", "c", [Quantity("q", large, "size")], ["g"], large.astype(int), (0, 0), "alt"))


@pytest.mark.parametrize("arrays", [{}, {"final_layer": np.zeros((1, 3))}, {"final_layer": np.array(["a"])}])
def test_damaged_predictions_are_none(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / PREDICTIONS_FILE, mlp_index=np.arange(2), **arrays)  # type: ignore[arg-type]
    assert read_network(tmp_path / PREDICTIONS_FILE, 0, 2, 4) is None
    assert read_predictions(tmp_path / PREDICTIONS_FILE) is None


def test_explore_a_run(whest: Whest, tmp_path: Path) -> None:
    runs = [tmp_path / "outputs" / "runs" / "day" / name for name in ("mean_prop", "cov_prop")]
    for place in runs:
        assert whest("debug=tiny", f"estimator={place.name}", f"hydra.run.dir={place}").exit_code == 0
    report = json.loads((runs[0] / "report.json").read_text())
    rows = report["results"]["per_mlp"]
    worst, names = max(rows, key=lambda row: row["final_layer_mse"]), [row["mlp_name"] for row in rows]
    kept = read_network(runs[0] / PREDICTIONS_FILE, worst["mlp_index"], 3, 16)
    assert kept is not None
    assert np.isfinite(kept).all(), "all layers are kept"

    told = whest("job=explore", f"path={runs[0]}", f"against={runs[1]}")
    assert told.exit_code == 0, told.err
    page = (runs[0] / f"explore-{worst['mlp_name']}.html").read_text()
    assert f"<h1>{worst['mlp_name']}, 16×3</h1>" in page
    assert 'href="../cov_prop/report.html"' in page
    value = re.findall(r'<p class="value"><span class="word">([^<]*)', page)[0]
    assert float(value) == pytest.approx(math.sqrt(worst["final_layer_mse"]), rel=1e-2)

    chosen = whest("job=explore", f"path={runs[0] / 'report.json'}", "mlp=1", f"output={tmp_path / 'own.html'}")
    assert chosen.exit_code == 0, chosen.err
    assert f"<h1>{names[1]}, 16×3</h1>" in (tmp_path / "own.html").read_text()

    wrong = whest("job=explore", f"path={runs[0]}", "mlp=nobody")
    assert wrong.exit_code == 2
    assert f"mlp=nobody is none of the run's MLPs: choose one of {names[0]}" in wrong.err
    nowhere = whest("job=explore", "path=nowhere")
    assert nowhere.exit_code == 2
    assert "outputs/runs/day/cov_prop" in nowhere.err
    assert "path is missing" in whest("job=explore").err
    assert "is a folder: name a file" in whest("job=explore", f"path={runs[0]}", f"output={tmp_path}").err


def test_explore_refuses_what_does_not_belong_to_the_run(whest: Whest, tmp_path: Path) -> None:
    place = tmp_path / "run"
    assert whest("debug=tiny", "estimator=zeros", f"hydra.run.dir={place}").exit_code == 0
    other = tmp_path / "other"
    assert whest("debug=tiny", "seed=1", "estimator=zeros", f"hydra.run.dir={other}").exit_code == 0
    assert "has other MLPs than path" in whest("job=explore", f"path={place}", f"against={other}").err

    config = OmegaConf.load(place / "config.yaml")
    config.dataset.seed = 5
    OmegaConf.save(config, place / "config.yaml")
    changed = whest("job=explore", f"path={place}")
    assert changed.exit_code == 2
    assert "the report names" in changed.err
    config.dataset._target_ = "whest.files.remove_empty"
    OmegaConf.save(config, place / "config.yaml")
    assert "none of whest's choices" in whest("job=explore", f"path={place}").err
    (other / PREDICTIONS_FILE).rename(tmp_path / "elsewhere.npz")
    (other / PREDICTIONS_FILE).symlink_to(tmp_path / "elsewhere.npz")
    assert "is a link out of it" in whest("job=explore", f"path={other}").err
