"""Common parts of all pictures (PNG files): frame and scale, labels, the scores of the cases.

Pictures are drawn from report.json, so that old runs can be drawn too.
"""

import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whest.document import Json, case_score, has_failed
from whest.page.cases import rows_in_order
from whest.page.palette import ACCENT, ALARM, GRID, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Axes"], None]


def save_figures(drawings: Mapping[str, tuple[str, Draw]], subject: str, folder: Path) -> list[Path]:
    """Draw each picture into the folder, with `subject` at the end of its title. No drawings, no folder."""
    on = subject.replace("$", r"\$")
    if drawings:
        folder.mkdir(parents=True, exist_ok=True)
    return [_save(draw, f"{title} — {on}", folder / f"{name}.png") for name, (title, draw) in drawings.items()]


def _save(draw: Draw, title: str, path: Path) -> Path:
    framed(draw, title).savefig(path, dpi=130)
    return path


def framed(draw: Draw, title: str) -> "Figure":
    """A picture with whest's frame and the title."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.3), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    draw(axes)
    axes.set_title(title)
    return figure


def draw_case_scores(axes: "Axes", results: Json) -> None:
    """The score of each case, in order. Failed cases have another colour."""
    from matplotlib.ticker import MaxNLocator

    by_case = case_score(results)
    field, measure = by_case["field"], by_case["label"]
    rows = rows_in_order(results)
    scores = np.array([row[field] for row in rows], dtype=float)
    failed = np.array([has_failed(row) for row in rows])
    places = np.arange(1, len(rows) + 1)
    if np.isfinite(scores).any():
        axes.axhline(float(np.nanmean(scores)), color=INK, linewidth=1, label="mean")
    for is_chosen, colour, label in ((~failed, ACCENT, "answered"), (failed, ALARM, "failed")):
        if is_chosen.any():
            axes.plot(places[is_chosen], scores[is_chosen], "o", markersize=4.5, color=colour, label=label)
    axes.set(xlabel=f"{by_case['unit']}s, in order of score", ylabel=measure)
    set_scale(axes, scores[np.isfinite(scores)])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)


def literal(text: str, longest: int = 48) -> str:
    """Text from a user as a label: without formulas and control characters, and not too long for a picture."""
    words = "".join(char if unicodedata.category(char)[0] != "C" else " " for char in text)
    short = words if len(words) <= longest else words[: longest - 1] + "…"
    return short.replace("\\", "/").replace("$", r"\$")


def set_scale(axes: "Axes", values: np.ndarray) -> str:
    """Use a logarithmic scale if all values are positive. Its plain labels (1e-06) are fast to draw."""
    from matplotlib.ticker import LogFormatter

    known = values[np.isfinite(values)]
    if not known.size or not (known > 0).all():
        return "linear"
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
    return "log"
