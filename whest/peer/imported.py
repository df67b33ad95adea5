"""A WhestBench report as one of ours: what it states, under our names, in a protocol that no run of ours can share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from whest import __version__
from whest.case import Flags
from whest.peer.checks import failure_counts, row_compute, row_multiplier, row_score, same, suite_figures
from whest.peer.reports import PeerReport, PeerRow, charges_of
from whest.recorded import protocol_hash
from whest.report import SCHEMA_VERSION, Json, Report, RunMeta, estimator_breakdown, strict_json, timing_json
from whest.scoring.score import CaseFigure, Front, Score, mean_or_none, standard_error
from whest.scoring.whest import WhestRule, WhestScore
from whest.tasks.task import View
from whest.tasks.whitebox.task import Whitebox
from whest.tasks.whitebox.view import WhiteboxView

ORIGIN = "whestbench"
ROUNDED = 1e-6
"""A suite's score that is this near to its rows' is the same but for float32."""
UNKNOWN_HOST = dict.fromkeys(("jax_version", "numpy_version", "python_version", "cpu_brand", "machine", "device"))


@dataclass(frozen=True, kw_only=True)
class ImportedScore(Score):
    by_case: ClassVar[CaseFigure] = WhestScore.by_case

    final_layer_mse: float | None
    mean_effective_compute: float | None

    @property
    def front(self) -> Front:
        return Front("final-layer MSE", self.final_layer_mse, None, self.mean_effective_compute)


class ImportedView(WhiteboxView):
    """A white-box report without its arrays."""

    files: ClassVar[tuple[str, ...]] = ()

    def case_figures(self, report: Any) -> list[Json]:
        names = ("mlp_name", "adjusted_final_layer_score", "final_layer_mse", "all_layers_mse", "flops_used")
        return [{name: row[name] for name in names} for row in report.document["results"]["per_mlp"]]


@dataclass(frozen=True)
class ImportedReport(Report):
    """What tracking needs of it; the document says it all."""

    document: Json
    problems: tuple[str, ...]

    @property
    def view(self) -> View:
        return ImportedView()

    @property
    def has_errors(self) -> bool:
        return bool(self.document["results"]["failure_breakdown"]["error"])

    def results(self) -> Json:
        results: Json = self.document["results"]
        return results

    def series(self) -> dict[str, Sequence[float]]:
        return {"layer_mse": [mse for mse in self.document["results"]["per_layer_mse"] if mse is not None]}

    def tags(self) -> dict[str, str]:
        told = self.document["imported"]
        kept = {"imported": ORIGIN, "imported_sha256": told["sha256"], "imported_from": told["from"]}
        return kept | ({"disagrees": "; ".join(self.problems)[:5000]} if self.problems else {})

    def to_json(self) -> Json:
        return self.document


def import_report(report: PeerReport, problems: Sequence[str], participant: str | None, command: str) -> ImportedReport:
    """Its own figures, checked or not; `problems` stay with it."""
    protocol = protocol_of(report)
    duration_s = float(report.meta.get("run_duration_s") or 0.0)
    meta = RunMeta(
        run_started_at_utc=report.finished - timedelta(seconds=duration_s),
        run_finished_at_utc=report.finished,
        run_duration_s=duration_s,
        status="finished",
        whest_version=__version__,
        code_version=None,
        command=command,
        protocol_hash=protocol_hash(protocol),
        protocol=protocol,
    )
    config, results = _config(report, participant or report.name), _results(report)
    document = {
        "schema_version": SCHEMA_VERSION,
        "mode": "import",
        "run_meta": {
            **asdict(meta),
            "run_started_at_utc": meta.run_started_at_utc.isoformat(),
            "run_finished_at_utc": meta.run_finished_at_utc.isoformat(),
            "host": UNKNOWN_HOST | {"cpu_count_logical": None} | dict(report.meta.get("host") or {}),
        },
        "run_config": config,
        "results": results,
        "imported": {
            "from": report.source.name,
            "sha256": report.sha256,
            "schema_version": report.schema,
            "whestbench_version": report.whestbench,
            "problems": list(problems),
        },
    }
    score = ImportedScore(
        score=results["score"],
        score_se=results["score_se"],
        direction="lower",
        final_layer_mse=results["final_layer_mse"],
        mean_effective_compute=results["mean_effective_compute"],
    )
    return ImportedReport("import", meta, config, report.limits, (), score, strict_json(document), tuple(problems))


def protocol_of(report: PeerReport) -> Json:
    """What two imported reports must share: the peer's dataset and rules, its versions; `imported` sets them apart."""
    return {
        "task": {"name": Whitebox.name, "version": Whitebox.version},
        "dataset": _dataset_identity(report),
        "truth": "theirs",
        "meter": {"name": "flopscope", "version": report.flopscope, "whestbench": report.whestbench},
        "scoring": _rule(report),
        "limits": asdict(report.limits),
        "imported": ORIGIN,
    }


