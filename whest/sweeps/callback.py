"""The start and the end of a sweep: first its parent run in MLflow, at the end its table, figures and page.

If a sweep's state file says "open" and no process holds its lock, the sweep was stopped. The same command continues it
in the same folder. Finished jobs are recognised by the hash of their point (`whest.sweeps.resume`); the others are run.
"""

import gc
import hashlib
import json
import logging
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from whest.files import SWEEP_PAGE
from whest.notation import short_path
from whest.sweeps.resume import SWEEP_FILE

if TYPE_CHECKING:
    from whest.sweeps.table import SweepRow
    from whest.tracking.runs import MlflowTracking

LOG = logging.getLogger(__name__)
LOCK_FILE, PAGE_LOCK = ".running", ".page"
IDLE = ("show_mlps", "resume", "hydra/launcher", "hydra.launcher")
"""Overrides that don't make another sweep: a stopped sweep may continue on more cores, or on a cluster."""


@dataclass(frozen=True)
class OpenSweep:
    folder: Path
    words: str
    lock: FileLock
    outputs: Path
    tracking: "MlflowTracking | None"
    figures: bool
    page: bool
    n_jobs: int | None
    command: str
    name: str
    """The name of its run in MLflow."""
    tags: Mapping[str, str]
    keys: Sequence[str]
    """The keys that it varies."""


_OPEN: list[OpenSweep] = []
"""The sweeps of this process that are not finished."""
_PARENTLESS: list[OpenSweep] = []
"""Those among them whose parent run is made with their first job."""
_FINISHED: list["SweepRow"] = []
"""The rows of the sweeps that ended in this process, until they are asked for."""


class SweepCallback(Callback):
    """Hydra calls this before the first job of a sweep and after the last one, but not after a failed job."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        if config.job != "score":
            return
        words = sweep_words(config)
        try:
            folder, lock = take_folder(config, words)
        except OSError:
            return  # Hydra makes the same folder next, and its error stops the sweep
        keys, n_jobs = swept(config)
        outputs, command = Path(config.outputs_dir), sweep_command(config)
        sweep = OpenSweep(
            folder,
            words,
            lock,
            outputs,
            _tracking(config),
            config.figures,
            config.page,
            n_jobs,
            command,
            *_labels(config, keys, n_jobs),
            keys,
        )
        _OPEN.append(sweep)
        write_state(sweep, "open")
        _tell_jobs(config, f"hydra.sweep.dir={_quoted(str(folder))}")
        if str(config.hydra.launcher._target_).endswith(".BasicLauncher"):
            _PARENTLESS.append(sweep)  # its jobs find the parent in the sweep's folder
        elif can_begin(config):
            parent = _open_parent(sweep)
            if parent is not None:
                from whest.tracking.runs import PARENT_VARIABLE

                _tell_jobs(config, f"+hydra.job.env_set.{PARENT_VARIABLE}={parent}")
        from whest.dataset.row import KEPT
        from whest.sweeps.pace import Pace, begin_pace

        begin_pace(Pace(n_jobs, keys))
        KEPT.keep()

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        while _PARENTLESS:
            _open_parent(_PARENTLESS.pop())

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        freeze_once()
        folder = Path(config.hydra.sweep.dir).absolute()
        if config.job == "score" and config.page and (folder / SWEEP_FILE).exists():  # a single run ends here too
            from whest.sweeps.live import rewrite_page

            rewrite_page(folder)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        if sys.exc_info()[1] is None:  # Hydra 1.4 comes here with an error too; the command line ends such a sweep
            _FINISHED.extend(finish_open_sweep())


@cache
def freeze_once() -> None:
    """What the first job imported and compiled stays: later collections need not look at it.

    Python counts the frozen objects one by one when it is asked for their number, so that is not asked after each job.
    """
    gc.freeze()


def _open_parent(sweep: OpenSweep) -> str | None:
    """The id of the sweep's parent run in MLflow. Without it the jobs run all the same."""
    if sweep.tracking is None:
        return None
    from whest.tracking.parents import reopen_parent

    try:
        return reopen_parent(sweep.tracking, "sweep", sweep.folder, sweep.name, sweep.tags)
    except Exception as error:
        LOG.warning(
            "MLflow at %s made no run for the sweep (%s); its table is still saved in %s",
            sweep.tracking.tracking_uri,
            str(error).splitlines()[0] if str(error) else "",
            sweep.folder,
        )
        return None


