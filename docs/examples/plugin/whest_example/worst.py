"""A rule that ranks by the worst MLP, and its board. Both are small changes of whest's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from whest.boards.policies import WhestPolicy
from whest.cases.whitebox import WhiteboxCase
from whest.limits import Limits
from whest.scoring.whest import WhestRule, WhestScore, recompute


@dataclass(frozen=True)
class WorstRule(WhestRule):
    name: ClassVar[str] = "worst"
    version: ClassVar[int] = 1
    tasks: ClassVar[tuple[str, ...]] = ("whitebox",)
    """The tasks that it can score."""

    def score(self, cases: Sequence[WhiteboxCase], limits: Limits, flops_per_sample: float) -> WhestScore:
        scored = super().score(cases, limits, flops_per_sample)
        return replace(scored, score=scored.worst_mlp_adjusted_final_layer_score, score_se=None)

    @staticmethod
    def recompute(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
        """The score again, from the rows of a report: boards check every run with it."""
        alone = [recompute(config, {"per_mlp": [row]}) for row in results["per_mlp"]]
        return max((score for score in alone if score is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class WorstBoard(WhestPolicy):
    rule: ClassVar[str] = "worst"
    words: ClassVar[str] = "each participant's lowest score of its worst MLP; equal scores share a rank"
