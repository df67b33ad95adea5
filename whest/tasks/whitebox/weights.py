"""The weights of one MLP on its page: histograms, beside the normal curve that they were drawn from."""

import math

import numpy as np
from jaxtyping import Float

from whest.notation import count, figure
from whest.page.blocks import Axis, Block, Chart, Choice, Column, Series, Table

BINS = 41
REACH = 4.0
"""The histogram goes so many expected standard deviations to both sides; weights beyond are in the last bins."""


def weight_blocks(weights: Float[np.ndarray, "depth width width"]) -> list[Block]:
    """A histogram of all layers or of one, and each layer's figures."""
    width = weights.shape[1]
    sigma = math.sqrt(2 / width)
    parts = [("all", weights), *((str(i), layer) for i, layer in enumerate(weights, 1))]
    columns: list[Column | str] = [
        "layer",
        Column("mean", is_numeric=True),
        Column("standard deviation", f"expected: √(2/{width}) = {figure(sigma)}", is_numeric=True),
        Column("smallest", is_numeric=True),
        Column("largest", is_numeric=True),
    ]
    rows = [
        [i, float(layer.mean()), float(layer.std()), float(layer.min()), float(layer.max())]
        for i, layer in enumerate(weights, 1)
    ]
    return [
        Choice("Layer", [(name, [histogram(part, sigma, name)]) for name, part in parts]),
        Table(columns, rows, f"The weights of each layer. They were drawn from N(0, 2/{width})."),
    ]


def histogram(weights: np.ndarray, sigma: float, name: str) -> Chart:
    edges = np.linspace(-REACH * sigma, REACH * sigma, BINS + 1)
    counts, _ = np.histogram(np.clip(weights, edges[0], edges[-1]), edges)
    density = counts / (weights.size * (edges[1] - edges[0]))
    middles = (edges[:-1] + edges[1:]) / 2
    normal = np.exp(-0.5 * np.square(middles / sigma)) / (sigma * math.sqrt(2 * math.pi))
    which = "All layers" if name == "all" else f"Layer {name}"
    spread = float(weights.std())
    words = f"{count(weights.size, 'weight')}, standard deviation {figure(spread)}, expected {figure(sigma)}"
    return Chart(
        Axis("weight"),
        Axis("density", low=0.0),
        [
            Series("weights", middles.tolist(), density.tolist(), "both"),
            Series(f"N(0, {figure(sigma**2)})", middles.tolist(), normal.tolist(), "line", "muted", is_dashed=True),
        ],
        alt=f"{which}, a histogram: {words}.",
        caption=f"{which}: {words}.",
        size="wide",
    )