def can_begin(config: DictConfig) -> bool:
    """Whether every job of a sweep on other processes composes, so that its parent run can be made before them.

    If one does not, Hydra refuses the sweep after this callback, and nothing of it may be left.
    """
    if not str(config.hydra.sweeper._target_).endswith(".BasicSweeper"):
        return True  # the others choose their jobs as they go
    loader = GlobalHydra.instance().config_loader()
    swept = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
    try:
        words = OverridesParser.create(config_loader=loader).parse_overrides([*swept, *config.hydra.overrides.task])
        for overrides in chain.from_iterable(BasicSweeper.split_arguments(words, None)):
            loader.load_sweep_config(config, list(overrides))
    except (HydraException, OmegaConfBaseException):
        return False
    return True


def sweep_words(config: DictConfig) -> str:
    """A hash that identifies the sweep: of the words of the command and of the sweeper's config."""
    words = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
    kept = [word for word in words if not word.lstrip("+~").startswith(IDLE)]
    sweeper = OmegaConf.to_container(config.hydra.sweeper, resolve=False)
    document = json.dumps([kept, sweeper], sort_keys=True, default=str)
    return hashlib.sha256(document.encode()).hexdigest()


def swept(config: DictConfig) -> tuple[list[str], int | None]:
    """The swept keys and the number of jobs; None if the sweeper decides how many."""
    words = [*config.hydra.overrides.task, *(f"{k}={v}" for k, v in (config.hydra.sweeper.get("params") or {}).items())]
    parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
    varied = [override for override in parser.parse_overrides(words) if override.is_sweep_override()]
    keys = [override.get_key_element().lstrip("+~") for override in varied]
    is_grid = config.hydra.sweeper._target_.endswith(".BasicSweeper")
    n_jobs = prod(len(list(override.sweep_string_iterator())) for override in varied) if is_grid else None
    return keys, n_jobs


def sweep_command(config: DictConfig) -> str:
    """The command that started the sweep, with the config folders and Hydra's own words that it was given."""
    given = [source.path for source in config.hydra.runtime.config_sources if source.provider == "command-line"]
    flags = [word for folder in given for word in ("--config-dir", str(short_path(Path(folder))))]
    own = [word for word in config.hydra.overrides.hydra if not word.startswith(("hydra.mode=", "hydra.sweep.dir="))]
    return shlex.join(["python", "-m", "whest", "-m", *flags, *config.hydra.overrides.task, *own])


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


def write_state(sweep: OpenSweep, state: str) -> None:
    """Write down the sweep's command, what it varies and whether it is finished."""
    from whest.files import write_atomically

    kept = {
        "words": sweep.words,
        "state": state,
        "keys": list(sweep.keys),
        "n_jobs": sweep.n_jobs,
        "command": sweep.command,
    }
    write_atomically(sweep.folder / SWEEP_FILE, json.dumps(kept).encode())


def _labels(config: DictConfig, keys: Sequence[str], n_jobs: int | None) -> tuple[str, dict[str, str]]:
    """The name and the tags of the sweep's run in MLflow. Tags that are swept, or refused, stay with the jobs."""
    from whest.errors import ConfigError
    from whest.tracking.naming import own_tags, sweep_name

    own = config.name if "name" not in keys else None
    try:
        tags = own_tags({key: value for key, value in config.tags.items() if f"tags.{key}" not in keys})
    except ConfigError:
        tags = {}  # each job refuses them with the reason
    return sweep_name(keys, n_jobs, own), tags


def _tell_jobs(config: DictConfig, override: str) -> None:
    """Add an override for the jobs. Hydra composes each job from overrides, so this works on any machine."""
    with read_write(config), read_write(config.hydra), open_dict(config), open_dict(config.hydra):
        config.hydra.overrides.hydra.append(override)
        if override.startswith("hydra.sweep.dir="):
            config.hydra.sweep.dir = override.partition("=")[2].strip("'").replace("\\'", "'")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"


def finish_open_sweep(is_interrupted: bool = False) -> list["SweepRow"]:
    """Print the sweep's table, then save and log it; once. Returns the rows."""
    _PARENTLESS.clear()
    rows = [_FINISHED.pop(0) for _ in range(len(_FINISHED))]
    while _OPEN:
        sweep = _OPEN.pop()
        try:
            rows += _finish(sweep, is_interrupted)
        finally:
            sweep.lock.release()
    return rows


