"""Errors inside a WhestBench report: each figure that follows from others is computed again and compared."""

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, TypeGuard

from whest.whestbench.reports import PeerReport, PeerRow, charges_of

ROUNDING = 1e-5
"""A relative tolerance: WhestBench averages MSEs in float32."""
SECONDS = 1e-6
FLAGS = ("budget_exhausted", "time_exhausted", "residual_wall_time_exhausted", "combined_budget_exhausted")


def find_problems(report: PeerReport) -> list[str]:
    """The errors in words, each with the stated and the computed figure; empty for a consistent report."""
    found = [problem for row in report.rows for problem in _row_problems(report, row)]
    return [*_count_problems(report), *found, *_suite_problems(report)]


def row_compute(report: PeerReport, row: PeerRow) -> float:
    """C = F + λ·R."""
    return row.flops_used + report.limits.lam * row.residual_wall_time_s


def row_multiplier(report: PeerReport, row: PeerRow) -> float:
    return 1.0 if row.failed else max(report.floor, row_compute(report, row) / report.limits.budget)


def row_score(report: PeerReport, row: PeerRow) -> float | None:
    return None if row.final_layer_mse is None else row.final_layer_mse * row_multiplier(report, row)


def same(stated: float, made: float, relative: float = ROUNDING) -> bool:
    return stated == made or math.isclose(stated, made, rel_tol=relative, abs_tol=1e-30)


def _count_problems(report: PeerReport) -> Iterator[str]:
    if report.config.n_mlps != len(report.rows):
        yield f"run_config.n_mlps is {report.config.n_mlps}, there are {len(report.rows)} rows in per_mlp"
    indices = [row.mlp_index for row in report.rows]
    if len(set(indices)) != len(indices):
        yield f"per_mlp has the same mlp_index twice: {sorted(i for i in set(indices) if indices.count(i) > 1)}"


def _row_problems(report: PeerReport, row: PeerRow) -> Iterator[str]:
    for name, stated, made in _row_figures(report, row):
        if stated is not None and made is not None and not same(stated, made):
            yield _differs(f"{row.label}: {name}", stated, "but the other figures give", made)
    if row.per_layer_mse is not None and len(row.per_layer_mse) != report.config.depth:
        yield f"{row.label}: per_layer_mse has {len(row.per_layer_mse)} layers, the depth is {report.config.depth}"
    if row.flopscope_overhead_time_s is not None and abs(row.wall_time_s - row.timing.wall_time_s) > SECONDS:
        yield _differs(f"{row.label}: wall_time_s", row.wall_time_s, "but its parts add up to", row.timing.wall_time_s)
    yield from _flag_problems(report, row)


def _row_figures(report: PeerReport, row: PeerRow) -> list[tuple[str, float | None, float | None]]:
    """For each figure: name, stated value, computed value. A row with an error states that nothing was spent."""
    layers = row.per_layer_mse
    figures = [
        ("final_layer_mse", row.final_layer_mse, layers[-1] if layers else None),
        ("all_layers_mse", row.all_layers_mse, fmean(layers) if layers else None),
        ("adjusted_final_layer_score", row.adjusted_final_layer_score, row_score(report, row)),
        ("effective_compute", row.effective_compute, row_compute(report, row)),
    ]
    if row.breakdown is not None:
        spent = float(sum(charge.flops for charge in charges_of(row.breakdown)))
        figures.append(("flops_used", float(row.flops_used), spent if _is_attributed(report, row) else None))
    return figures


def _is_attributed(report: PeerReport, row: PeerRow) -> bool:
    """False if the first operation was over the budget: then WhestBench states B, though nothing was spent."""
    return not (row.budget_exhausted and row.flops_used == report.limits.budget)


def _flag_problems(report: PeerReport, row: PeerRow) -> Iterator[str]:
    """WhestBench checks its limits in the order of FLAGS and sets only the first flag; an error sets none."""
    set_flags = [name for name in FLAGS if getattr(row, name)]
    if len(set_flags) > 1:
        yield f"{row.label}: {' and '.join(set_flags)} are both set, but only one can end an MLP"
    if row.has_error and set_flags:
        yield f"{row.label}: {set_flags[0]} is set beside the error {row.error_code}"
    if row.has_error or len(set_flags) > 1:
        return
    passed = _passed(report, row)
    due = next((name for name in FLAGS if name in passed), None)
    stated = set_flags[0] if set_flags else None
    if stated != due and stated != "budget_exhausted":  # flopscope stops before the FLOPs are over the budget
        words = passed[due] if due is not None else "no limit is exceeded"
        yield f"{row.label}: {stated or 'no flag'} is set, but {words}"


