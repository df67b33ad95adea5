"""Carry out a job: find it in the table of `whest.config.jobs`, import its module, call it."""

import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from whest.config.jobs import JOBS

Config = Mapping[str, Any]


def carry_out(job: str, config: Config, folder: Path, overrides: list[str]) -> float | None:
    """Run `job=NAME`. The result is the value that an optimising sweeper receives."""
    function: Callable[[Config, Path, list[str]], float | None] = pkgutil.resolve_name(JOBS[job].target)
    return function(config, folder, overrides)
