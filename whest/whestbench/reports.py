"""Read a WhestBench report into typed values. Older field names are translated; nothing is computed here.

The present schema is 1.1. Older reports call the final-layer MSE the primary score, have no discount for compute, and
use the names tracked and untracked time.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from whest.cases.prediction import Flags
from whest.cost import Charge, Timing
from whest.errors import ConfigError
from whest.limits import Limits

Json = dict[str, Any]
PRICED = 1e11
"""λ of reports with an effective compute that don't state λ."""

OLD_NAMES = {
    "final_mse": "final_layer_mse",
    "all_layer_mse": "all_layers_mse",
    "primary_score": "final_layer_mse",
    "secondary_score": "all_layers_mse",
    "tracked_time_s": "flopscope_backend_time_s",
    "untracked_time_s": "residual_wall_time_s",
    "untracked_time_exhausted": "residual_wall_time_exhausted",
    "untracked_time_limit_s": "residual_wall_time_limit_s",
}

Seconds = Annotated[float, Field(ge=0)]


class NotAReportError(ConfigError):
    """The file is not a WhestBench report."""


@dataclass(frozen=True)
class PeerRow:
    """One MLP of the report. None: the report does not state it."""

    mlp_index: int
    flops_used: Annotated[int, Field(ge=0)]
    wall_time_s: Seconds
    flopscope_backend_time_s: Seconds
    residual_wall_time_s: Seconds
    budget_exhausted: bool
    time_exhausted: bool
    residual_wall_time_exhausted: bool
    combined_budget_exhausted: bool = False
    flopscope_overhead_time_s: Seconds | None = None
    mlp_name: str = ""
    final_layer_mse: float | None = None
    all_layers_mse: float | None = None
    per_layer_mse: tuple[float, ...] | None = None
    effective_compute: float | None = None
    adjusted_final_layer_score: float | None = None
    error: str | dict[str, Any] | None = None
    error_code: str | None = None
    traceback: str | None = None
    breakdowns: dict[str, Any] | None = None

    @property
    def label(self) -> str:
        return f"MLP {self.mlp_index}" + (f" ({self.mlp_name})" if self.mlp_name else "")

    @property
    def flags(self) -> Flags:
        return Flags(
            self.budget_exhausted,
            self.time_exhausted,
            self.residual_wall_time_exhausted,
            self.combined_budget_exhausted,
        )

    @property
    def has_error(self) -> bool:
        return self.error_code is not None or self.error is not None

    @property
    def failed(self) -> bool:
        return self.has_error or self.flags.any

    @property
    def timing(self) -> Timing:
        return Timing(self.flopscope_backend_time_s, self.flopscope_overhead_time_s or 0.0, self.residual_wall_time_s)

    @property
    def breakdown(self) -> Json | None:
        return (self.breakdowns or {}).get("estimator")


@dataclass(frozen=True)
class RunConfig:
    """The rules of the run."""

    n_mlps: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=1)]
    depth: Annotated[int, Field(ge=1)]
    flop_budget: Annotated[float, Field(gt=0)]
    seed: int | None = None
    lambda_flops_per_second: float | None = None
    setup_timeout_s: float | None = None
    wall_time_limit_s: float | None = None
    residual_wall_time_limit_s: float | None = None
    dataset: dict[str, Any] | None = None
    estimator_class: str | None = None
    estimator_path: str | None = None


@dataclass(frozen=True)
class PeerReport:
    """A whole report."""

    sha256: str
    source: Path
    schema: str
    config: RunConfig
    meta: Json
    suite: Json
    """The figures that it states for all MLPs together."""
    rows: tuple[PeerRow, ...]
    whestbench: str | None = None
    finished: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def is_discounted(self) -> bool:
        """Whether compute changes the score; before schema 1.1 it did not."""
        return "adjusted_final_layer_score" in self.suite

    @property
    def limits(self) -> Limits:
        config = self.config
        lam = config.lambda_flops_per_second
        if lam is None:
            lam = PRICED if self.is_discounted else 0.0
        return Limits(config.flop_budget, lam, config.wall_time_limit_s, config.residual_wall_time_limit_s)

    @property
    def floor(self) -> float:
        """The floor of the multiplier; 1 if there was no discount."""
        return 0.1 if self.is_discounted else 1.0

    @property
    def flopscope(self) -> str | None:
        version = (self.meta.get("host") or {}).get("flopscope_version")
        return None if version is None else str(version)

    @property
    def name(self) -> str:
        """The name of the estimator's file if the report states it, else the name of the report's file."""
        path = self.config.estimator_path
        return Path(path).stem if path else self.source.stem


