"""The report: everything a run found, as one value that serialises to `report.json`.

What every task's report has is here; what its cases and figures look like, each task says in a type of its own.
"""

import json
import resource
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from whest.cost import Charge, Timing
from whest.document import REPORT, Json, strict_json
from whest.files import write_atomically
from whest.host import describe_host
from whest.limits import Limits
from whest.scoring.score import Score

if TYPE_CHECKING:
    from pandas import DataFrame

    from whest.page.drawing import Draw
    from whest.page.run import PageParts

SCHEMA_VERSION = "2.0"
Row = tuple[str, str, str]
"""A figure's name, its value, a remark."""

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


CaseT = TypeVar("CaseT")
"""What the task yields."""
ScoreT = TypeVar("ScoreT", bound=Score)
"""What its rule answers."""
ReportT = TypeVar("ReportT", bound="Report[Any, Any]", contravariant=True)


class ReportView(Protocol[ReportT]):
    """What a report asks of its view. `whest.display.view.View` is the base class of every task's."""

    files: ClassVar[tuple[str, ...]]
    """What `save_files` leaves beside the report, for MLflow to keep."""

    def title(self, report: ReportT) -> str:
        """One line in rich's markup: the estimator, its data and its budget."""
        ...

    def rows(self, report: ReportT) -> list[Row]:
        """The figures behind the score."""
        ...

    def complaints(self, report: ReportT) -> list[str]:
        """What went wrong, in rich's markup; empty for a clean run."""
        ...

    def next_step(self, report: ReportT) -> str | None:
        """A command worth trying now."""
        ...

    def case_table(self, report: ReportT) -> tuple[Sequence[str], list[Sequence[str]]]:
        """For the console: columns and rows."""
        ...

    def case_figures(self, report: ReportT) -> list[Json]:
        """For MLflow: one row per case, all with the same keys."""
        ...

    def save_files(self, report: ReportT, folder: Path) -> None:
        """Write what the report itself has no room for."""
        ...

    def drawings(self, report: ReportT) -> "dict[str, tuple[str, Draw]]":
        """By file name: a title, and what draws it. Empty where nothing was finished."""
        ...

    def page(self, document: Json, report: ReportT | None) -> "PageParts":
        """From the document; from the report itself, where there still is one, what the document leaves out."""
        ...

    def text(self, report: ReportT) -> str:
        """What the console prints."""
        ...

    def html(self, report: ReportT) -> str:
        """For a notebook."""
        ...

    def table(self, report: ReportT) -> "DataFrame":
        """One row per case, figures as numbers."""
        ...

    def pictures(self, report: ReportT) -> Mapping[str, Any]:
        """The run's pictures by name."""
        ...


@dataclass(frozen=True)
class Report(ABC, Generic[CaseT, ScoreT]):
    """One run's findings."""

    mode: str
    meta: RunMeta
    config: Json
    limits: Limits
    cases: tuple[CaseT, ...]
    score: ScoreT
    view: "ReportView[Any]"
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
        """Tags of the task's own for the MLflow run."""
        return {}

    @cached_property
    def document(self) -> Json:
        """The run as `report.json` has it. Built once: what is saved, shown and tracked is the same."""
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

    def to_json(self) -> Json:
        """The report's document; the same object each time, so copy it before you change it."""
        return self.document

    def table(self) -> "DataFrame":
        """One row per case, its figures as numbers."""
        return self.view.table(self)

    def figures(self) -> Mapping[str, Any]:
        """The run's pictures by name."""
        return self.view.pictures(self)

    def __str__(self) -> str:
        return self.view.text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return self.view.html(self)


AnyReport = Report[Any, Any]
"""A report of whichever task."""


def save_report(report: AnyReport, folder: Path) -> Path:
    """Write report.json, whole or not at all."""
    path = folder / REPORT
    write_atomically(path, json.dumps(report.document, indent=2, allow_nan=False).encode())
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


def total_xla(figures: Sequence[float | None]) -> float | None:
    """XLA's count of all cases; None if one has none, as with another meter."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known and len(known) == len(figures) else None


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
