"""The challenge's rule: final-layer MSE times the share of the budget spent, floored at a tenth.

With F counted FLOPs, R residual seconds and λ FLOPs a second, `C = F + λ·R`; an MLP scores
`MSE × max(0.1, C/B)`, and a failed one scores as zeros at multiplier 1. The mean over MLPs ranks; lower is better.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from whest.case import Limits, WhiteboxCase


@dataclass(frozen=True)
class Flags:
    """Why a case was zeroed; independent of each other."""

    budget_exhausted: bool
    time_exhausted: bool
    residual_wall_time_exhausted: bool
    combined_budget_exhausted: bool

    @property
    def any(self) -> bool:
        return (
            self.budget_exhausted
            or self.time_exhausted
            or self.residual_wall_time_exhausted
            or self.combined_budget_exhausted
        )


@dataclass(frozen=True)
class CaseScore:
    """One MLP's figures."""

    effective_compute: float
    score_multiplier: float
    final_layer_mse: float
    all_layers_mse: float
    per_layer_mse: tuple[float, ...]
    adjusted_final_layer_score: float
    flags: Flags
    failed: bool
    truth_floor_mse: float
    sampling_mse_at_budget: float | None
    sampling_mse_at_compute: float | None


@dataclass(frozen=True)
class FailureBreakdown:
    """How many cases carry each flag; one case may carry several."""

    budget_exhausted: int
    time_exhausted: int
    residual_wall_time_exhausted: int
    combined_budget_exhausted: int
    error: int


@dataclass(frozen=True)
class Score:
    """The suite's figures; all null when no case was finished."""

    score: float | None
    score_se: float | None
    direction: Literal["lower", "higher"]
    adjusted_final_layer_score: float | None
    adjusted_final_layer_score_se: float | None
    final_layer_mse: float | None
    final_layer_mse_se: float | None
    all_layers_mse: float | None
    per_layer_mse: tuple[float, ...]
    best_mlp_adjusted_final_layer_score: float | None
    worst_mlp_adjusted_final_layer_score: float | None
    mean_score_multiplier: float | None
    mean_compute_utilization: float | None
    mean_effective_compute: float | None
    n_failed_mlps: int
    failure_breakdown: FailureBreakdown
    truth_floor_mse: float | None
    final_layer_mse_corrected: float | None
    adjusted_final_layer_score_corrected: float | None
    sampling_mse_at_budget: float | None
    sampling_mse_at_compute: float | None
    ratio_to_sampling: float | None
    cases: tuple[CaseScore, ...]


