"""`report.json` as data: what its rows, metrics and hashes are, for all who write or read one."""

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

Json = dict[str, Any]


REPORT, REPORT_SHA256 = "report.json", "report_sha256"
PAGE = "report.html"
CONFIG = "config.yaml"

SORTED_BY = ("flop_budget", "lambda_flops_per_second", "width", "depth", "n_mlps")
"""Figures of the config that are metrics too, since MLflow can't compare params by size."""


def report_metrics(report: Json) -> dict[str, float]:
    """The metrics a report is logged with: every number of its suite, and those of its config that people sort by."""
    results, rows = report["results"], case_rows(report["results"])
    suite = {name: value for name, value in results.items() if _is_number(value) and name != "peak_memory_bytes"}
    failures = {f"failures/{name}": n for name, n in results.get("failure_breakdown", {}).items()}
    config = {name: report["run_config"][name] for name in SORTED_BY if name in report["run_config"]}
    spent = {"run_duration_s": report["run_meta"]["run_duration_s"]}
    if rows and "flops_used" in rows[0]:
        spent["wall_time_s"] = sum(row["wall_time_s"] for row in rows)
        spent["mean_flops_used"] = sum(row["flops_used"] for row in rows) / len(rows)
    return {name: float(value) for name, value in (suite | failures | config | spent).items()}


def task_name(report: Json) -> str:
    protocol = report.get("run_meta", {}).get("protocol", {})
    return str(protocol.get("task", {}).get("name", "whitebox"))


def case_rows(results: Json) -> list[Json]:
    """A report's rows, one a case: white-box reports call them by the reference's own name."""
    rows: list[Json] = results.get("per_mlp", results.get("per_case")) or []
    return rows


def case_key(row: Json) -> tuple[int, str]:
    """A case's place and name, by which runs are paired."""
    index, name = ("mlp_index", "mlp_name") if "mlp_name" in row else ("case_index", "case_name")
    return row[index], row[name]


def has_failed(row: Json) -> bool:
    """Whether a case was scored as failed: it has an error code, or one of its `…_exhausted` flags is true."""
    flags = (value for key, value in row.items() if key.endswith("_exhausted"))
    return row.get("error_code") is not None or any(value is True for value in flags)


def case_score(results: Json) -> Json:
    """The figure of a row that shows its part in the score: its field, its label, what a case is, which way is better.

    Reports of old tell less of it.
    """
    told = results.get("case_score", {"field": "adjusted_final_layer_score", "label": "adjusted final-layer score"})
    direction = "higher" if told["field"] == "accuracy" else "lower"
    return {"unit": "MLP", "direction": direction, **told}


def front_of(results: Json) -> Json:
    """The run as a point of error against compute: measure, error, error_se, compute."""
    known = {
        "measure": "final-layer MSE",
        "error": results.get("final_layer_mse"),
        "error_se": results.get("final_layer_mse_se"),
        "compute": results.get("mean_effective_compute"),
    }
    return results.get("front", known)


def n_failed(results: Json) -> int:
    """How many cases failed."""
    return int(results.get("n_failed_mlps", results.get("n_failed_cases")) or 0)


def protocol_hash(protocol: Mapping[str, Any]) -> str:
    """Equal where two runs' scores are comparable."""
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()[:16]


def milliseconds(moment: datetime) -> int:
    """A date in MLflow's terms."""
    return int(moment.timestamp() * 1000)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def strict_json(value: Any) -> Any:
    """The same document in strict JSON's terms: what isn't finite becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    return value


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
