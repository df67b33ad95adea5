"""The command line: words in, Hydra composes the config, a job runs, and its result becomes the exit code."""

import errno
import io
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from whest.cli.jobs import carry_out
from whest.config.compose import config_folder, guard_folders
from whest.config.jobs import JOBS
from whest.config.sweeping import compose_once
from whest.config.versions import main_arguments
from whest.config.words import refuse_idle, written_out
from whest.display.answer import answer_in_json, give_answer, tell
from whest.errors import ConfigError, JobFailedError, WhestError
from whest.notation import printable
from whest.progress import Interrupt
from whest.sweeps.callback import finish_open_sweep
from whest.sweeps.resume import forget_problem, keep_problem

INTERRUPTED = 130
WRITES_NOTHING = ("list", "info", "inspect", "runs", "doctor")
"""Jobs that only read, unless `output` names a file."""
NO_PLACE = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EROFS, errno.ENAMETOOLONG, errno.ENOSPC)
"""Errors of a folder that can't be made or a file that can't be written."""
_PARENT = os.getppid()
compose_once()  # a launcher's process imports this module for `task_function`, and composes its job there


def _catch_signals() -> None:
    """SIGINT and SIGTERM as KeyboardInterrupt: a scheduler's stop saves the same as Ctrl-C."""
    Interrupt.came = False
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    Interrupt.came = True  # a library may turn the exception into one of its own, or lose it
    raise KeyboardInterrupt


def resolve(config: DictConfig) -> dict[str, Any]:
    """The composed config as plain data. A missing value is an error."""
    try:
        container = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException:
        refuse_missing(config)  # says it in fewer words
        raise
    assert isinstance(container, dict)
    if MISSING in str(container):  # asking each node by itself takes as long as the container
        refuse_missing(config)
    return {str(key): value for key, value in container.items()}


def refuse_missing(config: DictConfig) -> None:
    missing = sorted(str(key) for key in OmegaConf.missing_keys(config))
    if missing:
        raise ConfigError(f"{missing[0]} is missing: set {missing[0]}=…")


def task_function(config: DictConfig) -> Any:
    """Hydra's task function: carry out one job, alone or in a sweep."""
    from whest.config.settings import read_settings  # pydantic is slow to import, and --help needs none of it

    hydra_config = HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    folder = Path(hydra_config.runtime.output_dir)
    is_alone = hydra_config.mode == RunMode.RUN
    leaves_files = False
    if Interrupt.came or _is_left_alone():  # in an earlier job of the sweep, where it was lost
        raise KeyboardInterrupt
    forget_problem(folder)
    try:
        values = resolve(config)
        settings = read_settings(values)
        job = settings.job
        refuse_idle(job, overrides, str((values.get("dataset") or {}).get("_target_", "")))
        leaves_files = JOBS[job].keeps_folder
        if leaves_files:
            require_folder(settings.outputs_dir)
        answer_in_json(settings.console == "json")
        tell(job=job)
        value = carry_out(job, values, folder, overrides)
        if not is_alone:
            give_answer(0)
        return value
    except Exception as error:
        leaves_files = leaves_files and not isinstance(error, ConfigError)
        if not is_alone:
            keep_problem(folder, error)
            give_answer(getattr(error, "exit_code", 1), str(error))
        raise
    except KeyboardInterrupt:
        leaves_files = (folder / "report.json").exists()
        raise
    finally:
        if not leaves_files and is_alone:
            discard(folder, Path(hydra_config.output_subdir or ".hydra"), Path(config.get("outputs_dir", ".")))


def _is_left_alone() -> bool:
    """Whether this is joblib's process and the sweep that started it was killed.

    It has more jobs in its queue, which the same command, started again, runs too.
    """
    return current_process().name.startswith("LokyProcess") and os.getppid() != _PARENT


def require_folder(outputs_dir: Path) -> None:
    """Make the folder of all outputs, before any work."""
    try:
        outputs_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(_cannot_write(error)) from None


def _cannot_write(error: OSError) -> str:
    return f"{error.filename} can't be written ({error.strerror}): choose another outputs_dir or hydra.run.dir"


