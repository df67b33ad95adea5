"""`truth=mixed`: the point sets of `truth=fast`, most of them through a smaller network in bfloat16, and still no bias.

A product of bfloat16 factors takes half the time where the processor has instructions for it. So the smaller network of
`truth=pruned` is multiplied in bfloat16, or the whole one where leaving out neurons doesn't pay. A few bases go through
the whole network in float32 too. The mean difference removes the error of the others
(`whest.truth.rotations.Surrogate`). A replicate stays a function of one random rotation, so the error bars are made as
those of `truth=fast`, and they include the noise of the correction.
"""

from dataclasses import dataclass
from typing import ClassVar

from whest.truth.pruned import PrunedTruth


@dataclass(frozen=True)
class MixedTruth(PrunedTruth):
    """Randomly rotated designs in two precisions. Small point sets are drawn as by `truth=fast`."""

    name: ClassVar[str] = "mixed"
    version: ClassVar[int] = 3
    in_halves: ClassVar[bool] = True
