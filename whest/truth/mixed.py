"""`truth=mixed`: the point sets of `truth=fast` with most products in bfloat16, and still no bias.

A product of bfloat16 factors takes half the time where the processor has instructions for it. One basis in 16 goes
through the network in both precisions. The mean difference removes the error of the others
(`whest.truth.rotations.Surrogate`). A replicate stays a function of one random rotation, so the error bars are made as
those of `truth=fast`, and they include the noise of the correction.
"""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array

from whest.truth.fast import FastTruth
from whest.truth.plan import Plan
from whest.truth.rotations import Remaining, Surrogate, plan_halves


@dataclass(frozen=True)
class MixedTruth(FastTruth):
    """Randomly rotated designs in two precisions. Small point sets are drawn as by `truth=fast`."""

    name: ClassVar[str] = "mixed"
    version: ClassVar[int] = 1

    def _surrogate(self, weights: Array, key: Array, layout: Plan) -> tuple[Surrogate | None, Remaining | None]:
        return plan_halves(layout.size, layout.n_signed), None