@dataclass(frozen=True)
class WhestRule:
    """`scoring=whest`."""

    name: ClassVar[str] = "whest"
    version: ClassVar[int] = 1
    direction: ClassVar[Literal["lower"]] = "lower"

    multiplier_floor: Annotated[float, Field(gt=0, le=1)]

    def score(self, cases: Sequence[WhiteboxCase], limits: Limits, flops_per_sample: float) -> Score:
        scored = tuple(self.score_case(case, limits, flops_per_sample) for case in cases)
        adjusted = [case.adjusted_final_layer_score for case in scored]
        baseline = _mean_or_none(
            [c.sampling_mse_at_compute and c.sampling_mse_at_compute * c.score_multiplier for c in scored]
        )
        per_layer = np.mean([case.per_layer_mse for case in scored], axis=0) if scored else np.zeros(0)
        return Score(
            score=_mean_or_none(adjusted),
            score_se=_standard_error(adjusted),
            direction=self.direction,
            adjusted_final_layer_score=_mean_or_none(adjusted),
            adjusted_final_layer_score_se=_standard_error(adjusted),
            final_layer_mse=_mean_or_none([case.final_layer_mse for case in scored]),
            final_layer_mse_se=_standard_error([case.final_layer_mse for case in scored]),
            all_layers_mse=_mean_or_none([case.all_layers_mse for case in scored]),
            per_layer_mse=tuple(float(mse) for mse in per_layer),
            best_mlp_adjusted_final_layer_score=min(adjusted, default=None),
            worst_mlp_adjusted_final_layer_score=max(adjusted, default=None),
            mean_score_multiplier=_mean_or_none([case.score_multiplier for case in scored]),
            mean_compute_utilization=_mean_or_none([case.effective_compute / limits.budget for case in scored]),
            mean_effective_compute=_mean_or_none([case.effective_compute for case in scored]),
            n_failed_mlps=sum(case.failed for case in scored),
            failure_breakdown=_count_failures(cases, scored),
            truth_floor_mse=_mean_or_none([case.truth_floor_mse for case in scored]),
            final_layer_mse_corrected=_mean_or_none([c.final_layer_mse - c.truth_floor_mse for c in scored]),
            adjusted_final_layer_score_corrected=_mean_or_none(
                [(c.final_layer_mse - c.truth_floor_mse) * c.score_multiplier for c in scored]
            ),
            sampling_mse_at_budget=_mean_or_none([case.sampling_mse_at_budget for case in scored]),
            sampling_mse_at_compute=_mean_or_none([case.sampling_mse_at_compute for case in scored]),
            ratio_to_sampling=_ratio_or_none(adjusted, baseline),
            cases=scored,
        )

    def score_case(self, case: WhiteboxCase, limits: Limits, flops_per_sample: float) -> CaseScore:
        prediction, truth = case.prediction, case.truth
        compute = prediction.cost.flops + limits.lam * prediction.timing.residual_wall_time_s
        flags = _flags(case, limits, compute)
        failed = flags.any or prediction.means is None
        means = np.zeros_like(truth.means) if failed or prediction.means is None else prediction.means
        squares = np.square(means.astype(np.float64) - truth.means.astype(np.float64))
        per_layer = squares.mean(axis=1)
        multiplier = 1.0 if failed else max(self.multiplier_floor, compute / limits.budget)
        return CaseScore(
            effective_compute=compute,
            score_multiplier=multiplier,
            final_layer_mse=float(per_layer[-1]),
            all_layers_mse=float(per_layer.mean()),
            per_layer_mse=tuple(float(mse) for mse in per_layer),
            adjusted_final_layer_score=float(per_layer[-1]) * multiplier,
            flags=flags,
            failed=failed,
            truth_floor_mse=truth.floor_mse,
            sampling_mse_at_budget=_sampling_mse(truth.avg_variance, limits.budget / flops_per_sample),
            sampling_mse_at_compute=_sampling_mse(truth.avg_variance, compute / flops_per_sample),
        )


def recompute(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    """What a report's own rows make the score, from errors, FLOPs and residual times up: a check, never a ranking."""
    floor, budget = config["scoring"]["multiplier_floor"], config["flop_budget"]
    lam = config["lambda_flops_per_second"]
    scores: list[float | None] = []
    for row in results["per_mlp"]:
        failed = "error_code" in row or any(row[flag.name] for flag in fields(Flags))
        compute = row["flops_used"] + lam * row["residual_wall_time_s"]
        mse = row["final_layer_mse"]
        scores.append(mse if mse is None or failed else mse * max(floor, compute / budget))
    return _mean_or_none(scores)


def _flags(case: WhiteboxCase, limits: Limits, compute: float) -> Flags:
    """A program refused before it ran carries one flag, the budget's; it spent no time that could exhaust another."""
    timing = case.prediction.timing
    return Flags(
        budget_exhausted=case.prediction.cost.flops > limits.budget,
        time_exhausted=_over(timing.wall_time_s, limits.wall_time_limit_s),
        residual_wall_time_exhausted=_over(timing.residual_wall_time_s, limits.residual_wall_time_limit_s),
        combined_budget_exhausted=compute > limits.budget and not case.prediction.refused,
    )


def _over(value: float, cap: float | None) -> bool:
    return cap is not None and value > cap


def _ratio_or_none(scores: Sequence[float], baseline: float | None) -> float | None:
    """Their mean over a baseline, where that is a number: next to nothing is no measure."""
    if not baseline:
        return None
    ratio = float(np.mean(scores)) / baseline
    return ratio if math.isfinite(ratio) else None


def _sampling_mse(avg_variance: float, n_samples: float) -> float | None:
    """What plain sampling would score with that many samples; null below one."""
    return avg_variance / n_samples if n_samples >= 1 else None


def _count_failures(cases: Sequence[WhiteboxCase], scored: Sequence[CaseScore]) -> FailureBreakdown:
    return FailureBreakdown(
        budget_exhausted=sum(case.flags.budget_exhausted for case in scored),
        time_exhausted=sum(case.flags.time_exhausted for case in scored),
        residual_wall_time_exhausted=sum(case.flags.residual_wall_time_exhausted for case in scored),
        combined_budget_exhausted=sum(case.flags.combined_budget_exhausted for case in scored),
        error=sum(case.prediction.failure is not None for case in cases),
    )


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    """The mean; null where there is nothing, or one figure is missing."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _standard_error(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
