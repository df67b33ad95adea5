"""The results of a WhestBench report under whest's names. Missing figures are computed from the rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from whest.document import Json
from whest.report import estimator_breakdown, timing_json
from whest.scoring.score import mean_or_none, standard_error
from whest.scoring.whest import WhestScore
from whest.whestbench.checks import failure_counts, row_compute, row_multiplier, row_score, same, suite_figures
from whest.whestbench.reports import PeerReport, PeerRow, charges_of

ROUNDED = 1e-6
"""A stated score this close to the rows' score differs only by float32 rounding."""


def translate_results(report: PeerReport) -> Json:
    """The stated figures of the suite. Missing ones are computed from the rows."""
    rows = [_row(report, row) for row in report.rows]
    scores = [row["adjusted_final_layer_score"] for row in rows]
    complete = None not in scores
    made = {**suite_figures(report), "n_failed_mlps": sum(row.failed for row in report.rows)}
    figures: Mapping[str, Any] = {name: report.suite.get(name, value) for name, value in made.items()}
    score = _score(report, scores)
    breakdowns = [charges_of(row.breakdown) for row in report.rows]
    return {
        **figures,
        "score": score,
        "score_se": standard_error(scores) if complete else None,
        "direction": "lower",
        "adjusted_final_layer_score": score,
        "adjusted_final_layer_score_se": standard_error(scores) if complete else None,
        "final_layer_mse_se": standard_error([row["final_layer_mse"] for row in rows]) if complete else None,
        "final_layer_mse_corrected": None,
        "truth_floor_mse": None,
        "per_layer_mse": report.suite.get("per_layer_mse") or [],
        "failure_breakdown": failure_counts(report.rows) | dict(report.suite.get("failure_breakdown") or {}),
        "case_score": asdict(WhestScore.by_case),
        "compile_time_s": 0.0,
        "peak_memory_bytes": None,
        "breakdowns": {
            "sampling": None,
            "estimator": estimator_breakdown(breakdowns, [row.timing for row in report.rows]),
        },
        "per_mlp": rows,
    }


def _score(report: PeerReport, scores: Sequence[float | None]) -> float | None:
    """The stated score, unless it is missing or equal to the rows' score up to rounding: then the rows' score."""
    made = mean_or_none(scores)
    stated = report.suite.get("adjusted_final_layer_score" if report.is_discounted else "final_layer_mse")
    if not isinstance(stated, int | float) or (made is not None and same(float(stated), made, ROUNDED)):
        return made
    return float(stated) if math.isfinite(stated) else None


def _row(report: PeerReport, row: PeerRow) -> Json:
    failure = {"error": _error(row), "error_code": row.error_code or "PREDICT_ERROR"} if row.has_error else {}
    stated_compute, stated_score = row.effective_compute, row.adjusted_final_layer_score
    return {
        "mlp_index": row.mlp_index,
        "mlp_name": row.mlp_name or f"mlp-{row.mlp_index}",
        "flops_used": row.flops_used,
        "effective_compute": row_compute(report, row) if stated_compute is None else stated_compute,
        "score_multiplier": row_multiplier(report, row),
        "adjusted_final_layer_score": row_score(report, row) if stated_score is None else stated_score,
        **asdict(row.flags),
        **timing_json(row.timing),
        "wall_time_s": row.wall_time_s,
        "final_layer_mse": row.final_layer_mse,
        "all_layers_mse": row.all_layers_mse,
        "per_layer_mse": row.per_layer_mse,
        "truth_floor_mse": None,
        "sampling_mse_at_budget": None,
        "sampling_mse_at_compute": None,
        "breakdowns": {"estimator": estimator_breakdown([charges_of(row.breakdown)], [row.timing])},
        "compile_time_s": 0.0,
        "output": None,
        "traceback": row.traceback,
        **failure,
    }


def _error(row: PeerRow) -> Json:
    """The error as an object. In old reports it is only a sentence."""
    return row.error if isinstance(row.error, dict) else {"message": row.error or "", "details": {}}