def _discard(folder: Path, outputs: Path) -> None:
    """Remove what was written for a sweep that was refused before its first job. Other files in its folder stay."""
    from whest.files import remove_empty

    for name in (SWEEP_FILE, LOCK_FILE, PAGE_LOCK, "multirun.yaml"):
        (folder / name).unlink(missing_ok=True)
    remove_empty(folder, outputs)


def _finish(sweep: OpenSweep, is_interrupted: bool) -> list["SweepRow"]:
    from whest.dataset.row import KEPT
    from whest.sweeps.pace import end_pace
    from whest.sweeps.table import read_sweep
    from whest.tracking.runs import PARENT_FILE

    end_pace()
    KEPT.keep(0)
    folder, tracking = sweep.folder, sweep.tracking
    parent = (folder / PARENT_FILE).read_text().strip() if tracking and (folder / PARENT_FILE).exists() else None
    is_here = len([*folder.glob("*/report.json")]) == sweep.n_jobs
    rows = read_sweep(
        folder, _reports_elsewhere(tracking, parent, folder) if tracking and parent and not is_here else None
    )
    if not rows and parent is None:
        _discard(folder, sweep.outputs)
    if rows:
        _show_and_save(sweep, rows)
    if rows and not is_interrupted and all(row.status == "finished" for row in rows):
        write_state(sweep, "done")
    if tracking and parent:
        is_failed = any(row.status == "failed" for row in rows)
        status = "KILLED" if is_interrupted else "FAILED" if is_failed else "FINISHED"
        _log_sweep(tracking, parent, rows, folder, status)
    return rows


def _show_and_save(sweep: OpenSweep, rows: list["SweepRow"]) -> None:
    from whest.display.console import open_console
    from whest.gallery.refresh import refresh
    from whest.sweeps.table import write_table
    from whest.sweeps.view import best_lines, print_places, print_sweep, save_figures

    console, folder = open_console(), sweep.folder
    print_sweep(rows, best_lines(rows), console)
    write_table(rows, folder / "sweep.csv")
    if sweep.figures:
        save_figures(rows, folder)
    if sweep.page:
        from whest.page import save_page
        from whest.sweeps.page import sweep_page, title_of

        save_page(sweep_page(rows, title_of(rows, folder.name), sweep.command), folder / SWEEP_PAGE)
    print_places(folder, console)
    refresh(sweep.outputs, folder)


def _reports_elsewhere(tracking: "MlflowTracking", parent: str, folder: Path) -> dict[int, dict[str, Any]]:
    """Reports from MLflow, of the jobs whose folders are on other machines."""
    from whest.tracking.recorded import read_run
    from whest.tracking.runs import SWEEP_JOB

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


def _tracking(config: DictConfig) -> "MlflowTracking | None":
    """The tracking of the config's `_target_`; None if it is not MLflow."""
    from whest.config.build import build_group
    from whest.tracking.runs import MlflowTracking

    node = OmegaConf.to_container(config.tracking, resolve=True)
    tracking = build_group({"tracking": node}, "tracking", outputs=Path(config.outputs_dir).absolute())
    return tracking if isinstance(tracking, MlflowTracking) else None


def _log_sweep(tracking: "MlflowTracking", run_id: str, rows: list["SweepRow"], folder: Path, status: str) -> None:
    from whest.sweeps.table import COLUMNS
    from whest.sweeps.view import best_lines, best_words
    from whest.tracking.parents import close_parent

    metrics = [
        (f"score/{row.estimator}", row.score, int(row.flop_budget or 0)) for row in rows if row.score is not None
    ]
    table = {column: [getattr(row, column) for row in rows] for column in COLUMNS} if rows else None
    files = [*folder.glob("*.png"), *folder.glob("sweep.csv"), *folder.glob("sweep.html")] if rows else []
    try:
        close_parent(
            tracking,
            run_id,
            metrics,
            table,
            "sweep.json",
            files,
            status=status,
            score=best_words(rows),
            words=". ".join(best_lines(rows)),
        )
    except Exception as error:
        LOG.warning("MLflow did not store the sweep's table (%s); it is saved in %s", error, folder)
