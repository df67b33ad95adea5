"""One MLP of recorded runs: its weights, its truth, and what each run answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from whest.config.build import Node, build_group
from whest.dataset.dataset import Dataset
from whest.document import Json
from whest.errors import ConfigError
from whest.mlp import MLP
from whest.progress import Progress
from whest.tasks.whitebox.neurons import classes_of
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE, read_network
from whest.truth.cache import TruthCache, watched_truth
from whest.truth.truth import Truth

MOST_NAMES = 20
"""Names that an error lists."""


@dataclass(frozen=True)
class Answer:
    """What one run answered."""

    name: str
    row: Json
    """The MLP's row of the report."""
    means: Float[np.ndarray, "depth width"] | None
    """None without a valid answer; NaN in layers that the run did not keep."""

    @property
    def by_layer(self) -> list[float | None]:
        """The MSE of each layer, as the report has it."""
        return list(self.row["per_layer_mse"] or [])


@dataclass(frozen=True)
class Network:
    """An MLP with the answers of one or two runs."""

    mlp: MLP
    truth: Truth
    answers: tuple[Answer, ...]

    @cached_property
    def kinds(self) -> Int[np.ndarray, "depth width"]:
        """Each neuron's class."""
        return classes_of(self.mlp.weights, self.truth.means)

    def error(self, answer: Answer) -> Float[np.ndarray, "depth width"] | None:
        """Prediction minus truth."""
        return None if answer.means is None else answer.means - self.truth.means.astype(np.float64)


def find_row(report: Json, wanted: str | int | None) -> Json:
    """The row of an MLP by its name or index; without one, that with the largest error."""
    rows = report["results"]["per_mlp"]
    if wanted is None:
        found: Json = max(rows, key=lambda row: row["final_layer_mse"] or 0.0)
        return found
    for row in rows:
        if str(wanted) in (row["mlp_name"], str(row["mlp_index"])):
            chosen: Json = row
            return chosen
    names = ", ".join(str(row["mlp_name"]) for row in rows[:MOST_NAMES])
    more = f" and {len(rows) - MOST_NAMES} more" if len(rows) > MOST_NAMES else ""
    raise ConfigError(f"mlp={wanted} is none of the run's MLPs: choose one of {names}{more}")


def load_dataset(config: Node, report: Json, key: str) -> Dataset:
    """The dataset of a recorded config, if it still has the content that the report names."""
    dataset: Dataset = build_group(config, "dataset").load()
    told, found = report["run_config"]["dataset"]["sha256"], dataset.sha256
    if told != found:
        raise ConfigError(
            f"{key}: its dataset has the sha256 {found[:12]}… now, the report names {str(told)[:12]}…: give the run "
            "the dataset that it was scored on"
        )
    return dataset


def truth_of(dataset: Dataset, config: Node, name: str, cache: Path, progress: Progress) -> tuple[MLP, Truth]:
    """The MLP of a name and its truth: from the dataset, from the cache, or drawn now."""
    row = next(row for row in dataset.rows if row.name == name)
    mlp, sampler = dataset.mlp(row), build_group(config, "truth")
    if row.truth is not None and not sampler.resample:
        return mlp, row.truth
    kept = TruthCache(cache)
    return mlp, kept.find(sampler, mlp) or watched_truth(kept, sampler, mlp, progress)


def read_answer(name: str, folder: Path, row: Json, mlp: MLP) -> Answer:
    return Answer(name, row, read_network(folder / PREDICTIONS_FILE, row["mlp_index"], mlp.depth, mlp.width))


def values(array: Any) -> list[float]:
    return [float(value) for value in np.ravel(array)]


def rms(array: np.ndarray) -> float | None:
    """The root mean square of the known values; None if none is known."""
    known = array[np.isfinite(array)]
    return float(np.sqrt(np.mean(np.square(known)))) if known.size else None


def by_layer(errors: np.ndarray, chosen: np.ndarray) -> Sequence[float | None]:
    """The RMS error of each layer over the chosen neurons."""
    return [rms(row[mask]) for row, mask in zip(errors, chosen, strict=True)]
