"""The predicted means, saved beside the report: the final layer of every MLP, and all layers as far as there is room.

The final layers separate bias and noise over seeds, which MSEs can't: they have no direction. `job=explore` shows all.
"""

import io
import zipfile
from pathlib import Path

import numpy as np
from jaxtyping import Float

from whest.files import require_modest_archive, write_atomically
from whest.tasks.whitebox.report import WhiteboxReport

PREDICTIONS_FILE = "predictions.npz"

LARGEST_PREDICTIONS = 2**28
"""Bytes of the arrays."""

ROOM_FOR_LAYERS = 2**24
"""Bytes of the hidden layers' predictions in one run. The first MLPs are kept: 256 of 1024x16, 2048 of 256x8."""

Answers = dict[int, Float[np.ndarray, " width"]]


def save_predictions(report: WhiteboxReport, folder: Path) -> None:
    """Save `mlp_index` and `final_layer`, and `all_layers` of the first MLPs. One without a valid answer has no row."""
    pairs = zip(report.cases, report.score.cases, strict=True)
    answers = {
        case.index: case.prediction.means
        for case, scored in pairs
        if case.prediction.means is not None and not scored.failed
    }
    width, depth = report.config["width"], report.config["depth"]
    layers = [means[-1] for means in answers.values()]
    whole = list(answers.values())[: ROOM_FOR_LAYERS // (4 * width * depth)]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        mlp_index=np.array(list(answers), dtype=np.int64),
        final_layer=np.array(layers, dtype=np.float32).reshape(len(layers), width),
        all_layers=np.array(whole, dtype=np.float32).reshape(len(whole), depth, width),
    )
    write_atomically(folder / PREDICTIONS_FILE, buffer.getvalue())


def read_predictions(path: Path) -> Answers | None:
    """The final layers' answers by MLP; None if the file is missing or damaged (the zip format has checksums)."""
    stored = _read(path, "mlp_index", "final_layer")
    try:
        return None if stored is None else dict(zip(stored[0].tolist(), stored[1], strict=True))
    except (ValueError, TypeError):
        return None


def read_network(path: Path, index: int, depth: int, width: int) -> Float[np.ndarray, "depth width"] | None:
    """One MLP's answer. Layers that were not kept are NaN: all but the last, in older runs and beyond the room."""
    stored = _read(path, "mlp_index", "final_layer")
    if stored is None or stored[0].ndim != 1 or stored[1].shape != (len(stored[0]), width):
        return None
    places = np.flatnonzero(stored[0] == index)
    if not len(places):
        return None
    whole = _read(path, "all_layers")
    if whole is not None and whole[0].shape[1:] == (depth, width) and places[0] < len(whole[0]):
        return whole[0][places[0]].astype(np.float64)
    means = np.full((depth, width), np.nan)
    means[-1] = stored[1][places[0]]
    return means


def _read(path: Path, *names: str) -> list[np.ndarray] | None:
    """Arrays of numbers from a file; None if one is missing or damaged."""
    try:
        require_modest_archive(path, LARGEST_PREDICTIONS)
        with np.load(path, allow_pickle=False) as stored:
            found = [stored[name] for name in names]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError, zipfile.BadZipFile):
        return None
    return found if all(array.dtype.kind in "iuf" for array in found) else None
