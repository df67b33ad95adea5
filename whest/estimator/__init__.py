"""What an estimator is: the contract that authors write against."""

from whest.estimator.contract import Estimator, MLPView, SetupContext

__all__ = ["Estimator", "MLPView", "SetupContext"]
