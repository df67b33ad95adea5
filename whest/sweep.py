"""A sweep: its parent run, made before its jobs start, and its table, figures and page, made when they are done.

A sweep that was stopped is one whose folder says it is open while nobody holds its lock. The same command takes that
folder up again: jobs that are finished are recognised by their point's hash (`whest.points`), the rest is run.
"""

import hashlib
import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from whest.points import SWEEP_FILE
from whest.tracking import PARENT_FILE, PARENT_VARIABLE, SWEEP_JOB, MlflowTracking

if TYPE_CHECKING:
    from whest.sweep_table import SweepRow

LOG = logging.getLogger(__name__)
LOCK_FILE = ".running"
IDLE = ("show_mlps", "resume", "hydra/launcher", "hydra.launcher")
"""Words that change how a sweep is run, not what it is: it may be taken up on more cores, or on a cluster."""


@dataclass(frozen=True)
class OpenSweep:
    folder: Path
    words: str
    lock: FileLock
    tracking: MlflowTracking | None


_OPEN: list[OpenSweep] = []
"""Sweeps that have begun and aren't finished."""


class SweepCallback(Callback):
    """Hydra calls this before a sweep's first job and after its last, but not after one that failed."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        if config.job != "score":
            return
        words = sweep_words(config)
        folder, lock = take_folder(config, words)
        tracking = _tracking(config)
        _OPEN.append(OpenSweep(folder, words, lock, tracking))
        write_state(folder, words, "open")
        _tell_jobs(config, f"hydra.sweep.dir={_quoted(str(folder))}")
        if tracking is not None:
            _tell_jobs(config, f"+hydra.job.env_set.{PARENT_VARIABLE}={_parent_run(tracking, folder)}")

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        finish_open_sweep()


def sweep_words(config: DictConfig) -> str:
    """What makes it the same sweep: the words of the command, and what the sweeper varies on its own account."""
    told = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
    kept = [word for word in told if not word.lstrip("+~").startswith(IDLE)]
    sweeper = OmegaConf.to_container(config.hydra.sweeper, resolve=False)
    document = json.dumps([kept, sweeper], sort_keys=True, default=str)
    return hashlib.sha256(document.encode()).hexdigest()


def take_folder(config: DictConfig, words: str) -> tuple[Path, FileLock]:
    """The folder of the same sweep where it was stopped, or a new one; nobody else's as long as this runs."""
    new = Path(config.hydra.sweep.dir).absolute()
    is_given = any(word.lstrip("+").startswith("hydra.sweep.dir=") for word in config.hydra.overrides.hydra)
    root = Path(config.outputs_dir).absolute() / "sweeps"
    begun = [] if is_given or not config.resume else sorted(root.glob(f"*/*/{SWEEP_FILE}"), reverse=True)
    for state in begun:
        lock = _lock(state.parent) if _is_open(state, words) else None
        if lock is not None:
            LOG.warning("going on with the sweep in %s: what is finished there is not run again", state.parent)
            return state.parent, lock
    new.mkdir(parents=True, exist_ok=True)
    lock = _lock(new)
    if lock is None:
        raise RuntimeError(f"{new} is the folder of a sweep that is running: choose another hydra.sweep.dir")
    return new, lock


def _is_open(state: Path, words: str) -> bool:
    try:
        kept = json.loads(state.read_text())
    except (OSError, ValueError):
        return False
    return kept.get("words") == words and kept.get("state") == "open"


def _lock(folder: Path) -> FileLock | None:
    """The system lets go of it when the process ends, however it ends."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    return lock


def write_state(folder: Path, words: str, state: str) -> None:
    from whest.cache import write_atomically  # brings JAX, which --help has no use for

    write_atomically(folder / SWEEP_FILE, json.dumps({"words": words, "state": state}).encode())


def _tell_jobs(config: DictConfig, override: str) -> None:
    """Hydra composes each job anew from the master's words, so a word is what reaches it, on any machine."""
    with read_write(config), open_dict(config):
        config.hydra.overrides.hydra.append(override)
        if override.startswith("hydra.sweep.dir="):
            config.hydra.sweep.dir = override.partition("=")[2].strip("'").replace("\\'", "'")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def _parent_run(tracking: MlflowTracking, folder: Path) -> str:
    """The parent that was begun here before, or a new one."""
    client, experiment_id = tracking.connect()
    kept = folder / PARENT_FILE
    if kept.exists():
        run_id = kept.read_text().strip()
        try:
            client.update_run(run_id, status="RUNNING")
            return run_id
        except Exception as error:
            LOG.warning("the sweep's run %s is not in MLflow any more (%s): it gets a new one", run_id, error)
    run = client.create_run(experiment_id, run_name=f"sweep {folder.name}", tags={"whest.kind": "sweep"})
    kept.write_text(run.info.run_id)
    return str(run.info.run_id)


