"""`job=ui`: show the runs in MLflow's user interface."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.build import build_group
from whest.config.settings import read_settings
from whest.display.console import say
from whest.errors import JobFailedError
from whest.tracking import ui


def serve(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    tracking, experiment_id = ui.open_store(build_group(config, "tracking", outputs=settings.outputs))
    table, charts = (ui.address(experiment_id, settings.port, mode) for mode in ("TABLE", "CHART"))
    say(f"MLflow needs a few seconds to start. Then the runs are at\n{table}\nand their charts at\n{charts}")
    exit_code = ui.serve(tracking, settings.port)
    if exit_code:
        raise JobFailedError(
            f"MLflow's server ended with exit code {exit_code}: if port={settings.port} is in use, choose another"
        )
