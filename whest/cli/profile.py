"""`job=profile`: where the seconds and the FLOPs of an estimator go on this machine."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.build import build_group
from whest.config.compose import command_of
from whest.config.settings import read_settings
from whest.display.answer import tell
from whest.display.console import say
from whest.errors import ConfigError
from whest.experiment import build
from whest.files import write_atomically
from whest.notation import short_path
from whest.page import save_page
from whest.tasks.whitebox.measuring import measure_profile
from whest.tasks.whitebox.profile import Profile
from whest.tasks.whitebox.task import Whitebox
from whest.tracking.parents import close_parent, open_parent
from whest.tracking.runs import MlflowTracking

FILES = ("profile.json", "profile.html")
LOG = logging.getLogger(__name__)


def profile(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    task = build(config, folder, overrides).task
    if not isinstance(task, Whitebox):
        raise ConfigError(f"job=profile is for task=whitebox, not task={task.name}")
    refuse_unfit(task)
    found = measure_profile(task)
    folder.mkdir(parents=True, exist_ok=True)
    command = command_of(overrides)
    document = {**found.to_json(), "command": command}
    write_atomically(folder / FILES[0], json.dumps(document, indent=2, allow_nan=False).encode())
    save_page(found.page(command), folder / FILES[1])
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    if isinstance(tracking, MlflowTracking):
        _log(tracking, found, folder, command)
    tell(profile=document, folder=str(folder), files=list(FILES))
    for line in found.lines():
        say(line)
    say(f"saved            {short_path(folder)}: {', '.join(FILES)}")


def refuse_unfit(task: Whitebox) -> None:
    """A program is profiled where it runs, and it must run here as one program."""
    if task.estimator.mode != "traced":
        raise ConfigError(
            f"job=profile needs estimator.mode=traced, this estimator is {task.estimator.mode}: its report has the "
            "seconds of each operation"
        )
    if task.isolation.is_process(task.estimator):
        raise ConfigError(
            f"job=profile measures in this process, and estimator={task.estimator.name} runs in a worker: if you trust "
            "its code, add isolation=none isolation.require=[]"
        )


def _log(tracking: MlflowTracking, found: Profile, folder: Path, command: str) -> None:
    """One MLflow run with the figures and both files."""
    cost = found.cost
    figures = {
        "wall_time_s": found.wall_s,
        "profiled_wall_time_s": found.profiled_s,
        "remainder_s": found.remainder_s,
        "compile_time_s": found.compiled.total_s,
        "flops_used": cost.flops,
        "flops_xla": cost.flops_xla,
        "flops_flopscope": cost.flops_peer,
    }
    metrics = [(name, float(value), 0) for name, value in figures.items() if value is not None]
    tags = {"run_folder": str(folder), "command": command, "mlflow.source.name": command}
    try:
        run_id = open_parent(tracking, "profile", found.title, tags)
        close_parent(tracking, run_id, metrics, files=[folder / name for name in FILES], words=found.lines()[0])
    except Exception as error:
        LOG.warning(
            "MLflow at %s did not store the profile (%s); it is saved in %s", tracking.tracking_uri, error, folder
        )
