"""Pictures of a run: error by layer, score by MLP, prediction against truth."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whest.report import Report

INK, ACCENT, MUTED, ALARM = "#1f2933", "#2563eb", "#9aa5b1", "#c2410c"


def save_figures(report: Report, folder: Path) -> list[Path]:
    """Draw what can be drawn from the finished MLPs; an empty run has no pictures."""
    if not report.cases:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    return [_save(draw, report, folder / f"{name}.png") for name, draw in FIGURES.items()]


def _save(draw: Callable[[Axes, Report], None], report: Report, path: Path) -> Path:
    figure = Figure(figsize=(7, 4.3), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e7eb", linewidth=0.7)
    axes.set_axisbelow(True)
    draw(axes, report)
    figure.savefig(path, dpi=130)
    return path


def draw_layer_error(axes: Axes, report: Report) -> None:
    """Mean squared error layer by layer, with the noise of the truth beneath it."""
    layers = np.arange(1, len(report.score.per_layer_mse) + 1)
    by_mlp = np.array([case.per_layer_mse for case in report.score.cases])
    floor = np.mean([np.square(case.truth.standard_errors).mean(axis=1) for case in report.cases], axis=0)
    for row in by_mlp:
        axes.plot(layers, row, color=MUTED, alpha=0.4, linewidth=0.8)
    axes.plot(layers, report.score.per_layer_mse, color=ACCENT, marker="o", label="mean over MLPs")
    if np.isfinite(floor).all():  # a dataset from elsewhere may bring no standard errors
        axes.plot(layers, floor, color=ALARM, linestyle="--", label="noise of the truth")
    axes.set(xlabel="layer", ylabel="mean squared error", yscale=_scale(by_mlp), title=_title(report, "Error by layer"))
    axes.legend(frameon=False)


def draw_mlp_scores(axes: Axes, report: Report) -> None:
    """Each MLP's adjusted score; failed ones stand out."""
    order = np.argsort([case.adjusted_final_layer_score for case in report.score.cases])
    scores = [report.score.cases[i].adjusted_final_layer_score for i in order]
    colours = [ALARM if report.score.cases[i].failed else ACCENT for i in order]
    axes.scatter(range(len(order)), scores, c=colours, s=28)
    axes.axhline(float(np.mean(scores)), color=INK, linewidth=1, label="mean")
    if len(order) <= 24:
        axes.set_xticks(range(len(order)), [report.cases[i].name for i in order], rotation=60, ha="right", fontsize=7)
    axes.set(
        ylabel="adjusted final-layer score",
        yscale=_scale(np.array(scores)),
        title=_title(report, "Score by MLP (lower is better)"),
    )
    axes.legend(frameon=False)


def draw_prediction_against_truth(axes: Axes, report: Report) -> None:
    """Every final-layer neuron of every MLP that answered."""
    answered = [case for case in report.cases if case.prediction.means is not None]
    for case in answered:
        assert case.prediction.means is not None
        axes.scatter(case.truth.means[-1], case.prediction.means[-1], s=5, color=ACCENT, alpha=0.35, linewidths=0)
    top = max((float(case.truth.means[-1].max()) for case in answered), default=1.0)
    axes.plot([0, top], [0, top], color=INK, linewidth=0.8)
    axes.set(xlabel="true mean", ylabel="predicted mean", title=_title(report, "Final layer: prediction against truth"))
    if not answered:
        axes.text(0.5, 0.5, "no MLP was answered", transform=axes.transAxes, ha="center")


def _scale(values: np.ndarray) -> str:
    """Logarithmic where every value has a logarithm."""
    return "log" if (values > 0).all() else "linear"


def _title(report: Report, what: str) -> str:
    return f"{what} — {report.config['estimator']['name']} on {report.config['dataset']['name']}"


FIGURES: dict[str, Callable[[Axes, Report], None]] = {
    "layer_error": draw_layer_error,
    "mlp_scores": draw_mlp_scores,
    "prediction_against_truth": draw_prediction_against_truth,
}
