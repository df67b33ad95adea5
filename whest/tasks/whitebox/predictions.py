"""The predicted means of the final layer, saved beside the report to separate bias and noise over seeds later.

The MSEs in the report have no direction, so they can't separate the two.
"""

import io
import zipfile
from pathlib import Path

import numpy as np
from jaxtyping import Float

from whest.files import write_atomically
from whest.tasks.whitebox.report import WhiteboxReport

PREDICTIONS_FILE = "predictions.npz"

Answers = dict[int, Float[np.ndarray, " width"]]


def save_predictions(report: WhiteboxReport, folder: Path) -> None:
    """Save the arrays `mlp_index` and `final_layer`. An MLP without a valid answer has no row."""
    pairs = zip(report.cases, report.score.cases, strict=True)
    answers = {
        case.index: case.prediction.means[-1]
        for case, scored in pairs
        if case.prediction.means is not None and not scored.failed
    }
    layers = np.array(list(answers.values()), dtype=np.float32).reshape(len(answers), report.config["width"])
    buffer = io.BytesIO()
    np.savez(buffer, mlp_index=np.array(list(answers), dtype=np.int64), final_layer=layers)
    write_atomically(folder / PREDICTIONS_FILE, buffer.getvalue())


def read_predictions(path: Path) -> Answers | None:
    """The answers by MLP; None if the file is missing or damaged (the zip format has checksums)."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(zip(stored["mlp_index"].tolist(), stored["final_layer"], strict=True))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
