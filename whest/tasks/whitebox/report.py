"""A white-box report: one row per MLP, with its errors, compute, flags, times and printed output."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import cast

from whest.cases.prediction import Failure
from whest.cases.whitebox import WhiteboxCase
from whest.cost import Charge, Timing
from whest.document import Json
from whest.limits import Limits
from whest.notation import count
from whest.report import NO_TIMES, Namespaces, Report, estimator_breakdown, timing_json, total_xla
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

    @property
    def never_ran(self) -> bool:
        return bool(self.cases) and all(_failed_in_setup(case) for case in self.cases)

    @property
    def all_failed(self) -> bool:
        return bool(self.cases) and self.score.n_failed_mlps == len(self.cases)

    @property
    def problem(self) -> str | None:
        failure = next((case.prediction.failure for case in self.cases if case.prediction.failure is not None), None)
        if not self.never_ran or failure is None:
            whole = f" on all {count(len(self.cases), 'MLP')}" if self.all_failed else ""
            return f"the estimator failed{whole}: see the report" if self.has_errors else None
        return "\n".join(["the estimator could not be set up, so no MLP was run", *failure.lines])

    def results(self) -> WhiteboxFindings:
        timings = [case.prediction.timing for case in self.cases]
        known: dict[tuple[Charge, ...], Namespaces] = {}
        return {
            "flops_xla": total_xla([case.prediction.cost.flops_xla for case in self.cases]),
            "xla_unknown": sorted({name for case in self.cases for name in case.prediction.cost.xla_unknown}),
            "compile_time_s": sum(case.prediction.compile_time_s for case in self.cases),
            "breakdowns": {
                "sampling": _sampling_breakdown(self.cases, self.flops_per_sample),
                "estimator": estimator_breakdown([case.prediction.cost.charges for case in self.cases], timings),
            },
            "per_mlp": [
                _case_json(case, scored, self.limits, known)
                for case, scored in zip(self.cases, self.score.cases, strict=True)
            ],
        }


def _failed_in_setup(case: WhiteboxCase) -> bool:
    return case.prediction.failure is not None and case.prediction.failure.code == "SETUP_ERROR"


def _case_json(
    case: WhiteboxCase,
    scored: CaseMeasures,
    limits: Limits,
    known: dict[tuple[Charge, ...], Namespaces] | None = None,
) -> MlpRow:
    prediction = case.prediction
    row = {
        "mlp_index": case.index,
        "mlp_name": case.name,
        "flops_used": prediction.cost.flops,
        "flops_xla": prediction.cost.flops_xla,
        "xla_unknown": list(prediction.cost.xla_unknown),
        "effective_compute": scored.effective_compute,
        **scored.own_figures,
        **vars(scored.flags),
        **timing_json(prediction.timing),
        "final_layer_mse": scored.final_layer_mse,
        "all_layers_mse": scored.all_layers_mse,
        "per_layer_mse": scored.per_layer_mse,
        "truth_floor_mse": scored.truth_floor_mse,
        "sampling_mse_at_budget": scored.sampling_mse_at_budget,
        "sampling_mse_at_compute": scored.sampling_mse_at_compute,
        "breakdowns": {"estimator": estimator_breakdown([prediction.cost.charges], [prediction.timing], known)},
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
    was = "it has no answer" if prediction.means is None else "its answer doesn't count"
    was = "it was not run" if prediction.refused else was
    spent = "was stopped at" if prediction.means is None and not prediction.refused else "costs"
    flops, budget = prediction.cost.flops, limits.budget
    next_one = "" if flops > budget else ", and its next operation goes over it"
    reasons = {
        "budget_exhausted": f"it {spent} {flops:.6g} FLOPs, the budget is {budget:.6g}{next_one}",
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
        "error": {
            "message": failure.message,
            "details": details,
            "exception": failure.exception,
            "where": failure.where,
        },
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
