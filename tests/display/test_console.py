"""The text and the pictures after a run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from whest.cases.prediction import Failure
from whest.display.console import open_console
from whest.notation import count, figure, plus_minus
from whest.tasks.whitebox.words import against_sampling
from whest.truth.cache import read_entry

Whest = Callable[..., Any]
FIGURES = {"layer_error.png", "mlp_scores.png", "prediction_against_truth.png"}
SOURCE = (
    "import jax.numpy as jnp\nimport numpy as np\n\n\n"
    "class Estimator:\n    def predict(self, mlp, budget):\n        {}\n"
)
TINY = ("debug=tiny", "truth=plain")
IN_FILE = (*TINY, "estimator=file", "estimator.path=mine.py", "isolation=none")


# --- figures of text ---


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (3.69e-6, 2.1e-7, "3.69e-06 ± 0.21e-06"),
        (4.125, 0.5, "4.12 ± 0.50"),
        (9.999e-5, 1e-6, "1.00e-04 ± 0.01e-04"),
        (1.5e-4, 3e-3, "1.50e-04 ± 30.00e-04"),
        (-2e-5, 1e-6, "-2.00e-05 ± 0.10e-05"),
        (2.5e11, 1e10, "2.50e+11 ± 0.10e+11"),
        (0.0, 0.0, "0.00e+00 ± 0.00e+00"),
        (942.806, 0.351, "942.81 ± 0.35"),
        (281.2, 93.7, "281 ± 94"),
        (421.875, None, "421.88"),
        (0.00123, None, "0.00123"),
        (None, None, "–"),
        (None, 0.1, "–"),
    ],
)
def test_a_value_and_its_error_share_a_power_of_ten(value: float | None, error: float | None, text: str) -> None:
    assert plus_minus(value, error) == text


def test_a_figure_has_three_digits_and_none_is_a_dash() -> None:
    assert (figure(0.00012345), figure(6.8e10), figure(0.0), figure(None)) == ("0.000123", "6.8e+10", "0", "–")


def test_one_thing_is_not_many() -> None:
    assert (count(1, "MLP"), count(2, "MLP"), count(0, "MLP")) == ("1 MLP", "2 MLPs", "0 MLPs")


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.0, "level with plain sampling"),
        (1.2, "level with plain sampling"),
        (0.81, "level with plain sampling"),
        (0.5, "better than plain sampling"),
        (2.0, "worse than plain sampling"),
    ],
)
def test_a_sampler_is_level_with_sampling(ratio: float, words: str) -> None:
    assert against_sampling(ratio) == words


def test_a_console_that_is_no_terminal_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    console = open_console()
    assert isinstance(console, Console)
    console.print("[bold red]word[/] 12 'text' " + "x" * 90)
    assert capsys.readouterr().out == "word 12 'text' " + "x" * 90 + "\n"


# --- after a run ---


def shown(out: str, label: str) -> tuple[float, float]:
    """The value and error printed after a label."""
    found = re.search(rf"^{label} +(-?[\d.]+e[+-]\d+) ± ([\d.]+e[+-]\d+)", out, re.MULTILINE)
    assert found is not None, out
    return float(found[1]), float(found[2])


def test_the_text_says_what_the_report_says(whest: Whest) -> None:
    outcome = whest(*TINY, "estimator=mean_prop", "budget=1e4", "show_mlps=true")
    assert outcome.exit_code == 0, outcome.err
    results, out = outcome.report["results"], outcome.out
    assert "\x1b" not in out
    for label, name in (("score", "adjusted_final_layer_score"), ("final-layer MSE", "final_layer_mse")):
        value, error = shown(out, label)
        last_digit = 10 ** (np.floor(np.log10(value)) - 2)
        assert value == pytest.approx(results[name], abs=0.51 * last_digit)
        assert error == pytest.approx(results[f"{name}_se"], abs=0.51 * last_digit)
    assert "mean_prop on fresh: 2 MLPs of 16x3, budget 1e+04 FLOPs, λ 1e+11" in out
    assert "no effect: traced" in out
    assert outcome.report["run_config"]["lambda_has_effect"] is False
    assert f"{results['mean_compute_utilization']:.2%}" in out
    assert f"multiplier {results['mean_score_multiplier']:.3g}" in out
    assert f"{results['ratio_to_sampling']:.3g}x" in out
    assert " ".join(f"{mse:.1e}" for mse in results["per_layer_mse"]) in out
    assert outcome.report["run_meta"]["protocol_hash"] in out
    for row in results["per_mlp"]:
        line = next(line for line in out.splitlines() if line.strip().startswith(row["mlp_name"]))
        assert f"{row['adjusted_final_layer_score']:.3g}" in line.split()
        assert f"{row['final_layer_mse']:.3g}" in line.split()


def test_plain_text_keeps_each_figure_on_its_line(whest: Whest) -> None:
    out = whest(*TINY).out
    assert re.search(r"^compute .* of the budget +multiplier", out, re.MULTILINE), out
    assert re.search(r"^final-layer MSE .* without the truth's own noise \(.*\)", out, re.MULTILINE), out


def test_the_suggested_command_can_be_pasted(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE.format("return jnp.zeros((mlp.depth, mlp.width))"))
    suggested = re.search(r"next +python -m whest (.*)", whest(*IN_FILE).out)
    assert suggested is None or "estimator=" not in suggested[1] or "estimator.path=mine.py" in suggested[1]


# --- pictures ---


def assert_pictures(folder: Path) -> None:
    """All three pictures exist and have more than one colour."""
    from matplotlib.image import imread

    assert {path.name for path in folder.iterdir()} == FIGURES
    for path in folder.iterdir():
        red, green, blue = np.moveaxis(np.round(255 * imread(path)[..., :3]).astype(int), -1, 0)
        assert red.shape >= (300, 500)
        assert len(np.unique(red << 16 | green << 8 | blue)) > 20, path.name


@pytest.mark.parametrize(
    "overrides",
    [
        ["estimator=mean_prop"],
        ["estimator=mean_prop", "dataset.n_mlps=1"],
        ["estimator=zeros", "dataset.width=1", "dataset.depth=1", "dataset.n_mlps=1"],
        ["estimator=zeros", "dataset.n_mlps=40", "truth.n_samples=100"],
        ["estimator=random", "budget=10"],
    ],
    ids=["normal", "one MLP", "one neuron", "many MLPs", "over budget"],
)
def test_a_runs_pictures_are_drawn_without_warnings(whest: Whest, overrides: list[str]) -> None:
    outcome = whest(*TINY, *overrides, "figures=true", "page=false")
    assert outcome.exit_code == 0, outcome.err
    assert_pictures(outcome.folder / "figures")


def test_a_failed_runs_pictures(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE.format("raise ValueError('trouble')"))
    outcome = whest(*IN_FILE, "figures=true")
    assert outcome.exit_code == 1, outcome.err
    assert_pictures(outcome.folder / "figures")


@pytest.mark.parametrize("n_mlps", [1, 2])
def test_a_run_without_any_error_has_pictures_and_a_score_of_zero(whest: Whest, tmp_path: Path, n_mlps: int) -> None:
    """Exact answers: the truth from the cache. With two MLPs one is exact and one is not."""
    first = whest(*TINY, "estimator=zeros", "dataset.n_mlps=1", f"hydra.run.dir={tmp_path / 'first'}")
    (entry,) = first.outputs.glob("cache/truth/*.npz")
    truth = read_entry(entry)
    assert truth is not None
    np.save(tmp_path / "truth.npy", truth.means)
    (tmp_path / "mine.py").write_text(SOURCE.format(f"return jnp.asarray(np.load({str(tmp_path / 'truth.npy')!r}))"))
    outcome = whest(*IN_FILE, f"dataset.n_mlps={n_mlps}", "figures=true", "page=false")
    assert outcome.exit_code == 0, outcome.err
    results = outcome.report["results"]
    assert results["best_mlp_adjusted_final_layer_score"] == 0
    assert (results["score"] == 0) == (n_mlps == 1)
    assert_pictures(outcome.folder / "figures")
    if n_mlps == 1:
        assert re.search(r"^score +0\b", outcome.out, re.MULTILINE)
        assert "±" not in outcome.out


def test_a_strangers_exception_does_not_reach_the_terminal_raw() -> None:
    """An exception's text could clear the screen or rename the window."""
    failure = Failure("PREDICT_ERROR", "ValueError: \x1b[2J\x1b]0;PWNED\x07red", where="\x1b[31mmine.py:3")
    assert failure.lines == ["  PREDICT_ERROR: ValueError: [2J]0;PWNEDred", "  [31mmine.py:3"]
