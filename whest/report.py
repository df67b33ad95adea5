"""The report: everything a run found, as one value that serialises to `report.json`.

What every task's report has is here; what its cases and figures look like, each task says in a type of its own.
"""

import json
import resource
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.cost import Charge, Timing
from whest.document import Json, strict_json
from whest.files import write_atomically
from whest.host import describe_host
from whest.limits import Limits
from whest.scoring.score import Score

if TYPE_CHECKING:
    from pandas import DataFrame

    from whest.display.view import Pictures, View

SCHEMA_VERSION = "2.0"

NO_TIMES = dict.fromkeys(("wall_time_s", "backend_time_s", "overhead_time_s", "residual_wall_time_s"))


@dataclass(frozen=True)
class RunMeta:
    """When, where and by which code."""

    run_started_at_utc: datetime
    run_finished_at_utc: datetime
    run_duration_s: float
    status: str
    """finished, or interrupted: then the report holds the cases that were done."""
    whest_version: str
    code_version: str | None
    command: str
    protocol_hash: str
    protocol: Json


@dataclass(frozen=True)
class Report(ABC):
    """One run's findings."""

    mode: str
    meta: RunMeta
    config: Json
    limits: Limits
    cases: tuple[Any, ...]
    score: Score

    @property
    @abstractmethod
    def view(self) -> "View":
        """How it is shown."""

    @property
    @abstractmethod
    def has_errors(self) -> bool:
        """Whether the estimator raised or returned something invalid."""

    @abstractmethod
    def results(self) -> Json:
        """The task's figures beside the score's: rows as `per_mlp` or `per_case`, `failure_breakdown` with `error`."""

    def series(self) -> dict[str, Sequence[float]]:
        """Figures along an axis of the task's own, for MLflow's curves; the first is step 1."""
        return {}

    def tags(self) -> dict[str, str]:
        """What else MLflow pins to its run."""
        return {}

    def to_json(self) -> Json:
        meta = asdict(self.meta)
        for stamp in ("run_started_at_utc", "run_finished_at_utc"):
            meta[stamp] = meta[stamp].isoformat()
        figures = {name: value for name, value in _fields(self.score).items() if name != "cases"}
        shared = {"case_score": asdict(self.score.by_case), "front": asdict(self.score.front)}
        document = {
            "schema_version": SCHEMA_VERSION,
            "mode": self.mode,
            "run_meta": {**meta, "host": describe_host()},
            "run_config": self.config,
            "results": {**figures, **shared, "peak_memory_bytes": peak_memory_bytes(), **self.results()},
        }
        strict: Json = strict_json(document)
        return strict

    def table(self) -> "DataFrame":
        """A row a case, its figures as numbers."""
        from whest.display.view import case_table

        return case_table(self)

    def figures(self) -> "Pictures":
        """The run's pictures by name."""
        from whest.display.view import pictures

        return pictures(self)

    def __str__(self) -> str:
        from whest.display.view import report_text

        return report_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        from whest.display.view import report_html

        return report_html(self)


def save_report(report: Report, folder: Path) -> Path:
    """Write report.json, whole or not at all."""
    path = folder / "report.json"
    write_atomically(path, json.dumps(report.to_json(), indent=2, allow_nan=False).encode())
    return path


def timing_json(timing: Timing) -> Json:
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
    return {"flops_used": flops, **timing_json(_sum_timings(timings)), "by_namespace": namespaces}


def _spent(charges: Sequence[Charge]) -> Json:
    timings = [charge.timing for charge in charges if charge.timing is not None]
    return {
        "flops_used": sum(charge.flops for charge in charges),
        "calls": sum(charge.calls for charge in charges),
        **(timing_json(_sum_timings(timings)) if timings else NO_TIMES),
    }


def _sum_timings(timings: Sequence[Timing]) -> Timing:
    return Timing(
        sum(timing.backend_time_s for timing in timings),
        sum(timing.overhead_time_s for timing in timings),
        sum(timing.residual_wall_time_s for timing in timings),
    )


def peak_memory_bytes() -> int:
    """The most memory this process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _fields(value: Any) -> Json:
    """A dataclass's own fields, nested ones as plain data."""
    return {
        name: asdict(field) if hasattr(field, "__dataclass_fields__") else field for name, field in vars(value).items()
    }