def discard(folder: Path, notes: Path, outputs: Path) -> None:
    """Remove the folder that Hydra made for a run that never began. Other files in it stay."""
    from whest.files import remove_empty

    shutil.rmtree(folder / notes, ignore_errors=True)
    for name in ("whest.log", "config.yaml"):
        (folder / name).unlink(missing_ok=True)
    remove_empty(folder, outputs)


def run_command_line() -> None:
    """Run Hydra with whest's exit codes: 2 for a wrong config, 1 for a failed job, 130 for Ctrl-C."""
    _prepare()
    try:
        answer_in_json("console=json" in sys.argv[1:])  # also for words that Hydra refuses
        sys.argv[1:] = written_out(sys.argv[1:])
        arguments = main_arguments(sys.argv[1:])
        with _own_place():
            hydra.main(config_path=str(config_folder()), config_name="config", **arguments)(task_function)()
        _end_sweep(is_interrupted=False)
        if "--multirun" not in sys.argv and "-m" not in sys.argv:
            give_answer(0)
    except SystemExit:
        raise
    except BaseException as error:
        _fail(error)
    finally:
        answer_in_json(False)
        Interrupt.came = False


@contextmanager
def _own_place() -> Iterator[None]:
    """Hydra makes a folder for every job. Of a job that writes nothing it is a temporary one: outputs may be closed."""
    words = sys.argv[1:]
    if not any(f"job={job}" in words for job in WRITES_NOTHING) or any("hydra.run.dir=" in word for word in words):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="whest-", ignore_cleanup_errors=True) as place:
        sys.argv.append(f"hydra.run.dir='{place}/run'")
        yield


def _prepare() -> None:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises exceptions instead of exiting by itself
    JobReturn.return_value = vars(JobReturn)["return_value"].getter(_returned)  # type: ignore[method-assign]
    guard_folders(is_application=True)
    _catch_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that can't print λ or ± must not stop the run


def _returned(returned: JobReturn) -> Any:
    """A job's value, or its exception without Hydra's "Error executing job with overrides" on stderr before it."""
    if returned.status == JobStatus.FAILED:
        raise returned._return_value
    return returned._return_value


def _fail(error: BaseException) -> None:
    """One sentence and an exit code for an error that has a remedy; a traceback for any other."""
    is_interrupted = isinstance(error, KeyboardInterrupt) or Interrupt.came
    sentence, exit_code = (_INTERRUPTION, INTERRUPTED) if is_interrupted else _explained(error)
    try:
        _end_sweep(is_interrupted)
    except JobFailedError as failed:
        sentence, exit_code = str(failed), failed.exit_code
    if sentence is None:
        raise error
    lines = [
        "\t".join(map(printable, line.split("\t"))) for line in sentence.splitlines()
    ]  # a stranger's words may be among them
    print(f"whest: {chr(10).join(lines)}", file=sys.stderr)
    give_answer(exit_code, "\n".join(lines))
    raise SystemExit(exit_code)


_INTERRUPTION = "interrupted; the finished work is saved"


def _explained(error: BaseException) -> tuple[str | None, int]:
    if isinstance(error, WhestError):
        return str(error), error.exit_code
    if isinstance(error, HydraException | OmegaConfBaseException):
        from whest.config.explain import explain_override

        return explain_override(error, config_folder(), sys.argv[1:]), ConfigError.exit_code
    if isinstance(error, OSError) and error.filename is not None and error.errno in NO_PLACE:
        return _cannot_write(error), ConfigError.exit_code
    if isinstance(error, RuntimeError) and "srun" in str(error):  # submitit's own words
        return f"hydra/launcher: {error} Elsewhere use hydra/launcher=processes", ConfigError.exit_code
    return None, WhestError.exit_code


def _end_sweep(is_interrupted: bool) -> None:
    """Print the table of a sweep that is still open. A failed job of it gives exit code 1, whatever failed."""
    rows = finish_open_sweep(is_interrupted)
    failed = [row for row in rows if row.status == "failed"]
    if failed and not is_interrupted:
        raise JobFailedError(f"{len(failed)} of {len(rows)} jobs failed: the table says why")
