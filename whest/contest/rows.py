"""What a report's rows must give again: flags by the contest's limits, and the figures of the whole.

A run with an error has no score, so a report that is published has none in its rows.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from whest.cases.exam import EARNED
from whest.cases.prediction import Flags
from whest.contest.keys import Document
from whest.scoring import ari, fherma, prism
from whest.scoring.score import mean_or_none, standard_error
from whest.scoring.whitebox import row_failed

Row = Mapping[str, Any]
FLAGS = tuple(field.name for field in fields(Flags))
MEANS = ("final_layer_mse", "all_layers_mse", "truth_floor_mse", "sampling_mse_at_budget", "sampling_mse_at_compute")


def wrong_figure(report: Mapping[str, Any], limits: Document) -> str | None:
    """The first figure that does not follow from the report's rows and the contest's limits, in words."""
    found = {"whitebox": _whitebox, "prequential": _prequential, "exam": _exam}[report["run_config"]["task"]]
    for name, due, told in found(report, limits):
        if not is_same(due, told):
            return f"its {name} is {str(told)[:100]}, its rows give {str(due)[:100]}"
    return None


def is_same(due: Any, told: Any) -> bool:
    """Equal, up to rounding in a sum."""
    if isinstance(due, bool) or isinstance(told, bool) or due is None or told is None:
        return due is told
    if isinstance(due, int | float) and isinstance(told, int | float):
        return math.isclose(due, told, rel_tol=1e-9, abs_tol=1e-300)
    return bool(due == told)


def _whitebox(report: Mapping[str, Any], limits: Document) -> Iterator[tuple[str, Any, Any]]:
    config, results = report["run_config"], report["results"]
    rows, rule = results["per_mlp"], config["scoring"]
    for place, row in enumerate(rows):
        for name, due in _case(row, limits, rule).items():
            yield f"{name} of MLP {place}", due, row.get(name)
    for name in MEANS:
        yield name, mean_or_none([row[name] for row in rows]), results[name]
    yield "final_layer_mse_se", standard_error([row["final_layer_mse"] for row in rows]), results["final_layer_mse_se"]
    computes = mean_or_none([row["effective_compute"] for row in rows])
    yield "mean_effective_compute", computes, results["mean_effective_compute"]
    yield "n_failed_mlps", sum(map(row_failed, rows)), results["n_failed_mlps"]
    counts = {name: sum(row[name] for row in rows) for name in FLAGS}
    yield "failure_breakdown", {**counts, "error": 0}, dict(results["failure_breakdown"])
    yield "score_se", _score_se(rows, config, results), results["score_se"]


def _case(row: Row, limits: Document, rule: Mapping[str, Any]) -> Document:
    """One MLP again: its flags, and what the rule makes of its error."""
    budget, wall = limits["budget"], limits["wall_time_limit_s"]
    compute = row["flops_used"] + limits["lam"] * row["residual_wall_time_s"]
    # over the budget before it ran: it took no time, and has no other flag
    is_refused = row["flops_used"] > budget and row["wall_time_s"] == 0
    parts = sum(row[name] for name in ("backend_time_s", "overhead_time_s", "residual_wall_time_s"))
    flags = {
        "budget_exhausted": row["flops_used"] > budget,
        "time_exhausted": wall is not None and row["wall_time_s"] > wall,
        "residual_wall_time_exhausted": False,
        "combined_budget_exhausted": compute > budget and not is_refused,
    }
    due = {**flags, "error_code": None, "error": None, "effective_compute": compute, "wall_time_s": parts}
    due |= {"final_layer_mse": row["per_layer_mse"][-1], "all_layers_mse": mean_or_none(row["per_layer_mse"])}
    failed = any(flags.values())
    if rule["name"] == "whest":
        multiplier = 1.0 if failed else max(rule["multiplier_floor"], compute / budget)
        due |= {"score_multiplier": multiplier, "adjusted_final_layer_score": multiplier * row["final_layer_mse"]}
    if rule["name"] == "fherma":
        due |= {"attempted": not is_refused, **({"accuracy": None} if failed else {})}
    return due


def _score_se(rows: Sequence[Row], config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    if config["scoring"]["name"] == "fherma":
        return fherma.recompute_se(config, results)
    return standard_error([row["adjusted_final_layer_score"] for row in rows])


def _prequential(report: Mapping[str, Any], limits: Document) -> Iterator[tuple[str, Any, Any]]:
    config, results = report["run_config"], report["results"]
    again = prism.rescored(config, results)
    for name in ("score", "score_se", "bpb", "base", "tie_break", "penalty", "gap", "heldout_delta", "failure"):
        yield name, getattr(again, name), results[name]
    for name in ("covered_bytes", "n_batches", "n_charged_batches", "step0_anomaly", "memorised"):
        yield name, getattr(again, name), results[name]
    yield "failure", None, results["failure"]
    yield "failure_breakdown", {"error": 0}, dict(results["failure_breakdown"])
    yield "flops_used", sum(row["flops_used"] for row in results["per_case"]), results["flops_used"]
    yield "budget kept", True, results["flops_used"] <= limits["budget"]


def _exam(report: Mapping[str, Any], limits: Document) -> Iterator[tuple[str, Any, Any]]:
    config, results = report["run_config"], report["results"]
    rows = results["per_case"]
    errors = [row["error_code"] for row in rows if "error_code" in row]
    yield "error_code", [], [code for code in errors if code not in EARNED]
    yield "invalid", None, results["invalid"]
    yield "n_failed_cases", len(errors), results["n_failed_cases"]
    yield "n_right", sum(row["right"] == 100 for row in rows), results["n_right"]
    yield "values of right", True, all(row["right"] in (0, 100) for row in rows)
    yield "number of rows", config["n_questions"], len(rows)
    recompute_se = fherma.recompute_se if config["scoring"]["name"] == "fherma" else ari.recompute_se
    yield "score_se", recompute_se(config, results), results["score_se"]
    if config["wall_clock"] is None:
        yield "budget kept", True, results["training_flops"] <= limits["budget"]
