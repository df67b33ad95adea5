"""The challenge's rule: final-layer MSE times the share of the budget spent, which counts as a tenth at least.

With F counted FLOPs, R residual seconds and λ FLOPs per second, `C = F + λ·R`. An MLP scores `MSE × max(0.1, C/B)`. A
failed MLP scores like a prediction of zeros with multiplier 1. The mean over MLPs ranks; lower is better.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from whest.cases.whitebox import WhiteboxCase
from whest.limits import Limits
from whest.scoring.score import CaseFigure, Direction, mean_or_none, standard_error
from whest.scoring.whitebox import CaseMeasures, WhiteboxScore, measure_case, measure_suite, row_failed


@dataclass(frozen=True, kw_only=True)
class WhestCase(CaseMeasures):
    """One MLP's measures and its score under the rule."""

    score_multiplier: float
    adjusted_final_layer_score: float


@dataclass(frozen=True, kw_only=True)
class WhestScore(WhiteboxScore):
    """The score of a suite."""

    by_case: ClassVar[CaseFigure] = CaseFigure("adjusted_final_layer_score", "adjusted final-layer score")

    adjusted_final_layer_score: float | None
    adjusted_final_layer_score_se: float | None
    best_mlp_adjusted_final_layer_score: float | None
    worst_mlp_adjusted_final_layer_score: float | None
    mean_score_multiplier: float | None
    adjusted_final_layer_score_corrected: float | None
    ratio_to_sampling: float | None
    cases: tuple[WhestCase, ...]


@dataclass(frozen=True)
class WhestRule:
    """`scoring=whest`."""

    name: ClassVar[str] = "whest"
    version: ClassVar[int] = 1
    direction: ClassVar[Direction] = "lower"

    multiplier_floor: Annotated[float, Field(gt=0, le=1)]

    def score(self, cases: Sequence[WhiteboxCase], limits: Limits, flops_per_sample: float) -> WhestScore:
        scored = tuple(self.score_case(case, limits, flops_per_sample) for case in cases)
        adjusted = [case.adjusted_final_layer_score for case in scored]
        baseline = mean_or_none(
            [c.sampling_mse_at_compute and c.sampling_mse_at_compute * c.score_multiplier for c in scored]
        )
        return WhestScore(
            **vars(measure_suite(cases, scored, limits)),
            score=mean_or_none(adjusted),
            score_se=standard_error(adjusted),
            direction=self.direction,
            adjusted_final_layer_score=mean_or_none(adjusted),
            adjusted_final_layer_score_se=standard_error(adjusted),
            best_mlp_adjusted_final_layer_score=min(adjusted, default=None),
            worst_mlp_adjusted_final_layer_score=max(adjusted, default=None),
            mean_score_multiplier=mean_or_none([case.score_multiplier for case in scored]),
            adjusted_final_layer_score_corrected=mean_or_none(
                [(c.final_layer_mse - c.truth_floor_mse) * c.score_multiplier for c in scored]
            ),
            ratio_to_sampling=_ratio_or_none(adjusted, baseline),
            cases=scored,
        )

    def score_case(self, case: WhiteboxCase, limits: Limits, flops_per_sample: float) -> WhestCase:
        measured = measure_case(case, limits, flops_per_sample)
        multiplier = self._multiplier(measured.failed, measured.effective_compute / limits.budget)
        adjusted = measured.final_layer_mse * multiplier
        return WhestCase(**vars(measured), score_multiplier=multiplier, adjusted_final_layer_score=adjusted)

    def _multiplier(self, failed: bool, share: float) -> float:
        return 1.0 if failed else max(self.multiplier_floor, share)


def recompute(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    """The score, computed again from the errors, FLOPs and residual times of a report's rows. It never ranks."""
    rule, lam = WhestRule(config["scoring"]["multiplier_floor"]), config["lambda_flops_per_second"]
    scores: list[float | None] = []
    for row in results["per_mlp"]:
        share = (row["flops_used"] + lam * row["residual_wall_time_s"]) / config["flop_budget"]
        mse = row["final_layer_mse"]
        scores.append(None if mse is None else mse * rule._multiplier(row_failed(row), share))
    return mean_or_none(scores)


def _ratio_or_none(scores: Sequence[float], baseline: float | None) -> float | None:
    """The mean score over a baseline; None if the baseline is too close to zero for a finite ratio."""
    if not baseline:
        return None
    ratio = float(np.mean(scores)) / baseline
    return ratio if math.isfinite(ratio) else None
