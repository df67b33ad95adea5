"""The report: the whole result of a run, as one value that is written to `report.json`.

The common parts are here. Each task has its own report type for its cases and figures.
"""

import resource
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

from whest.cost import Charge, Timing
from whest.document import REPORT, Document, Json, json_text, strict_json, with_peer_names
from whest.files import write_atomically
from whest.host import describe_host
from whest.limits import Limits
from whest.schema import EstimatorBreakdownJson, NamespaceJson, PartTimesJson, SpentJson, TimesJson
from whest.scoring.score import Score

if TYPE_CHECKING:
    from pandas import DataFrame

    from whest.page.drawing import Draw
    from whest.page.run import PageParts

SCHEMA_VERSION = "2.0"
SEE_REPORT = "see the report"
"""Why an estimator failed, where the report is at hand."""
Row = tuple[str, str, str]
"""A figure's name, its value, a remark."""

NO_TIMES = PartTimesJson(wall_time_s=None, backend_time_s=None, overhead_time_s=None, residual_wall_time_s=None)


@dataclass(frozen=True)
class RunMeta:
    """When a run was made, by which code and command, and under which protocol."""

    run_started_at_utc: datetime
    run_finished_at_utc: datetime
    run_duration_s: float
    status: str
    """finished or interrupted. An interrupted run's report holds the finished cases."""
    whest_version: str
    code_version: str | None
    command: str
    protocol_hash: str
    protocol: Json


CaseT = TypeVar("CaseT")
"""The type of the task's cases."""
ScoreT = TypeVar("ScoreT", bound=Score)
"""The type of its rule's score."""
ReportT = TypeVar("ReportT", bound="Report[Any, Any]", contravariant=True)


class ReportView(Protocol[ReportT]):
    """The methods that a report uses of its view. `whest.display.view.View` is the base class of all views."""

    files: ClassVar[tuple[str, ...]]
    """The files that `save_files` writes beside the report. MLflow stores them."""

    def title(self, report: ReportT) -> str:
        """One line in rich's markup: the estimator, its data and its budget."""
        ...

    def rows(self, report: ReportT) -> list[Row]:
        """The figures that explain the score."""
        ...

    def complaints(self, report: ReportT) -> list[str]:
        """The run's problems in rich's markup; empty for a run without problems."""
        ...

    def next_step(self, report: ReportT, is_tracked: bool) -> str | None:
        """A useful next command. Boards have only runs that are tracked."""
        ...

    def case_table(self, report: ReportT) -> tuple[Sequence[str], list[Sequence[str]]]:
        """Columns and rows for the console."""
        ...

    def case_figures(self, document: Json) -> list[Json]:
        """One row per case for MLflow, all with the same keys."""
        ...

    def series(self, document: Json) -> dict[str, Sequence[float]]:
        """The task's curves for MLflow, by name. The first value has step 1."""
        ...

    def save_files(self, report: ReportT, folder: Path) -> None:
        """Write the data that is too large for report.json."""
        ...

    def drawings(self, report: ReportT) -> "dict[str, tuple[str, Draw]]":
        """For each file name, a title and the function that draws it. Empty if no case was finished."""
        ...

    def page(self, document: Json, report: ReportT | None) -> "PageParts":
        """The page of the document. A report, if given, adds the data that the document leaves out."""
        ...

    def text(self, report: ReportT) -> str:
        """The report as the console shows it."""
        ...

    def html(self, report: ReportT) -> str:
        """The report as a notebook shows it."""
        ...

    def table(self, report: ReportT) -> "DataFrame":
        """One row per case, figures as numbers."""
        ...

    def pictures(self, report: ReportT) -> Mapping[str, Any]:
        """The run's pictures by name."""
        ...


