"""The start and the end of a sweep: first its parent run in MLflow, at the end its table, figures and page.

If a sweep's state file says "open" and no process holds its lock, the sweep was stopped. The same command continues it
in the same folder. Finished jobs are recognised by the hash of their point (`whest.sweeps.resume`); the others are run.
"""

import hashlib
import json
import logging
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from whest.files import SWEEP_PAGE
from whest.sweeps.resume import SWEEP_FILE
from whest.tracking.parents import close_parent, reopen_parent
from whest.tracking.runs import PARENT_FILE, PARENT_VARIABLE, SWEEP_JOB, MlflowTracking

if TYPE_CHECKING:
    from whest.sweeps.table import SweepRow

LOG = logging.getLogger(__name__)
LOCK_FILE = ".running"
IDLE = ("show_mlps", "resume", "hydra/launcher", "hydra.launcher")
"""Overrides that don't make another sweep: a stopped sweep may continue on more cores, or on a cluster."""


@dataclass(frozen=True)
class OpenSweep:
    folder: Path
    words: str
    lock: FileLock
    tracking: MlflowTracking | None
    command: str


_OPEN: list[OpenSweep] = []
"""The sweeps of this process that are not finished."""


class SweepCallback(Callback):
    """Hydra calls this before the first job of a sweep and after the last one, but not after a failed job."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        if config.job != "score":
            return
        words = sweep_words(config)
        folder, lock = take_folder(config, words)
        tracking = _tracking(config)
        _OPEN.append(OpenSweep(folder, words, lock, tracking, sweep_command(config)))
        write_state(folder, words, "open")
        _tell_jobs(config, f"hydra.sweep.dir={_quoted(str(folder))}")
        if tracking is not None:
            _tell_jobs(config, f"+hydra.job.env_set.{PARENT_VARIABLE}={reopen_parent(tracking, 'sweep', folder)}")

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        finish_open_sweep()


def sweep_words(config: DictConfig) -> str:
    """A hash that identifies the sweep: of the words of the command and of the sweeper's config."""
    words = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
    kept = [word for word in words if not word.lstrip("+~").startswith(IDLE)]
    sweeper = OmegaConf.to_container(config.hydra.sweeper, resolve=False)
    document = json.dumps([kept, sweeper], sort_keys=True, default=str)
    return hashlib.sha256(document.encode()).hexdigest()


def sweep_command(config: DictConfig) -> str:
    """The command that started the sweep."""
    return shlex.join(["python", "-m", "whest", "-m", *config.hydra.overrides.task])


def take_folder(config: DictConfig, words: str) -> tuple[Path, FileLock]:
    """The folder of the same sweep, if it was stopped, else a new one; and its lock, held while this sweep runs."""
    new = Path(config.hydra.sweep.dir).absolute()
    is_given = any(word.lstrip("+").startswith("hydra.sweep.dir=") for word in config.hydra.overrides.hydra)
    root = Path(config.outputs_dir).absolute() / "sweeps"
    begun = [] if is_given or not config.resume else sorted(root.glob(f"*/*/{SWEEP_FILE}"), reverse=True)
    for state in begun:
        lock = _lock(state.parent) if _is_open(state, words) else None
        if lock is not None:
            LOG.warning("continuing the sweep in %s: its finished jobs are not run again", state.parent)
            return state.parent, lock
    new.mkdir(parents=True, exist_ok=True)
    lock = _lock(new)
    if lock is None:
        raise RuntimeError(f"hydra.sweep.dir={new} belongs to a running sweep: choose another folder")
    return new, lock


def _is_open(state: Path, words: str) -> bool:
    try:
        kept = json.loads(state.read_text())
    except (OSError, ValueError):
        return False
    return kept.get("words") == words and kept.get("state") == "open"


