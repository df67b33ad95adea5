"""The error by layer as a chart: the mean over the MLPs, each MLP, and the noise of the truth."""

import numpy as np
from jaxtyping import Float

from whest.document import Json
from whest.notation import figure
from whest.page.blocks import Axis, Chart, Series
from whest.tasks.whitebox.figures import MAX_LINES

SQUEEZE = 30
"""How far the axis goes below the last layer's error: an exact first layer would squeeze the rest."""


def layer_chart(results: Json, floor: Float[np.ndarray, " depth"] | None) -> Chart:
    """Mean squared error by layer. `floor` is the part that the truth's own noise adds."""
    by_mlp = np.array([row["per_layer_mse"] for row in results["per_mlp"]], dtype=float)  # None becomes NaN
    layers = list(range(1, by_mlp.shape[1] + 1))
    mean, known = by_mlp.mean(axis=0), by_mlp[np.isfinite(by_mlp)]
    is_log = bool(known.size and (known > 0).all())
    low = _lowest(by_mlp, floor) if is_log else None
    mses, noise = results["per_layer_mse"], results["truth_floor_mse"]
    hidden = [f"{mse:.1e} at layer {i}" for i, mse in enumerate(mses, 1) if low and mse and mse < low]
    below = f" Below the axis: {', '.join(hidden)}." if hidden else ""
    series = [_strands(results, by_mlp, layers), Series("mean over MLPs", layers, mean.tolist())]
    if floor is not None:
        heights = np.where(floor > 0, floor, np.nan).tolist()
        series.append(Series("noise of the truth", layers, heights, "line", "alarm", is_dashed=True))
    return Chart(
        Axis("layer", is_integer=True),
        Axis("mean squared error", is_log=is_log, low=low),
        series,
        alt=f"Mean squared error by layer: {figure(mses[0])} at layer 1, {figure(mses[-1])} at layer {len(mses)}; "
        f"the truth's noise is {figure(noise)} at the last.",
        caption=f"Error by layer. The truth's noise adds {figure(noise)} to the last layer.{below}",
    )


def _strands(results: Json, by_mlp: np.ndarray, layers: list[int]) -> Series:
    """Every MLP as a strand of one series: a missing value ends a strand."""
    shown = results["per_mlp"][:MAX_LINES]
    heights = [height for row in by_mlp[:MAX_LINES] for height in (*row.tolist(), None)]
    places = [*layers, layers[-1]] * len(shown)
    names = [row["mlp_name"] for row in shown for _ in range(len(layers) + 1)]
    word = "each MLP" if len(shown) == len(by_mlp) else f"the first {len(shown)} MLPs"
    return Series(word, places, heights, "line", "muted", names=names, is_faint=True)


def _lowest(by_mlp: np.ndarray, floor: Float[np.ndarray, " depth"] | None) -> float | None:
    """The lower end of the axis, if some layer's error is far below that of the last; else None."""
    last = [float(np.nanmin(by_mlp[:, -1])), *([float(floor[-1])] if floor is not None and floor[-1] > 0 else [])]
    edge = min(last) / SQUEEZE
    return edge if float(np.nanmin(by_mlp)) < edge else None
