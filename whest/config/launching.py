"""Jobs of one's own through Hydra's launchers, inside a job: on this machine's cores, on SLURM or on Ray."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, open_dict, read_write


def is_sweeps_job() -> bool:
    """Whether the job that runs now is one of a sweep, -m."""
    return bool(HydraConfig.get().mode == RunMode.MULTIRUN)


def launch(
    task: Callable[[DictConfig], Any], jobs: Sequence[Sequence[str]], folder: Path, variables: dict[str, str]
) -> list[Any]:
    """Run the task once per list of words, by the launcher that was typed. The result has each job's value or error.

    `folder` is for the jobs' own folders, `variables` are set in their environment.
    """
    config = cast(DictConfig, copy.deepcopy(HydraConfig.instance().cfg))
    told = [f"hydra.sweep.dir={_quoted(str(folder))}"]
    told += [f"+hydra.job.env_set.{name}={value}" for name, value in variables.items()]
    with read_write(config), read_write(config.hydra), open_dict(config), open_dict(config.hydra):
        config.hydra.sweep.dir = str(folder)
        config.hydra.overrides.hydra.extend(told)
    context = HydraContext(config_loader=GlobalHydra.instance().config_loader(), callbacks=Callbacks(config))
    launcher = Plugins.instance().instantiate_launcher(hydra_context=context, task_function=task, config=config)
    returned = launcher.launch([list(words) for words in jobs], initial_job_idx=0)
    return [one._return_value for one in returned]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"
