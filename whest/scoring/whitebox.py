"""Measures of white-box cases, before any rule uses them: errors, compute, flags, and the error of plain sampling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from whest.cases.prediction import Flags
from whest.cases.whitebox import WhiteboxCase
from whest.limits import Limits
from whest.scoring.score import Front, Rule, Score, mean_or_none, standard_error


@dataclass(frozen=True, kw_only=True)
class CaseMeasures:
    """The figures of one MLP. A failed MLP is measured as if the prediction were zeros."""

    effective_compute: float
    final_layer_mse: float
    all_layers_mse: float
    per_layer_mse: tuple[float, ...]
    flags: Flags
    failed: bool
    truth_floor_mse: float
    sampling_mse_at_budget: float | None
    sampling_mse_at_compute: float | None

    @property
    def own_figures(self) -> dict[str, float | None]:
        """The figures that a rule adds to these measures."""
        measured = {field.name for field in fields(CaseMeasures)}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in measured}


@dataclass(frozen=True)
class FailureBreakdown:
    """The number of cases with each flag; one case may have several."""

    budget_exhausted: int
    time_exhausted: int
    residual_wall_time_exhausted: int
    combined_budget_exhausted: int
    error: int


@dataclass(frozen=True, kw_only=True)
class SuiteMeasures:
    """The figures of the suite; None if no case was finished."""

    final_layer_mse: float | None
    final_layer_mse_se: float | None
    all_layers_mse: float | None
    per_layer_mse: tuple[float, ...]
    mean_compute_utilization: float | None
    mean_effective_compute: float | None
    n_failed_mlps: int
    failure_breakdown: FailureBreakdown
    truth_floor_mse: float | None
    final_layer_mse_corrected: float | None
    sampling_mse_at_budget: float | None
    sampling_mse_at_compute: float | None


@dataclass(frozen=True, kw_only=True)
class WhiteboxScore(SuiteMeasures, Score):
    """The result of a rule on the white-box task: its score and the measures."""

    cases: tuple[CaseMeasures, ...]

    @property
    def front(self) -> Front:
        return Front("final-layer MSE", self.final_layer_mse, self.final_layer_mse_se, self.mean_effective_compute)


class WhiteboxRule(Rule, Protocol):
    """A rule that can score white-box cases."""

    def score(self, cases: Sequence[WhiteboxCase], limits: Limits, flops_per_sample: float) -> WhiteboxScore: ...


def measure_case(case: WhiteboxCase, limits: Limits, flops_per_sample: float) -> CaseMeasures:
    prediction, truth = case.prediction, case.truth
    compute = prediction.cost.flops + limits.lam * prediction.timing.residual_wall_time_s
    flags = _flags(case, limits, compute)
    failed = flags.any or prediction.means is None
    means = np.zeros_like(truth.means) if failed or prediction.means is None else prediction.means
    squares = np.square(means.astype(np.float64) - truth.means.astype(np.float64))
    per_layer = squares.mean(axis=1)
    return CaseMeasures(
        effective_compute=compute,
        final_layer_mse=float(per_layer[-1]),
        all_layers_mse=float(per_layer.mean()),
        per_layer_mse=tuple(float(mse) for mse in per_layer),
        flags=flags,
        failed=failed,
        truth_floor_mse=truth.floor_mse,
        sampling_mse_at_budget=_sampling_mse(truth.avg_variance, limits.budget / flops_per_sample),
        sampling_mse_at_compute=_sampling_mse(truth.avg_variance, compute / flops_per_sample),
    )


def measure_suite(cases: Sequence[WhiteboxCase], measured: Sequence[CaseMeasures], limits: Limits) -> SuiteMeasures:
    per_layer = np.mean([case.per_layer_mse for case in measured], axis=0) if measured else np.zeros(0)
    return SuiteMeasures(
        final_layer_mse=mean_or_none([case.final_layer_mse for case in measured]),
        final_layer_mse_se=standard_error([case.final_layer_mse for case in measured]),
        all_layers_mse=mean_or_none([case.all_layers_mse for case in measured]),
        per_layer_mse=tuple(float(mse) for mse in per_layer),
        mean_compute_utilization=mean_or_none([case.effective_compute / limits.budget for case in measured]),
        mean_effective_compute=mean_or_none([case.effective_compute for case in measured]),
        n_failed_mlps=sum(case.failed for case in measured),
        failure_breakdown=_count_failures(cases, measured),
        truth_floor_mse=mean_or_none([case.truth_floor_mse for case in measured]),
        final_layer_mse_corrected=mean_or_none([c.final_layer_mse - c.truth_floor_mse for c in measured]),
        sampling_mse_at_budget=mean_or_none([case.sampling_mse_at_budget for case in measured]),
        sampling_mse_at_compute=mean_or_none([case.sampling_mse_at_compute for case in measured]),
    )


def row_failed(row: Mapping[str, Any]) -> bool:
    """Whether a row of a report's `per_mlp` belongs to a failed case."""
    return "error_code" in row or any(row[flag.name] for flag in fields(Flags))


def _flags(case: WhiteboxCase, limits: Limits, compute: float) -> Flags:
    """A program refused before it ran has only the budget's flag: it spent no time that could exceed another limit."""
    if case.prediction.flags is not None:
        return case.prediction.flags
    timing = case.prediction.timing
    return Flags(
        budget_exhausted=case.prediction.cost.flops > limits.budget,
        time_exhausted=_over(timing.wall_time_s, limits.wall_time_limit_s),
        residual_wall_time_exhausted=_over(timing.residual_wall_time_s, limits.residual_wall_time_limit_s),
        combined_budget_exhausted=compute > limits.budget and not case.prediction.refused,
    )


def _over(value: float, cap: float | None) -> bool:
    return cap is not None and value > cap


def _sampling_mse(avg_variance: float, n_samples: float) -> float | None:
    """The MSE of plain sampling with this many samples; None below one sample."""
    return avg_variance / n_samples if n_samples >= 1 else None


def _count_failures(cases: Sequence[WhiteboxCase], measured: Sequence[CaseMeasures]) -> FailureBreakdown:
    return FailureBreakdown(
        budget_exhausted=sum(case.flags.budget_exhausted for case in measured),
        time_exhausted=sum(case.flags.time_exhausted for case in measured),
        residual_wall_time_exhausted=sum(case.flags.residual_wall_time_exhausted for case in measured),
        combined_budget_exhausted=sum(case.flags.combined_budget_exhausted for case in measured),
        error=sum(case.prediction.failure is not None for case in cases),
    )
