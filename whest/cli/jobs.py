"""Carry out a job: find it in the table of `whest.config.jobs`, import its module, call it."""

import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from whest.config.jobs import JOBS

Config = Mapping[str, Any]


def carry_out(job: str, config: Config, folder: Path, overrides: list[str]) -> Any:
    """Run `job=NAME`. The result is for whoever launched it, such as an optimising sweeper."""
    function: Callable[[Config, Path, list[str]], Any] = pkgutil.resolve_name(JOBS[job].target)
    return function(config, folder, overrides)
