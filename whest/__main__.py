"""The command line: Hydra composes the config, a job runs, and its result becomes the exit code."""

import sys

from whest.host import collect_less, leave, leave_working_folder

leave_working_folder(sys.path)  # before a file there can pass for one of the libraries below
collect_less()

import io
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from whest.cli.jobs import carry_out
from whest.config.compose import config_folder, guard_folders
from whest.config.jobs import JOBS
from whest.errors import ConfigError, WhestError
from whest.sweeps.callback import finish_open_sweep

INTERRUPTED = 130


def resolve(config: DictConfig) -> dict[str, Any]:
    """The composed config as plain data. A missing value is an error."""
    missing = sorted(str(key) for key in OmegaConf.missing_keys(config))
    if missing:
        raise ConfigError(f"{missing[0]} is missing: set {missing[0]}=…")
    container = OmegaConf.to_container(config, resolve=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def task_function(config: DictConfig) -> float | None:
    """Hydra's task function: carry out one job, alone or in a sweep."""
    from whest.config.settings import read_settings  # pydantic is slow to import, and --help needs none of it

    hydra_config = HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    folder = Path(hydra_config.runtime.output_dir)
    leaves_files = False
    try:
        values = resolve(config)
        job = read_settings(values).job
        leaves_files = JOBS[job].keeps_folder
        return carry_out(job, values, folder, overrides)
    except ConfigError:
        leaves_files = False
        raise
    except KeyboardInterrupt:
        leaves_files = (folder / "report.json").exists()
        raise
    finally:
        if not leaves_files and hydra_config.mode == RunMode.RUN:
            discard(folder, Path(hydra_config.output_subdir or ".hydra"))


def discard(folder: Path, notes: Path) -> None:
    """Remove the folder that Hydra made for a run that never began. Other files in it stay."""
    shutil.rmtree(folder / notes, ignore_errors=True)
    for name in ("whest.log", "config.yaml"):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def main() -> None:
    """Run Hydra with whest's exit codes: 2 for a wrong config, 1 for a failed job, 130 for Ctrl-C."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises exceptions instead of exiting by itself
    guard_folders(is_application=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a scheduler's stop saves the same as Ctrl-C
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that can't print λ or ± must not stop the run
    try:
        hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="config")(task_function)()
    except WhestError as error:
        _fail(str(error), error.exit_code)
    except (HydraException, OmegaConfBaseException) as error:
        from whest.config.explain import explain_override

        _fail(explain_override(error, config_folder(), sys.argv[1:]), ConfigError.exit_code)
    except (NotADirectoryError, PermissionError) as error:
        _fail(f"{error.filename} can't be made ({error.strerror}): choose another outputs_dir or hydra.run.dir", 2)
    except KeyboardInterrupt:
        _fail("interrupted; the finished work is saved", INTERRUPTED)


def _fail(message: str, exit_code: int) -> None:
    finish_open_sweep(is_interrupted=exit_code == INTERRUPTED)
    print(f"whest: {message}", file=sys.stderr)
    raise SystemExit(exit_code)


def command() -> NoReturn:
    """`python -m whest` and `whest-run`: `main`, and the end of the process."""
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        leave(ended.code or 0)
    leave(0)


if __name__ == "__main__":
    command()
