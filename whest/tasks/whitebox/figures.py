"""Pictures of a white-box run: error by layer, prediction against truth.

`Answers` has the truth and prediction of every neuron, which report.json leaves out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from whest.document import Json
from whest.page.drawing import set_scale
from whest.page.palette import ACCENT, ALARM, MUTED
from whest.tasks.whitebox.report import WhiteboxReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINES = 60
"""With more lines, a chart would be only a dark area."""


@dataclass(frozen=True)
class Answers:
    """Truth and prediction of every MLP with a valid answer, and the truth's noise in the MSE of each layer."""

    names: tuple[str, ...]
    truth: Float[np.ndarray, "mlp depth width"]
    predicted: Float[np.ndarray, "mlp depth width"]
    layer_floor: Float[np.ndarray, " depth"] | None
    kinds: Int[np.ndarray, "mlp depth width"] | None = None
    """Each neuron's class; None if it is not known."""


def answers_of(report: WhiteboxReport) -> Answers | None:
    """The answers of a report; None if no MLP has a valid answer."""
    pairs = zip(report.cases, report.score.cases, strict=True)
    answered = [case for case, s in pairs if case.prediction.means is not None and not s.failed]
    if not answered:
        return None
    kinds = [case.kinds for case in answered if case.kinds is not None]
    floor = np.mean([np.square(case.truth.standard_errors).mean(axis=1) for case in report.cases], axis=0)
    return Answers(
        names=tuple(case.name for case in answered),
        truth=np.stack([case.truth.means for case in answered]),
        predicted=np.stack([case.prediction.means for case in answered if case.prediction.means is not None]),
        layer_floor=floor if np.isfinite(floor).all() else None,  # other programs' datasets may have no standard errors
        kinds=np.stack(kinds) if len(kinds) == len(answered) else None,
    )


def draw_layer_error(axes: "Axes", results: Json, floor: Float[np.ndarray, " depth"] | None) -> None:
    """Mean squared error by layer, with the noise of the truth."""
    from matplotlib.ticker import MaxNLocator

    by_mlp = np.array([row["per_layer_mse"] for row in results["per_mlp"]], dtype=float)  # None becomes NaN
    layers = np.arange(1, by_mlp.shape[1] + 1)
    for row in by_mlp[:MAX_LINES]:
        axes.plot(layers, row, color=MUTED, alpha=0.4, linewidth=0.8)
    axes.plot(layers, by_mlp.mean(axis=0), color=ACCENT, marker="o", markersize=4.5, label="mean over MLPs")
    if floor is not None:
        axes.plot(layers, np.where(floor > 0, floor, np.nan), color=ALARM, linestyle="--", label="noise of the truth")
    axes.set(xlabel="layer", ylabel="mean squared error")
    if set_scale(axes, by_mlp) == "log":
        shown = [by_mlp[:, -1].min(), *([floor[-1]] if floor is not None and floor[-1] > 0 else [])]
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(shown) / 30))  # an exact first layer would squeeze the rest
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)


def draw_layer(axes: "Axes", truth: np.ndarray, predicted: np.ndarray, size: float = 2.2) -> None:
    """One dot per neuron: predicted mean against true mean, with the line where they are equal."""
    low, top = min(float(truth.min()), float(predicted.min())), max(float(truth.max()), float(predicted.max()))
    axes.plot([low, top], [low, top], color=MUTED, linewidth=0.8)
    axes.plot(truth, predicted, "o", markersize=size, color=ACCENT, alpha=0.4, markeredgewidth=0)


def draw_final_layer(axes: "Axes", answers: Answers | None) -> None:
    """Every final-layer neuron of every MLP with a valid answer."""
    axes.set(xlabel="true mean", ylabel="predicted mean")
    if answers is None:
        axes.text(0.5, 0.5, "no MLP has a valid answer", transform=axes.transAxes, ha="center")
    else:
        draw_layer(axes, answers.truth[:, -1].ravel(), answers.predicted[:, -1].ravel())
