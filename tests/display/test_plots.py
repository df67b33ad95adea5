"""Plots for papers: what they show, the formats, and the same bytes from the same runs."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from whest.display.plots import DATELESS, INKS, Drawn, save_plot
from whest.errors import ConfigError

SIZE = (3.35, 2.4)


def run(name: str, budget: float, score: float, compute: float = 1e8) -> Drawn:
    """A report with the keys that plots read."""
    layers = [1e-16, score / 2, score]
    results = {
        "score": score,
        "score_se": score / 10,
        "direction": "lower",
        "front": {"measure": "final-layer MSE", "error": score, "error_se": score / 10, "compute": compute},
        "sampling_mse_at_budget": 1e3 / budget,
        "per_layer_mse": layers,
        "per_mlp": [{"per_layer_mse": [mse * factor for mse in layers]} for factor in (0.9, 1.1)],
    }
    return Drawn(name, {"run_config": {"flop_budget": budget}, "results": results})


RUNS = [run("a_b $x$", 1e9, 2e-6, 1e8), run("a_b $x$", 1e10, 1e-6, 1e9), run("other", 1e9, 4e-6, 5e8)]


def texts(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("frontier", ["effective compute (FLOPs)", "final-layer MSE", "Pareto front", "plain sampling", "a_b $x$"]),
        ("budget", ["budget (FLOPs)", "score ± SE (lower is better)", "a_b $x$", "other"]),
        ("layers", ["layer", "a_b $x$, 1e9 FLOPs", "a_b $x$, 1e10 FLOPs", "other"]),
    ],
)
def test_a_plot_has_its_words_as_text(tmp_path: Path, kind: str, words: list[str]) -> None:
    shown = texts(save_plot(kind, RUNS, tmp_path / "plot.svg", *SIZE))
    assert set(words) <= set(shown)
    again = save_plot(kind, RUNS, tmp_path / "again.svg", *SIZE)
    assert again.read_bytes() == (tmp_path / "plot.svg").read_bytes()


@pytest.mark.parametrize(("ending", "start"), [(".pdf", b"%PDF"), (".png", b"\x89PNG")])
def test_the_ending_chooses_the_format_and_no_date_is_in_it(tmp_path: Path, ending: str, start: bytes) -> None:
    first, second = (save_plot("budget", RUNS, tmp_path / f"{name}{ending}", *SIZE).read_bytes() for name in "ab")
    assert first == second
    assert first.startswith(start)
    assert b"CreationDate" not in first
    assert (b"/TrueType" in first or b"/CIDFontType2" in first) == (ending == ".pdf"), "text stays text"


def test_neighbouring_curves_differ_in_grey() -> None:
    grey = [sum(w * int(ink[i : i + 2], 16) for w, i in ((0.2126, 1), (0.7152, 3), (0.0722, 5))) for ink in INKS]
    assert all(abs(one - other) > 40 for one, other in pairwise(grey)), grey


def test_what_can_not_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"output=.*\.gif must end in \.pdf, \.svg, \.png"):
        save_plot("budget", RUNS, tmp_path / "plot.gif", *SIZE)
    bare: dict[str, Any] = {"run_config": {"flop_budget": 1.0}, "results": {"score": None}}
    for kind in ("frontier", "budget", "layers"):
        with pytest.raises(ConfigError, match=f"plot.kind={kind}: none of the runs has"):
            save_plot(kind, [Drawn("n", bare)], tmp_path / "plot.svg", *SIZE)
    assert list(tmp_path.iterdir()) == []
    assert set(DATELESS) == {".pdf", ".svg", ".png"}
