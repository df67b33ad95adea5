"""A sweep's parent run: made before its jobs start, given their table and curve when they are done."""

import csv
import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from whest.tracking import PARENT_FILE, MlflowTracking

LOG = logging.getLogger(__name__)
COLUMNS = (
    "job",
    "overrides",
    "estimator",
    "flop_budget",
    "score",
    "score_se",
    "final_layer_mse",
    "n_failed_mlps",
    "status",
)


@dataclass(frozen=True)
class SweepRow:
    """One job of a sweep; a job that left no report has a status and nothing else."""

    job: int
    overrides: str
    status: str
    estimator: str | None = None
    flop_budget: float | None = None
    score: float | None = None
    score_se: float | None = None
    final_layer_mse: float | None = None
    n_failed_mlps: int | None = None


class SweepCallback(Callback):
    """Hydra calls this before a sweep's first job and after its last, but not after one that failed."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        _OPEN[folder] = tracking = _tracking(config)
        if tracking is not None:
            client, experiment_id = tracking.connect()
            run = client.create_run(experiment_id, run_name=f"sweep {folder.name}", tags={"whest.kind": "sweep"})
            (folder / PARENT_FILE).write_text(run.info.run_id)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        finish_open_sweep()


_OPEN: dict[Path, MlflowTracking | None] = {}
"""Sweeps that have begun and aren't finished."""


def finish_open_sweep(is_interrupted: bool = False) -> None:
    """Give a sweep its table and curve, on disk, on the console and on its parent run; once, however it ended."""
    while _OPEN:
        folder, tracking = _OPEN.popitem()
        rows = read_sweep(folder)
        if rows:
            write_table(rows, folder / "sweep.csv")
            draw_curve(rows, folder / "score_against_budget.png")
            from whest.console import open_console, print_sweep

            print_sweep(rows, folder, open_console())
        if tracking is not None and (folder / PARENT_FILE).exists():
            is_failed = any(row.status == "failed" for row in rows)
            status = "KILLED" if is_interrupted else "FAILED" if is_failed else "FINISHED"
            _log_sweep(tracking, (folder / PARENT_FILE).read_text().strip(), rows, folder, status)


def _tracking(config: DictConfig) -> MlflowTracking | None:
    node = OmegaConf.to_container(config.tracking, resolve=True)
    assert isinstance(node, dict)
    if "uri" not in node or config.job != "score":
        return None
    return MlflowTracking(node["uri"], str(node["experiment"]), Path(config.outputs_dir).absolute())


def read_sweep(folder: Path) -> list[SweepRow]:
    """A row for each job folder, in order."""
    jobs = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    return [_read_job(path) for path in jobs]


def _read_job(folder: Path) -> SweepRow:
    stored = folder / ".hydra" / "overrides.yaml"
    overrides = " ".join(OmegaConf.load(stored)) if stored.exists() else ""
    job = int(folder.name)
    try:
        report = json.loads((folder / "report.json").read_text())
    except (OSError, ValueError):
        return SweepRow(job, overrides, "failed")
    results, config = report["results"], report["run_config"]
    return SweepRow(
        job=job,
        overrides=overrides,
        status="failed" if results["failure_breakdown"]["error"] else report["run_meta"]["status"],
        estimator=config["estimator"]["name"],
        flop_budget=config["flop_budget"],
        score=results["score"],
        score_se=results["score_se"],
        final_layer_mse=results["final_layer_mse"],
        n_failed_mlps=results["n_failed_mlps"],
    )


def write_table(rows: list[SweepRow], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows([{column: getattr(row, column) for column in COLUMNS} for row in rows])


def draw_curve(rows: list[SweepRow], path: Path) -> None:
    """Score against budget, one line an estimator, bars of one standard error."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.3), layout="constrained")
    axes = figure.add_subplot()
    for name in dict.fromkeys(row.estimator for row in rows if row.score is not None):
        points = [row for row in rows if row.estimator == name and row.score is not None]
        points.sort(key=lambda row: row.flop_budget or 0)
        budgets = [row.flop_budget for row in points]
        scores = [row.score for row in points]
        errors = [row.score_se or 0 for row in points]
        axes.errorbar(budgets, scores, yerr=errors, marker="o", capsize=3, label=name)  # type: ignore[arg-type]
    axes.set(xscale="log", yscale="log", xlabel="budget (FLOPs)", ylabel="adjusted score (lower is better)")
    axes.grid(color="#e4e7eb", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def _log_sweep(tracking: MlflowTracking, run_id: str, rows: list[SweepRow], folder: Path, status: str) -> None:
    from mlflow.entities import Metric

    try:
        client, _ = tracking.connect()
        now = int(time.time() * 1000)
        metrics = [
            Metric(f"score/{row.estimator}", row.score, now, int(row.flop_budget or 0))
            for row in rows
            if row.score is not None
        ]
        client.log_batch(run_id, metrics)
        if rows:
            client.log_table(run_id, {c: [getattr(row, c) for row in rows] for c in COLUMNS}, "sweep.json")
            for name in ("sweep.csv", "score_against_budget.png"):
                client.log_artifact(run_id, str(folder / name))
        client.set_terminated(run_id, status)
    except Exception as error:
        LOG.warning("MLflow did not take the sweep's table (%s); it is safe in %s", error, folder)
