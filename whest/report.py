"""The report: everything a run found, as one value that serialises to `report.json`."""

import json
import math
import resource
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from whest.cache import write_atomically
from whest.case import Failure, Limits, WhiteboxCase
from whest.host import describe_host
from whest.meter import Charge, Timing
from whest.scoring.whitebox import CaseMeasures, WhiteboxScore

SCHEMA_VERSION = "2.0"
Json = dict[str, Any]
NO_TIMES = dict.fromkeys(("wall_time_s", "backend_time_s", "overhead_time_s", "residual_wall_time_s"))


@dataclass(frozen=True)
class RunMeta:
    """When, where and by which code."""

    run_started_at_utc: datetime
    run_finished_at_utc: datetime
    run_duration_s: float
    status: str
    """finished, or interrupted: then the report holds the MLPs that were done."""
    whest_version: str
    code_version: str | None
    command: str
    protocol_hash: str
    protocol: Json


@dataclass(frozen=True)
class Report:
    """One run's findings."""

    mode: str
    meta: RunMeta
    config: Json
    limits: Limits
    cases: tuple[WhiteboxCase, ...]
    score: WhiteboxScore
    flops_per_sample: float

    @property
    def has_errors(self) -> bool:
        """Whether an estimator raised or returned something invalid."""
        return any(case.prediction.failure is not None for case in self.cases)

    def to_json(self) -> Json:
        meta = asdict(self.meta)
        for stamp in ("run_started_at_utc", "run_finished_at_utc"):
            meta[stamp] = meta[stamp].isoformat()
        document = {
            "schema_version": SCHEMA_VERSION,
            "mode": self.mode,
            "run_meta": {**meta, "host": describe_host()},
            "run_config": self.config,
            "results": self._results(),
        }
        finite: Json = _finite(document)
        return finite

    def _results(self) -> Json:
        suite = {name: value for name, value in _fields(self.score).items() if name != "cases"}
        timings = [case.prediction.timing for case in self.cases]
        return {
            **suite,
            "case_score": dict(zip(("field", "label"), self.score.by_case, strict=True)),
            "compile_time_s": sum(case.prediction.compile_time_s for case in self.cases),
            "peak_memory_bytes": peak_memory_bytes(),
            "breakdowns": {
                "sampling": _sampling_breakdown(self.cases, self.flops_per_sample),
                "estimator": estimator_breakdown([case.prediction.cost.charges for case in self.cases], timings),
            },
            "per_mlp": [
                _case_json(case, scored, self.limits) for case, scored in zip(self.cases, self.score.cases, strict=True)
            ],
        }


def save_report(report: Report, folder: Path) -> Path:
    """Write report.json, whole or not at all."""
    path = folder / "report.json"
    write_atomically(path, json.dumps(report.to_json(), indent=2, allow_nan=False).encode())
    return path


def _case_json(case: WhiteboxCase, scored: CaseMeasures, limits: Limits) -> Json:
    prediction = case.prediction
    row = {
        "mlp_index": case.index,
        "mlp_name": case.name,
        "flops_used": prediction.cost.flops,
        "effective_compute": scored.effective_compute,
        **scored.own_figures,
        **asdict(scored.flags),
        **_timing_json(prediction.timing),
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
    return row


def _explain_flags(case: WhiteboxCase, scored: CaseMeasures, limits: Limits) -> str:
    """Why a case that raised nothing was zeroed all the same."""
    prediction, timing = case.prediction, case.prediction.timing
    was = "it was not run" if prediction.refused else "its answer doesn't count"
    reasons = {
        "budget_exhausted": f"it costs {prediction.cost.flops:.6g} FLOPs, the budget is {limits.budget:.6g}",
        "time_exhausted": f"it took {timing.wall_time_s:.4g} s, the limit is {limits.wall_time_limit_s} s",
        "residual_wall_time_exhausted": f"{timing.residual_wall_time_s:.4g} s of residual time are over the cap of "
        f"{limits.residual_wall_time_limit_s} s",
        "combined_budget_exhausted": f"effective compute {scored.effective_compute:.6g} (FLOPs and residual time at "
        f"{limits.lam:.3g} FLOPs a second) is over the budget of {limits.budget:.6g}",
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


def _timing_json(timing: Timing) -> Json:
    return {"wall_time_s": timing.wall_time_s, **asdict(timing)}


def estimator_breakdown(charges: Sequence[Sequence[Charge]], timings: Sequence[Timing]) -> Json:
    """Where FLOPs and time went, by namespace and operation. A traced program is one whole: its parts have no times."""
    rows: dict[str, dict[str, list[Charge]]] = defaultdict(lambda: defaultdict(list))
    for charge in (charge for case in charges for charge in case):
        rows[f"estimator.{charge.namespace or 'estimator-client'}"][charge.operation].append(charge)
    namespaces = {
        namespace: {
            **_spent([charge for operation in operations.values() for charge in operation]),
            "operations": {name: _spent(operation) for name, operation in operations.items()},
        }
        for namespace, operations in rows.items()
    }
    flops = sum(charge.flops for case in charges for charge in case)
    return {"flops_used": flops, **_timing_json(_sum_timings(timings)), "by_namespace": namespaces}


def _spent(charges: Sequence[Charge]) -> Json:
    timings = [charge.timing for charge in charges if charge.timing is not None]
    return {
        "flops_used": sum(charge.flops for charge in charges),
        "calls": sum(charge.calls for charge in charges),
        **(_timing_json(_sum_timings(timings)) if timings else NO_TIMES),
    }


def _sum_timings(timings: Sequence[Timing]) -> Timing:
    return Timing(
        sum(timing.backend_time_s for timing in timings),
        sum(timing.overhead_time_s for timing in timings),
        sum(timing.residual_wall_time_s for timing in timings),
    )


def _sampling_breakdown(cases: Sequence[WhiteboxCase], flops_per_sample: float) -> Json:
    """What the truth cost: FLOPs always, seconds only for what was drawn in this run."""
    drawn = [case.sampling_time_s for case in cases if case.sampling_time_s is not None]
    n_samples = sum(case.truth.n_samples for case in cases)
    timing = _timing_json(Timing(backend_time_s=sum(drawn))) if drawn else NO_TIMES
    spent = {"flops_used": round(n_samples * flops_per_sample), "calls": len(cases), **timing}
    return {**spent, "n_samples": n_samples, "n_mlps_drawn": len(drawn), "by_namespace": {"sampling.forward": spent}}


def peak_memory_bytes() -> int:
    """The most memory this process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _fields(value: Any) -> Json:
    """A dataclass's own fields, nested ones as plain data."""
    return {
        name: asdict(field) if hasattr(field, "__dataclass_fields__") else field for name, field in vars(value).items()
    }


def _finite(value: Any) -> Any:
    """The same document in strict JSON's terms: what isn't finite becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
