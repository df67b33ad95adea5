"""Optional packages of pyproject.toml: what needs them, and the command that installs them."""

import importlib.util
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Extra:
    """An entry of `[project.optional-dependencies]`."""

    module: str
    """Importable if the package is installed."""
    use: str


EXTRAS = {
    "ray": Extra("ray", "hydra/launcher=cluster sweeps over a Ray cluster"),
    "submitit": Extra("submitit", "hydra/launcher=slurm sweeps on SLURM, hydra/launcher=processes on this machine"),
    "joblib": Extra("hydra_plugins.hydra_joblib_launcher", "hydra/launcher=cores sweeps on this machine's cores"),
    "optuna": Extra("hydra_plugins.hydra_optuna_sweeper", "hydra/sweeper=tune searches for knobs"),
    "tune": Extra(
        "optuna", "job=tune searches for knobs (Optuna 4; not beside the extra optuna, whose plug-in stops at 2)"
    ),
    "hub": Extra("huggingface_hub", "dataset=hub reads published datasets"),
    "contest": Extra("cryptography", "job=host and job=verify sign and check a contest's board"),
    "postgres": Extra("psycopg", "tracking.uri=postgresql://… keeps the runs in PostgreSQL"),
}

PLUGIN = re.compile(r"hydra/(launcher|sweeper)/(joblib|submitit|ray|optuna)")
"""The config of a Hydra plugin, which is found only if the plugin is installed."""


def can_import(extra: Extra) -> bool:
    try:
        return importlib.util.find_spec(extra.module) is not None
    except ModuleNotFoundError:  # not even its package
        return False


def installing(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'whest[{extra}]'"


def missing_plugin(message: str, words: list[str]) -> str | None:
    """A sentence for Hydra's error about a plugin that is not installed; None for any other error."""
    found = PLUGIN.search(message)
    if found is None:
        return None
    group = f"hydra/{found[1]}"
    typed = next((word for word in words if word.startswith(f"{group}=")), f"{group}={found[2]}")
    return f"{typed} needs a package that is not installed: {installing(found[2])}"
