"""A case of the white-box task: one MLP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from whest.cases.prediction import Prediction
from whest.truth.truth import Truth


@dataclass(frozen=True)
class WhiteboxCase:
    """One MLP's prediction and its truth."""

    index: int
    name: str
    truth: Truth
    prediction: Prediction
    sampling_time_s: float | None
    """How long it took to draw the truth; None if it came from the dataset or the cache."""
    protections: Mapping[str, str] = field(default_factory=dict)
    """The protections of the sandbox and whether each was active; empty without a worker."""
    kinds: Int[np.ndarray, "depth width"] | None = None
    """The class of every neuron: dead, borderline or on; None if it is not known. The page uses it."""