@dataclass(frozen=True)
class Report(ABC, Generic[CaseT, ScoreT]):
    """The result of one run."""

    mode: str
    meta: RunMeta
    config: Json
    limits: Limits
    cases: tuple[CaseT, ...]
    score: ScoreT
    view: "ReportView[Any]"

    @property
    @abstractmethod
    def has_errors(self) -> bool:
        """Whether the estimator raised or returned something invalid."""

    @property
    def never_ran(self) -> bool:
        """Whether the estimator could not be set up: the run has one error, and nothing to show in tables or charts."""
        return False

    @property
    def all_failed(self) -> bool:
        """Whether no case has an answer that counts. The rule's score says nothing about such an estimator."""
        return False

    @property
    def problem(self) -> str | None:
        """One message on why the run failed; None if it did not."""
        return f"the estimator failed: {SEE_REPORT}" if self.has_errors else None

    @abstractmethod
    def results(self) -> Mapping[str, Any]:
        """The task's own part of `results`: rows as `per_mlp` or `per_case`, and `failure_breakdown` with `error`."""

    @cached_property
    def document(self) -> Document:
        """The content of `report.json`. It is built once, so the file, the page and MLflow agree."""
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
        strict: Document = strict_json(document)
        return with_peer_names(strict) if self.config.get("report_names") == "whestbench" else strict

    def to_json(self) -> Json:
        """The content of `report.json`. It is the same object each time, so copy it before you change it."""
        return cast(Json, self.document)

    def table(self) -> "DataFrame":
        """One row per case, figures as numbers."""
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
"""A report of any task."""


def save_report(report: AnyReport, folder: Path) -> Path:
    """Write report.json, whole or not at all."""
    path = folder / REPORT
    write_atomically(path, json_text(report.document).encode())
    return path


def timing_json(timing: Timing) -> TimesJson:
    return {
        "wall_time_s": timing.wall_time_s,
        "backend_time_s": timing.backend_time_s,
        "overhead_time_s": timing.overhead_time_s,
        "residual_wall_time_s": timing.residual_wall_time_s,
    }


Namespaces = dict[str, NamespaceJson]


def estimator_breakdown(
    charges: Sequence[Sequence[Charge]],
    timings: Sequence[Timing],
    known: dict[tuple[Charge, ...], Namespaces] | None = None,
) -> EstimatorBreakdownJson:
    """FLOPs and time by namespace and operation. A traced program runs as a whole, so its parts have no times.

    `known` has the namespaces of other cases of the report: those that cost the same share one object.
    """
    whole = _all_charges(charges)
    flops = sum(charge.flops for charge in whole)
    if known is None:
        by_namespace = _by_namespace(whole)
    elif whole in known:
        by_namespace = known[whole]
    else:
        by_namespace = known[whole] = _by_namespace(whole)
    return {"flops_used": flops, **timing_json(_sum_timings(timings)), "by_namespace": by_namespace}


def _all_charges(cases: Sequence[Sequence[Charge]]) -> tuple[Charge, ...]:
    """The charges of all cases. Those of a program that has none of its own times are multiplied, not repeated."""
    times: dict[int, int] = defaultdict(int)
    for case in cases:
        times[id(case)] += 1
    whole: list[Charge] = []
    for case in {id(case): case for case in cases}.values():
        n = times[id(case)]
        if any(charge.timing is not None for charge in case):
            whole += [charge for _ in range(n) for charge in case]
        elif n > 1:
            whole += [replace(charge, flops=charge.flops * n, calls=charge.calls * n) for charge in case]
        else:
            whole += case
    return tuple(whole)


def _by_namespace(charges: Sequence[Charge]) -> Namespaces:
    rows: dict[str, dict[str, list[Charge]]] = defaultdict(lambda: defaultdict(list))
    for charge in charges:
        rows[f"estimator.{charge.namespace or 'estimator-client'}"][charge.operation].append(charge)
    return {
        namespace: {
            **_spent([charge for operation in operations.values() for charge in operation]),
            "operations": {name: _spent(operation) for name, operation in operations.items()},
        }
        for namespace, operations in rows.items()
    }


def total_xla(figures: Sequence[float | None]) -> float | None:
    """XLA's count of all cases; None if one has none, as with another meter."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known and len(known) == len(figures) else None


def _spent(charges: Sequence[Charge]) -> SpentJson:
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
    """The largest memory of this process so far."""
    status = Path("/proc/self/status")  # rusage also knows the process that started this one, which may be larger
    if status.exists():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _fields(value: Any) -> Json:
    """The fields of a dataclass; fields that are dataclasses become plain data."""
    return {
        name: asdict(field) if hasattr(field, "__dataclass_fields__") else field for name, field in vars(value).items()
    }