def _passed(report: PeerReport, row: PeerRow) -> dict[str, str]:
    """The limits that the row's figures exceed, by flag, in words."""
    limits, compute = report.limits, row_compute(report, row)
    found = {}
    if row.flops_used > limits.budget:
        found["budget_exhausted"] = f"{row.flops_used} FLOPs are over the budget of {limits.budget:g}"
    if limits.wall_time_limit_s is not None and row.wall_time_s > limits.wall_time_limit_s:
        found["time_exhausted"] = f"{row.wall_time_s:g} s are over the wall limit of {limits.wall_time_limit_s:g} s"
    cap = limits.residual_wall_time_limit_s
    if cap is not None and row.residual_wall_time_s > cap:
        found["residual_wall_time_exhausted"] = f"{row.residual_wall_time_s:g} s of residual time are over {cap:g} s"
    if report.is_discounted and compute > limits.budget:
        found["combined_budget_exhausted"] = f"C = {compute:g} is over the budget of {limits.budget:g}"
    return found


def _suite_problems(report: PeerReport) -> Iterator[str]:
    for name, made in suite_figures(report).items():
        stated = report.suite.get(name)
        if _is_number(stated) and made is not None and not same(stated, made):
            yield _differs(f"results.{name}", stated, "but the rows give", made)
    layers = _mean_layers(report.rows)
    stated_layers = report.suite.get("per_layer_mse")
    if isinstance(stated_layers, list) and layers is not None:
        fits = len(stated_layers) == len(layers) and all(map(_is_number, stated_layers))
        if not fits or not all(same(a, b) for a, b in zip(stated_layers, layers, strict=True)):
            yield "results.per_layer_mse is not the mean over the MLPs"
    counts = report.suite.get("failure_breakdown")
    for name, count in failure_counts(report.rows).items():
        stated = counts.get(name, count) if isinstance(counts, dict) else count
        if stated != count:
            yield f"results.failure_breakdown.{name} is {stated}, but the rows give {count}"


def suite_figures(report: PeerReport) -> dict[str, float | None]:
    """The figures of the whole suite, computed from the rows; None if a row lacks the figure."""
    rows, budget = report.rows, report.limits.budget
    scores = [row.adjusted_final_layer_score for row in rows]
    computes = [row_compute(report, row) if row.effective_compute is None else row.effective_compute for row in rows]
    known = [score for score in scores if score is not None]
    return {
        "adjusted_final_layer_score": _mean(scores),
        "final_layer_mse": _mean([row.final_layer_mse for row in rows]),
        "all_layers_mse": _mean([row.all_layers_mse for row in rows]),
        "best_mlp_adjusted_final_layer_score": min(known) if len(known) == len(rows) else None,
        "worst_mlp_adjusted_final_layer_score": max(known) if len(known) == len(rows) else None,
        "mean_score_multiplier": _mean([row_multiplier(report, row) for row in rows]),
        "mean_compute_utilization": _mean([compute / budget for compute in computes]),
        "mean_effective_compute": _mean(computes),
        "n_failed_mlps": float(sum(row.failed for row in rows)),
    }


def failure_counts(rows: Sequence[PeerRow]) -> dict[str, int]:
    flags = {name: sum(bool(getattr(row, name)) for row in rows) for name in FLAGS}
    return {**flags, "error": sum(row.has_error for row in rows)}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return fmean(known) if known and len(known) == len(values) else None


def _mean_layers(rows: Sequence[PeerRow]) -> list[float] | None:
    layers = [row.per_layer_mse for row in rows]
    if any(layer is None for layer in layers) or len({len(layer or ()) for layer in layers}) != 1:
        return None
    return [fmean(column) for column in zip(*(layer for layer in layers if layer), strict=True)]


def _differs(name: str, stated: float, words: str, made: float) -> str:
    return f"{name} is {stated:.9g}, {words} {made:.9g}"


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
