"""An estimator object from a script or a notebook, scored in this process."""

import hashlib
import inspect
from dataclasses import dataclass
from pathlib import Path

from whest.estimator.contract import Estimator
from whest.estimator.spec import EstimatorSpec


@dataclass(frozen=True, kw_only=True)
class HeldEstimator(EstimatorSpec):
    """Its class may not be importable, so it can't be sent to a worker."""

    made: Estimator

    @property
    def is_trusted(self) -> bool:
        return True  # the caller has already run its code

    @property
    def source(self) -> Path | None:
        return None

    @property
    def source_sha256(self) -> str | None:
        try:
            return hashlib.sha256(inspect.getsource(type(self.made)).encode()).hexdigest()
        except (OSError, TypeError):  # typed at a prompt that keeps no source
            return None

    def create(self) -> Estimator:
        return self.made
