"""`job=init`: write a new folder with a first estimator, its config and its test."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whest.config.compose import config_folder
from whest.config.settings import read_settings
from whest.display.console import say
from whest.errors import ConfigError
from whest.starter import next_steps, start_estimator


def start(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: name a folder for your estimator, job=init path=mine")
    taken = [path.stem for path in (config_folder() / "estimator").glob("*.yaml")]
    for path in start_estimator(settings.path, taken, settings.outputs):
        say(f"wrote    {path}")
    for place, command in enumerate(next_steps(settings.path)):
        say(f"{'' if place else 'next':<9}{command}")
