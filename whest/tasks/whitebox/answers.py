"""Prediction against truth: one small chart per layer, which shows where an estimator goes wrong."""

import numpy as np

from whest.notation import figure
from whest.page.blocks import Block, Picture, Text
from whest.page.charts import new_figure, new_small_figure
from whest.tasks.whitebox.figures import Answers, draw_layer, draw_layer_residual

MAX_POINTS = 7000
"""On one page. A dot takes about 50 bytes, so the page stays below a megabyte."""
FINAL_SHARE = 0.2


def answer_blocks(answers: Answers) -> list[Block]:
    """The final layer's error, then every layer's prediction against its truth."""
    n_mlps, depth, width = answers.truth.shape
    neurons = n_mlps * width
    chosen = choose(neurons, int(MAX_POINTS * (1 - FINAL_SHARE)) // depth)
    final = choose(neurons, int(MAX_POINTS * FINAL_SHARE) // 2)
    shown = f"{len(chosen):,} of {neurons:,}, drawn at random" if len(chosen) < neurons else f"all {neurons:,}"
    small = f"{len(final):,}" if len(final) < neurons else f"all {neurons:,}"
    return [
        Text(
            f"One dot per neuron: {shown} per layer; {small} in the charts of the final layer. "
            "RMSE and R² are over all neurons."
        ),
        *_final_pictures(answers, final),
        *(_layer_picture(answers, layer, chosen) for layer in range(depth)),
    ]


def choose(n_all: int, n_wanted: int) -> np.ndarray:
    """The neurons to draw: all, or `n_wanted` at random, always the same ones and for every layer."""
    if n_all <= n_wanted:
        return np.arange(n_all)
    return np.sort(np.random.default_rng(0).choice(n_all, max(n_wanted, 1), replace=False))


def _final_pictures(answers: Answers, chosen: np.ndarray) -> list[Picture]:
    truth, predicted = _layer(answers, -1)
    one, axes = new_figure()
    draw_layer(axes, truth[chosen], predicted[chosen], 2.6)
    axes.set(xlabel="true mean", ylabel="predicted mean")
    other, residual_axes = new_figure()
    draw_layer_residual(residual_axes, truth[chosen], predicted[chosen])
    bias = float(np.mean(predicted - truth))
    words = fit_words(truth, predicted)
    return [
        Picture(one, f"Final layer, predicted against true mean: {words}.", f"Final layer. {words}."),
        Picture(
            other,
            f"Final layer, prediction minus truth against truth: mean {bias:.2g}.",
            f"Final layer, prediction − truth: {bias:+.2g} on average.",
        ),
    ]


def _layer_picture(answers: Answers, layer: int, chosen: np.ndarray) -> Picture:
    truth, predicted = _layer(answers, layer)
    figure_, axes = new_small_figure()
    draw_layer(axes, truth[chosen], predicted[chosen], 1.8)
    axes.locator_params(nbins=3)
    words = fit_words(truth, predicted)
    return Picture(
        figure_,
        f"Layer {layer + 1}, predicted against true mean: {words}.",
        f"Layer {layer + 1}. {words}",
        "small",
    )


def fit_words(truth: np.ndarray, predicted: np.ndarray) -> str:
    """The error of a layer's prediction in words."""
    mse, variance = float(np.mean(np.square(predicted - truth))), float(np.var(truth))
    explained = f", R² {1 - mse / variance:.4g}" if variance > 0 else ""
    return f"RMSE {figure(mse**0.5)}{explained}"


def _layer(answers: Answers, layer: int) -> tuple[np.ndarray, np.ndarray]:
    truth, predicted = answers.truth[:, layer], answers.predicted[:, layer]
    return truth.ravel().astype(np.float64), predicted.ravel().astype(np.float64)
