"""A case of the white-box task: one MLP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from whest.cases.prediction import Prediction
from whest.truth.truth import Truth


@dataclass(frozen=True)
class WhiteboxCase:
    """One MLP's prediction beside its truth."""

    index: int
    name: str
    truth: Truth
    prediction: Prediction
    sampling_time_s: float | None
    """How long the truth took to draw; null when it came baked or from the cache."""
    protections: Mapping[str, str] = field(default_factory=dict)
    """What the worker was kept from; empty without a worker."""
