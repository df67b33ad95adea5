"""A white-box report: one row per MLP, with its errors, compute, flags, times and printed output."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

from whest.cases.prediction import Failure
from whest.cases.whitebox import WhiteboxCase
from whest.cost import Timing
from whest.document import Json
from whest.limits import Limits
from whest.report import NO_TIMES, Report, estimator_breakdown, timing_json
from whest.results import MlpRow, WhiteboxFindings
from whest.schema import SamplingBreakdownJson, SpentJson
from whest.scoring.whitebox import CaseMeasures, WhiteboxScore


@dataclass(frozen=True)
class WhiteboxReport(Report[WhiteboxCase, WhiteboxScore]):
    """One run on a dataset of MLPs."""

    flops_per_sample: float

    @property
    def has_errors(self) -> bool:
        return any(case.prediction.failure is not None for case in self.cases)

    def series(self) -> dict[str, Sequence[float]]:
        return {"layer_mse": self.score.per_layer_mse}

    def results(self) -> WhiteboxFindings:
        timings = [case.prediction.timing for case in self.cases]
        return {
            "compile_time_s": sum(case.prediction.compile_time_s for case in self.cases),
            "breakdowns": {
                "sampling": _sampling_breakdown(self.cases, self.flops_per_sample),
                "estimator": estimator_breakdown([case.prediction.cost.charges for case in self.cases], timings),
            },
            "per_mlp": [
                _case_json(case, scored, self.limits) for case, scored in zip(self.cases, self.score.cases, strict=True)
            ],
        }


def _case_json(case: WhiteboxCase, scored: CaseMeasures, limits: Limits) -> MlpRow:
    prediction = case.prediction
    row = {
        "mlp_index": case.index,
        "mlp_name": case.name,
        "flops_used": prediction.cost.flops,
        "effective_compute": scored.effective_compute,
        **scored.own_figures,
        **asdict(scored.flags),
        **timing_json(prediction.timing),
        "final_layer_mse": scored.final_layer_mse,
        "all_layers_mse": scored.all_layers_mse,
        "per_layer_mse": scored.per_layer_mse,
        "truth_floor_mse": scored.truth_floor_mse,
        "sampling_mse_at_budget": scored.sampling_mse_at_budget,
        "sampling_mse_at_compute": scored.sampling_mse_at_compute,
        "breakdowns": {"estimator": estimator_breakdown([prediction.cost.charges], [prediction.timing])},
        "compile_time_s": prediction.compile_time_s,
        "output": prediction.output or None,
        "traceback": None,
    }
    if scored.flags.any:
        row["traceback"] = _explain_flags(case, scored, limits)
    if prediction.failure is not None:
        row |= _failure_json(prediction.failure)
    return cast(MlpRow, row)


def _explain_flags(case: WhiteboxCase, scored: CaseMeasures, limits: Limits) -> str:
    """Why a case without an exception counts as failed."""
    prediction, timing = case.prediction, case.prediction.timing
    was = "it was not run" if prediction.refused else "its answer doesn't count"
    reasons = {
        "budget_exhausted": f"it costs {prediction.cost.flops:.6g} FLOPs, the budget is {limits.budget:.6g}"
        if prediction.cost.flops > limits.budget
        else f"it was stopped at {prediction.cost.flops:.6g} FLOPs: its next operation goes over {limits.budget:.6g}",
        "time_exhausted": f"it took {timing.wall_time_s:.4g} s, the limit is {limits.wall_time_limit_s} s",
        "residual_wall_time_exhausted": f"{timing.residual_wall_time_s:.4g} s of residual time are over the limit of "
        f"{limits.residual_wall_time_limit_s} s",
        "combined_budget_exhausted": f"effective compute {scored.effective_compute:.6g} (FLOPs and residual time at "
        f"{limits.lam:.3g} FLOPs per second) is over the budget of {limits.budget:.6g}",
    }
    found = [reasons[name] for name, is_set in asdict(scored.flags).items() if is_set]
    return f"{'; '.join(found)}: {was}"


def _failure_json(failure: Failure) -> Json:
    details = asdict(failure.shape) if failure.shape is not None else {}
    return {
        "error": {"message": failure.message, "details": details},
        "error_code": failure.code,
        "traceback": failure.traceback or failure.message,
    }


def _sampling_breakdown(cases: Sequence[WhiteboxCase], flops_per_sample: float) -> SamplingBreakdownJson:
    """The cost of the truth: FLOPs for all of it, seconds only for the part that was drawn in this run."""
    drawn = [case.sampling_time_s for case in cases if case.sampling_time_s is not None]
    n_samples = sum(case.truth.n_samples for case in cases)
    spent: SpentJson = {
        "flops_used": round(n_samples * flops_per_sample),
        "calls": len(cases),
        **(timing_json(Timing(backend_time_s=sum(drawn))) if drawn else NO_TIMES),
    }
    return {**spent, "n_samples": n_samples, "n_mlps_drawn": len(drawn), "by_namespace": {"sampling.forward": spent}}