def read_peer_report(path: Path) -> PeerReport:
    """Read a report from its file. Any other file is refused, with the reason."""
    try:
        content = path.read_bytes()
        document = json.loads(content)
    except OSError as error:
        raise NotAReportError(f"path={path} can't be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise NotAReportError(f"path={path} is not a WhestBench report: it is not JSON ({error})") from None
    if isinstance(document, dict) and "protocol_hash" in (document.get("run_meta") or {}):
        raise NotAReportError(f"path={path} is a report of whest, not of WhestBench: its run has logged it already")
    try:
        return _typed(document, path, hashlib.sha256(content).hexdigest())
    except (ValidationError, _MissingError) as error:
        raise NotAReportError(f"path={path} is not a WhestBench report: {_first(error)}") from None


class _MissingError(ValueError):
    """The file lacks a part that every report has."""


def _typed(document: Any, path: Path, sha256: str) -> PeerReport:
    config, results = _part(document, "run_config"), _part(document, "results")
    if not isinstance(results.get("per_mlp"), list) or not results["per_mlp"]:
        raise _MissingError("it has no results.per_mlp")
    rows = [TypeAdapter(PeerRow).validate_python(_renamed(row)) for row in results["per_mlp"]]
    meta = document.get("run_meta") if isinstance(document.get("run_meta"), dict) else {}
    version = document.get("whestbench_version")
    return PeerReport(
        sha256=sha256,
        source=path,
        schema=str(document.get("schema_version", "unknown")),
        config=TypeAdapter(RunConfig).validate_python(_renamed(config)),
        meta=dict(meta or {}),
        suite={key: value for key, value in _renamed(results).items() if key not in ("per_mlp", "breakdowns")},
        rows=tuple(rows),
        whestbench=None if version is None else str(version),
        finished=_finished(dict(meta or {}), path),
    )


def _part(document: Any, name: str) -> Json:
    part = document.get(name) if isinstance(document, dict) else None
    if not isinstance(part, dict):
        raise _MissingError(f"it has no {name}")
    return part


def _renamed(values: Any) -> Json:
    """The values under the present names."""
    if not isinstance(values, Mapping):
        raise _MissingError("a row of results.per_mlp is not an object")
    return {OLD_NAMES.get(str(key), str(key)): value for key, value in values.items()}


def _finished(meta: Json, path: Path) -> datetime:
    """When the run ended. If the report does not state it, the date of its file."""
    try:
        stated = datetime.fromisoformat(str(meta.get("run_finished_at_utc")))
    except ValueError:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return stated if stated.tzinfo else stated.replace(tzinfo=UTC)


def _first(error: ValidationError | _MissingError) -> str:
    if isinstance(error, _MissingError):
        return str(error)
    problem = error.errors()[0]
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"


def charges_of(breakdown: Json | None) -> tuple[Charge, ...]:
    """The operations of a breakdown, with their namespaces."""
    spaces = (breakdown or {}).get("by_namespace") or {}
    return tuple(
        Charge(
            namespace="" if name == "estimator.estimator-client" else str(name).removeprefix("estimator."),
            operation=str(operation),
            flops=int(row.get("flop_cost", 0)),
            calls=int(row.get("calls", 0)),
            timing=Timing(
                float(row.get("flopscope_backend_time_s", row.get("duration", 0.0)) or 0.0),
                float(row.get("flopscope_overhead_time_s", 0.0) or 0.0),
            ),
        )
        for name, space in spaces.items()
        for operation, row in (space.get("operations") or {}).items()
    )