def _rule(report: PeerReport) -> Json:
    return {"name": WhestRule.name, "version": WhestRule.version, "multiplier_floor": report.floor}


def _dataset_identity(report: PeerReport) -> Json:
    """Its digest of the dataset's metadata; without a dataset the seed; without a seed the MLPs are nobody else's."""
    config = report.config
    shape = {"width": config.width, "depth": config.depth, "n_mlps": len(report.rows)}
    told = config.dataset or {}
    if told.get("sha256"):
        return {"metadata_sha256": str(told["sha256"]), **shape}
    return {"seed": config.seed, **shape} if config.seed is not None else {"report": report.sha256, **shape}


def _config(report: PeerReport, participant: str) -> Json:
    config, limits = report.config, report.limits
    told = config.dataset or {}
    where = told.get("path")
    name = Path(str(where)).name if where else "drawn for the run"
    return {
        "task": Whitebox.name,
        "flop_budget": limits.budget,
        "lambda_flops_per_second": limits.lam,
        "wall_time_limit_s": limits.wall_time_limit_s,
        "residual_wall_time_limit_s": limits.residual_wall_time_limit_s,
        "round": "imported",
        "seed": config.seed,
        "device": None,
        "memory_limit_mb": None,
        "setup_timeout_s": config.setup_timeout_s,
        "participant": participant,
        "estimator": {
            "name": report.name,
            "target": None,
            "path": config.estimator_path,
            "mode": "flopscope",
            "knobs": {"class_name": config.estimator_class},
            "source_sha256": None,
        },
        "n_mlps": config.n_mlps,
        "width": config.width,
        "depth": config.depth,
        "isolation": {"kind": "imported", "worker": None, "fresh": None, "protections": {}},
        "dataset": {
            "name": f"{ORIGIN}: {name}",
            "path": where,
            "sha256": protocol_hash(_dataset_identity(report)),
            "seed": told.get("seed", config.seed),
            "n_mlps": told.get("n_mlps", config.n_mlps),
            "seed_protocol": told.get("seed_protocol"),
            "split": None,
            "n_samples": None,
        },
        "truth": {"name": "theirs"},
        "scoring": _rule(report),
    }


def _results(report: PeerReport) -> Json:
    """The suite as it is stated, what it leaves out made from the rows."""
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
    """What it states, but for rounding; what its rows make where it states nothing."""
    made = mean_or_none(scores)
    stated = report.suite.get("adjusted_final_layer_score" if report.is_discounted else "final_layer_mse")
    if not isinstance(stated, int | float) or (made is not None and same(float(stated), made, ROUNDED)):
        return made
    return float(stated) if math.isfinite(stated) else None


def _row(report: PeerReport, row: PeerRow) -> Json:
    failure = {"error": _error(row), "error_code": row.error_code or "PREDICT_ERROR"} if row.has_error else {}
    stated_compute, stated_score = row.effective_compute, row.adjusted_final_layer_score
    flags: Flags = row.flags
    return {
        "mlp_index": row.mlp_index,
        "mlp_name": row.mlp_name or f"mlp-{row.mlp_index}",
        "flops_used": row.flops_used,
        "effective_compute": row_compute(report, row) if stated_compute is None else stated_compute,
        "score_multiplier": row_multiplier(report, row),
        "adjusted_final_layer_score": row_score(report, row) if stated_score is None else stated_score,
        **asdict(flags),
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
    """Old reports have a sentence where newer ones have a message with details."""
    return row.error if isinstance(row.error, dict) else {"message": row.error or "", "details": {}}
