"""Configs of installed packages and of the user, as folders on Hydra's search path, after whest's own.

A package names its config package as an entry point of the group `whest.configs`; `pip install` of it adds choices. The
operator installed it, so its code is as trusted as any library. Its estimators run in a worker all the same, and its
other classes run here only if their choice was typed (`whest.config.build`). Finding a package runs none of it.
"""

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

ENTRY_POINTS = "whest.configs"
GROUPS = ("estimator", "scoring", "truth", "leaderboard", "dataset", "data")
"""The groups that a plug-in may add choices to."""


@dataclass(frozen=True)
class Plugin:
    """An installed package with choices for whest."""

    distribution: str
    version: str
    module: str
    """The package of its configs."""
    folder: Path | None
    """None: the entry point names a package that isn't there."""

    @property
    def package(self) -> str:
        """The top-level package, which its classes must belong to."""
        return self.module.partition(".")[0]

    def choices(self) -> list[tuple[str, str]]:
        """Group and name of every choice."""
        if self.folder is None:
            return []
        return [(group, path.stem) for group in GROUPS for path in sorted((self.folder / group).glob("*.yaml"))]

    def has(self, group: str, name: str) -> bool:
        return (group, name) in self.choices()


@cache
def plugins() -> tuple[Plugin, ...]:
    """Every installed plug-in, by name."""
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINTS)
    made = {_plugin(point.value, point.dist.name, point.dist.version) for point in found if point.dist is not None}
    return tuple(sorted(made, key=lambda plugin: (plugin.distribution, plugin.module)))


def _plugin(module: str, distribution: str, version: str) -> Plugin:
    first, *parts = module.split(".")
    found = find_module(first)
    places = list(found.submodule_search_locations or ()) if found else []
    folders = [place for place in (Path(folder).joinpath(*parts) for folder in places) if place.is_dir()]
    return Plugin(distribution, version, module, folders[0] if folders else None)


def plugin_at(folder: Path) -> Plugin | None:
    """The plug-in whose configs lie in this folder."""
    return next((one for one in plugins() if one.folder and one.folder.resolve() == folder.resolve()), None)


def owner_of(target: str, group: str, words: Sequence[str]) -> Plugin | None:
    """The plug-in that has this class, if a choice of its group was typed: `truth=mine`."""
    typed = {word.lstrip("+").partition("=")[2] for word in words if word.lstrip("+").startswith(f"{group}=")}
    for plugin in plugins():
        if target.partition(".")[0] == plugin.package and any(plugin.has(group, name) for name in typed):
            return plugin
    return None


def targets(group: str) -> list[str]:
    """The classes that the choices of installed plug-ins name, each of the plug-in's own package."""
    found = []
    for plugin in plugins():
        for kind, name in plugin.choices():
            lines = (Path(plugin.folder or "") / kind / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
            named = [line.partition(":")[2].split("#")[0].strip() for line in lines if line.startswith("_target_:")]
            found += [target for target in named if kind == group and target.startswith(f"{plugin.package}.")]
    return found


def user_folder() -> Path:
    """The user's own configs: local/default.yaml has their defaults, estimator/ their choices."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111, no home is no error
    return Path(home) / "whest"


def added_folders() -> list[tuple[str, Path]]:
    """Provider and folder of everything that is searched after whest's own configs."""
    own = [("user's own", user_folder())] if user_folder().is_dir() else []
    return own + [(f"plug-in {one.distribution}", one.folder) for one in plugins() if one.folder is not None]


def find_module(name: str) -> ModuleSpec | None:
    """A module in the places of this process or in the working folder. Its packages are not run to find it."""
    first, *parts = name.split(".")
    try:
        found = importlib.util.find_spec(first) or PathFinder.find_spec(first, [str(Path.cwd())])
        for number in range(len(parts)):
            if found is None or found.submodule_search_locations is None:
                return None
            places = list(found.submodule_search_locations)
            found = PathFinder.find_spec(".".join([first, *parts[: number + 1]]), places)
    except (ImportError, ValueError, KeyError):  # KeyError: a folder without __init__.py in a package that isn't run
        return None
    return found
