"""`truth=mixed`: the point sets of `truth=fast` with most products in bfloat16, and still no bias.

A product of bfloat16 factors takes half the time where the processor has instructions for it. One basis in 16 goes
through the network in both precisions. The mean difference removes the error of the others
(`whest.truth.rotations.Halves`). A replicate stays a function of one random rotation, so the error bars are made as
those of `truth=fast`, and they include the noise of the correction.
"""

from dataclasses import dataclass
from typing import ClassVar

from whest.truth.fast import FastTruth


@dataclass(frozen=True)
class MixedTruth(FastTruth):
    """Randomly rotated designs in two precisions. Small point sets are drawn as by `truth=fast`."""

    name: ClassVar[str] = "mixed"
    version: ClassVar[int] = 1
    in_halves: ClassVar[bool] = True