def finish_open_sweep(is_interrupted: bool = False) -> None:
    """Give a sweep its table, figures and page, on disk, console and parent run; once, however it ended."""
    while _OPEN:
        sweep = _OPEN.pop()
        try:
            _finish(sweep, is_interrupted)
        finally:
            sweep.lock.release()


def _finish(sweep: OpenSweep, is_interrupted: bool) -> None:
    from whest.sweep_table import read_sweep, write_table

    folder, tracking = sweep.folder, sweep.tracking
    parent = (folder / PARENT_FILE).read_text().strip() if tracking and (folder / PARENT_FILE).exists() else None
    rows = read_sweep(folder, _reports_elsewhere(tracking, parent, folder) if tracking and parent else None)
    if rows:
        from whest.console import open_console, print_sweep
        from whest.page import save_page
        from whest.sweep_view import best_lines, save_figures, sweep_page

        write_table(rows, folder / "sweep.csv")
        save_figures(rows, folder)
        save_page(sweep_page(rows, f"sweep {folder.name}"), folder / "sweep.html")
        print_sweep(rows, best_lines(rows), folder, open_console())
    if rows and not is_interrupted and all(row.status == "finished" for row in rows):
        write_state(folder, sweep.words, "done")
    if tracking and parent:
        is_failed = any(row.status == "failed" for row in rows)
        status = "KILLED" if is_interrupted else "FAILED" if is_failed else "FINISHED"
        _log_sweep(tracking, parent, rows, folder, status)


def _reports_elsewhere(tracking: MlflowTracking, parent: str, folder: Path) -> dict[int, dict[str, Any]]:
    """Reports of jobs whose folders are on other machines: MLflow has them."""
    from whest.recorded import read_run

    try:
        client, experiment_id = tracking.connect()
        children = client.search_runs([experiment_id], f"tags.mlflow.parentRunId = '{parent}'")
        numbers = {int(child.data.tags[SWEEP_JOB]): child for child in children if SWEEP_JOB in child.data.tags}
        away = {job: run for job, run in numbers.items() if not (folder / str(job) / "report.json").exists()}
        found = {job: read_run(client, run.info.run_id) for job, run in away.items()}
    except Exception as error:
        LOG.warning("MLflow could not be asked for jobs that ran elsewhere (%s)", error)
        return {}
    return {job: run.report for job, run in found.items() if run.report}


def _tracking(config: DictConfig) -> MlflowTracking | None:
    node = OmegaConf.to_container(config.tracking, resolve=True)
    assert isinstance(node, dict)
    if "uri" not in node:
        return None
    return MlflowTracking(node["uri"], str(node["experiment"]), Path(config.outputs_dir).absolute())


def _log_sweep(tracking: MlflowTracking, run_id: str, rows: list["SweepRow"], folder: Path, status: str) -> None:
    from mlflow.entities import Metric

    from whest.sweep_table import COLUMNS

    try:
        client, _ = tracking.connect()
        now = int(time.time() * 1000)
        metrics = [
            Metric(f"score/{row.estimator}", row.score, now, int(row.flop_budget or 0))
            for row in rows
            if row.score is not None
        ]
        for first in range(0, len(metrics), 500):
            client.log_batch(run_id, metrics[first : first + 500])
        if rows:
            client.log_table(run_id, {c: [getattr(row, c) for row in rows] for c in COLUMNS}, "sweep.json")
            for path in [*folder.glob("*.png"), folder / "sweep.csv", folder / "sweep.html"]:
                client.log_artifact(run_id, str(path))
        client.set_terminated(run_id, status)
    except Exception as error:
        LOG.warning("MLflow did not take the sweep's table (%s); it is safe in %s", error, folder)