def _lock(folder: Path) -> FileLock | None:
    """The folder's lock, or None if another process holds it. The system releases it when this process ends."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return None
    return lock


def write_state(folder: Path, words: str, state: str) -> None:
    from whest.files import write_atomically

    write_atomically(folder / SWEEP_FILE, json.dumps({"words": words, "state": state}).encode())


def _tell_jobs(config: DictConfig, override: str) -> None:
    """Add an override for the jobs. Hydra composes each job from overrides, so this works on any machine."""
    with read_write(config), open_dict(config):
        config.hydra.overrides.hydra.append(override)
        if override.startswith("hydra.sweep.dir="):
            config.hydra.sweep.dir = override.partition("=")[2].strip("'").replace("\\'", "'")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def finish_open_sweep(is_interrupted: bool = False) -> None:
    """Write the sweep's table, figures and page, print it and log it. Does nothing if that was done before."""
    while _OPEN:
        sweep = _OPEN.pop()
        try:
            _finish(sweep, is_interrupted)
        finally:
            sweep.lock.release()


def _finish(sweep: OpenSweep, is_interrupted: bool) -> None:
    from whest.sweeps.table import read_sweep, write_table

    folder, tracking = sweep.folder, sweep.tracking
    parent = (folder / PARENT_FILE).read_text().strip() if tracking and (folder / PARENT_FILE).exists() else None
    rows = read_sweep(folder, _reports_elsewhere(tracking, parent, folder) if tracking and parent else None)
    if rows:
        from whest.display.console import open_console
        from whest.page import save_page
        from whest.sweeps.page import sweep_page
        from whest.sweeps.view import best_lines, print_sweep, save_figures

        write_table(rows, folder / "sweep.csv")
        save_figures(rows, folder)
        save_page(sweep_page(rows, f"sweep {folder.name}", sweep.command), folder / SWEEP_PAGE)
        print_sweep(rows, best_lines(rows), folder, open_console())
    if rows and not is_interrupted and all(row.status == "finished" for row in rows):
        write_state(folder, sweep.words, "done")
    if tracking and parent:
        is_failed = any(row.status == "failed" for row in rows)
        status = "KILLED" if is_interrupted else "FAILED" if is_failed else "FINISHED"
        _log_sweep(tracking, parent, rows, folder, status)


def _reports_elsewhere(tracking: MlflowTracking, parent: str, folder: Path) -> dict[int, dict[str, Any]]:
    """Reports from MLflow, of the jobs whose folders are on other machines."""
    from whest.tracking.recorded import read_run

    try:
        client, experiment_id = tracking.connect()
        children = client.search_runs([experiment_id], f"tags.mlflow.parentRunId = '{parent}'")
        numbers = {int(child.data.tags[SWEEP_JOB]): child for child in children if SWEEP_JOB in child.data.tags}
        away = {job: run for job, run in numbers.items() if not (folder / str(job) / "report.json").exists()}
        found = {job: read_run(client, run.info.run_id) for job, run in away.items()}
    except Exception as error:
        LOG.warning("the reports of jobs on other machines could not be read from MLflow (%s)", error)
        return {}
    return {job: run.report for job, run in found.items() if run.report}


def _tracking(config: DictConfig) -> MlflowTracking | None:
    """The tracking of the config's `_target_`; None if it is not MLflow."""
    from whest.config.build import build_group

    node = OmegaConf.to_container(config.tracking, resolve=True)
    tracking = build_group({"tracking": node}, "tracking", outputs=Path(config.outputs_dir).absolute())
    return tracking if isinstance(tracking, MlflowTracking) else None


def _log_sweep(tracking: MlflowTracking, run_id: str, rows: list["SweepRow"], folder: Path, status: str) -> None:
    from whest.sweeps.table import COLUMNS

    metrics = [
        (f"score/{row.estimator}", row.score, int(row.flop_budget or 0)) for row in rows if row.score is not None
    ]
    table = {column: [getattr(row, column) for row in rows] for column in COLUMNS} if rows else None
    files = [*folder.glob("*.png"), folder / "sweep.csv", folder / "sweep.html"] if rows else []
    try:
        close_parent(tracking, run_id, metrics, table, "sweep.json", files, status=status)
    except Exception as error:
        LOG.warning("MLflow did not store the sweep's table (%s); it is saved in %s", error, folder)
