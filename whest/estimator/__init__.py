"""The estimator contract: the types that an author of an estimator uses."""

from whest.estimator.contract import Estimator, MLPView, SetupContext

__all__ = ["Estimator", "MLPView", "SetupContext"]
