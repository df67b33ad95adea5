"""The meter: what a JAX program costs. `from whest.metering import meter`."""

from whest.cost import Charge, Cost
from whest.metering.walk import METER_VERSION, cost_of, meter

__all__ = ["METER_VERSION", "Charge", "Cost", "cost_of", "meter"]
