"""Checks of Python, of the required packages and of the optional ones."""

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from whest.checks.finding import Finding
from whest.config.extras import EXTRAS, Extra, can_import, installing
from whest.config.plugins import Plugin, plugins
from whest.estimator.peer import INSTALLING
from whest.host import CONFIGS, advice

NEEDED_PYTHON = (3, 11)
INSTALL = advice("make setup, or pip install -c constraints.txt -e .", "pip install --upgrade whest")


def check_python() -> Finding:
    found = platform.python_version()
    if sys.version_info < NEEDED_PYTHON:
        return Finding(
            "Python",
            "fail",
            f"{found}, 3.11 or newer is needed",
            advice("make setup PYTHON=python3.11", "python3.11 -m venv .venv"),
        )
    return Finding("Python", "ok", f"{found} in {Path(sys.prefix).name}")


def check_packages() -> list[Finding]:
    """Is each package of pyproject.toml installed, in the right version?"""
    try:
        asked = [Requirement(line) for line in requires("whest") or []]
    except PackageNotFoundError:
        return [Finding("whest", "warn", "is not installed, so its requirements can't be checked", INSTALL)]
    needed = [one for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
    wrong = [finding for finding in map(check_requirement, needed) if finding.status != "ok"]
    main = ("jax", "jaxlib", "mlflow", "hydra-core")
    versions = ", ".join(f"{name} {version(name)}" for name in main if _is_installed(name))
    return wrong or [Finding("packages", "ok", f"all {len(needed)} as pyproject.toml requires: {versions}")]


def check_names() -> Finding:
    """Names of MLPs come from faker's word lists, which a new faker may change."""
    from whest.mlp import KNOWN_NAMES, slug

    wrong = [f"{slug(seed)} for {name}" for seed, name in KNOWN_NAMES.items() if slug(seed) != name]
    found = f"faker {version('faker')}"
    if wrong:
        return Finding("names", "fail", f"{found} gives {wrong[0]}", "pip install 'faker>=37,<41'")
    return Finding("names", "ok", f"{found} gives the {len(KNOWN_NAMES)} names that are known")


def check_plugins() -> list[Finding]:
    """Installed packages that add choices."""
    return [_plugin_finding(plugin) for plugin in plugins()]


def _plugin_finding(plugin: Plugin) -> Finding:
    name = f"plug-in {plugin.distribution}"
    if plugin.folder is None:
        remedy = f"pip install --force-reinstall {plugin.distribution}, or pip uninstall {plugin.distribution}"
        return Finding(name, "warn", f"its config package {plugin.module} isn't there", remedy)
    added = ", ".join(f"{group}={choice}" for group, choice in plugin.choices()) or "no choices"
    hidden = [
        f"{group}={choice}" for group, choice in plugin.choices() if (CONFIGS / group / f"{choice}.yaml").exists()
    ]
    if hidden:
        return Finding(
            name, "warn", f"{hidden[0]} is whest's own, and whest's own is used", "rename the plug-in's file"
        )
    return Finding(name, "ok", f"{plugin.version} adds {added}")


def check_requirement(asked: Requirement) -> Finding:
    try:
        found = version(asked.name)
    except PackageNotFoundError:
        return Finding(asked.name, "fail", f"not installed, {asked} is needed", INSTALL)
    if not asked.specifier.contains(found, prereleases=True):
        return Finding(asked.name, "fail", f"{found} is installed, {asked} is needed", INSTALL)
    return Finding(asked.name, "ok", found)


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _state(name: str, extra: Extra) -> str:
    return "installed" if can_import(extra) else f"absent ({installing(name)})"


def check_options(peer: Path) -> list[Finding]:
    """Optional packages and programs. Only some commands need them, so a missing one is no problem."""
    found = [Finding(name, "ok", f"{_state(name, extra)}: {extra.use}") for name, extra in EXTRAS.items()]
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or os.environ.get("CHROMIUM")
    absent = f"absent ({advice('make system-deps', 'apt-get install chromium')})"
    found.append(Finding("Chromium", "ok", f"{browser or absent}: tests and pictures of pages"))
    is_installed = (peer / "bin" / "python").exists()
    use = "estimator=whestbench runs its submissions"
    absent = f"absent ({advice('make peer', INSTALLING)})"
    found.append(Finding("WhestBench", "ok", f"{peer if is_installed else absent}: {use}"))
    return found
