"""Pictures of a prequential run: the online loss, and bits per byte against FLOPs."""

import math
from typing import TYPE_CHECKING

import numpy as np

from whest.document import Json
from whest.page.palette import ACCENT, ALARM, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

UNIFORM = 8.0
MOST_POINTS = 600
"""Points of a curve: enough for a screen, and the page stays small."""


def online_bits(results: Json) -> np.ndarray:
    """Bits per byte of each batch; NaN, a gap, if the loss wasn't finite."""
    losses = np.array([np.nan if loss is None else loss for loss in results["online"]["loss"]], dtype=float)
    return losses / math.log(2)


def online_curve(results: Json) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes read, bits per byte of that batch, and their mean so far, thinned to what a screen can show."""
    bits = online_bits(results)
    places = (np.arange(len(bits)) + 1) * results["online"]["batch_bytes"]
    so_far = np.cumsum(np.nan_to_num(bits, nan=2 * UNIFORM)) / np.arange(1, len(bits) + 1)
    shown = _thinned(len(bits))
    return places[shown], bits[shown], so_far[shown]


def draw_online_loss(axes: "Axes", results: Json) -> None:
    """The loss of each batch, and the mean so far, which is the code length."""
    from matplotlib.ticker import EngFormatter

    places, bits, so_far = online_curve(results)
    axes.axhline(UNIFORM, color=ALARM, linestyle="--", linewidth=0.8, label="uniform")
    axes.plot(places, bits, color=MUTED, linewidth=0.7, label="each batch")
    axes.plot(places, so_far, color=ACCENT, label="mean so far")
    axes.set(
        xlabel="bytes read", ylabel="bits per byte", ylim=(0, max(9.0, float(np.nanmax(bits, initial=0.0)) * 1.05))
    )
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.legend(frameon=False)


def draw_bits_against_flops(axes: "Axes", results: Json) -> None:
    """Bits per byte of the blocks, against the FLOPs spent until the end of each."""
    from matplotlib.ticker import EngFormatter

    rows = results["per_case"]
    spent = np.cumsum([row["flops_used"] for row in rows])
    axes.plot(spent, [row["bpb"] for row in rows], color=ACCENT, marker="o", markersize=3)
    axes.set(xlabel="FLOPs of updates", ylabel="bits per byte of a block")
    axes.xaxis.set_major_formatter(EngFormatter())


def _thinned(n: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(int))
