"""A WhestBench report as a whest report: its own figures under whest's names, with a protocol of its own.

No run of whest can have that protocol, so their scores never share a board.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from whest import __version__
from whest.document import ImportedDocument, Json, protocol_hash, strict_json
from whest.report import SCHEMA_VERSION, Report, RunMeta
from whest.results import ImportedResults
from whest.scoring.score import CaseFigure, Front, Score
from whest.scoring.whest import WhestRule, WhestScore
from whest.tasks.whitebox.task import Whitebox
from whest.tasks.whitebox.view import WhiteboxView
from whest.whestbench.reports import PeerReport
from whest.whestbench.results import translate_results

ORIGIN = "whestbench"
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
    """Shows an imported report, which has no arrays."""

    files: ClassVar[tuple[str, ...]] = ()


VIEW = ImportedView()


@dataclass(frozen=True)
class ImportedReport(Report[Any, ImportedScore]):
    """An imported run. Its document is complete from the start."""

    translated: ImportedDocument
    problems: tuple[str, ...]

    @cached_property
    def document(self) -> ImportedDocument:
        return self.translated

    @property
    def has_errors(self) -> bool:
        return bool(self.document["results"]["failure_breakdown"]["error"])

    def results(self) -> ImportedResults:
        return self.document["results"]


def import_report(report: PeerReport, problems: Sequence[str], participant: str | None, command: str) -> ImportedReport:
    """Translate a report, with its own figures. The report keeps the `problems` that were found in it."""
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
    config, results = _config(report, participant or report.name), translate_results(report)
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
    return ImportedReport(
        "import", meta, config, report.limits, (), score, VIEW, strict_json(document), tuple(problems)
    )


def protocol_of(report: PeerReport) -> Json:
    """The dataset, rules and versions of an imported report. `imported` makes it differ from all whest protocols."""
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
    """The digest of the dataset's metadata; without a dataset the seed; without a seed the report's own hash."""
    config = report.config
    shape = {"width": config.width, "depth": config.depth, "n_mlps": len(report.rows)}
    dataset = config.dataset or {}
    if dataset.get("sha256"):
        return {"metadata_sha256": str(dataset["sha256"]), **shape}
    return {"seed": config.seed, **shape} if config.seed is not None else {"report": report.sha256, **shape}


def _config(report: PeerReport, participant: str) -> Json:
    config, limits = report.config, report.limits
    dataset = config.dataset or {}
    where = dataset.get("path")
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
            "seed": dataset.get("seed", config.seed),
            "n_mlps": dataset.get("n_mlps", config.n_mlps),
            "seed_protocol": dataset.get("seed_protocol"),
            "split": None,
            "n_samples": None,
        },
        "truth": {"name": "theirs"},
        "scoring": _rule(report),
    }
