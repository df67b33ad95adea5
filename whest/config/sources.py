"""Hydra's config sources with a guard: what comes from a folder that isn't the package's own is checked as it is read.

A config that fails a check never reaches Hydra, whichever road asked for it: --config-dir, hydra.searchpath,
`whest.compose(config_dir=…)`, a sweep's job or a comparison. The bytes that are checked are the bytes that are used.
"""

import io
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource
from hydra._internal.hydra import Hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from whest.config.folders import (
    LARGEST_FILE,
    check_header,
    check_local,
    check_place,
    check_text,
    check_values,
    refused,
)
from whest.config.plugins import GROUPS, added_folders, plugin_at, user_folder
from whest.files import TooLargeError, is_writable_by_others, read_within
from whest.host import CONFIGS

SETS_MODE = ("hydra.mode", "hydra.searchpath", "--config-", "-c")
"""Words that set Hydra's mode, or that name a folder whose configs may."""
HYDRAS_OWN = ("hydra.", "hydra_plugins.")
LOCAL = "local/"
OWN_PACKAGE = "whest.conf"
"""The configs of a wheel, by their name as a package."""


_HYDRAS_MODE = Hydra.get_mode


class _Guard:
    is_application = False
    """True in `python -m whest`: every config is for whest. Elsewhere another Hydra program may share the process."""


def config_folder() -> Path:
    """The checkout's conf/, or the one inside the installed package."""
    return CONFIGS


def guard_folders(*, is_application: bool = False) -> None:
    """Make Hydra read every folder through the classes below."""
    Plugins.instance()  # registers Hydra's own sources, and refuses to if ours are there already
    types = SourcesRegistry.instance().types
    types["file"], types["pkg"] = GuardedFiles, GuardedPackage
    Plugins.instance().register(AddedFolders)
    _Guard.is_application = _Guard.is_application or is_application
    if is_application:
        Hydra.get_mode = _mode  # type: ignore[method-assign]


def _mode(self: Hydra, config_name: str | None, overrides: list[str], *more: Any, **named: Any) -> Any:
    """`hydra.mode`. Hydra composes the whole config to learn it, but only these words or another folder can set it."""
    may_be_set = any(word.lstrip("+").startswith(SETS_MODE) for word in sys.argv[1:])
    return _HYDRAS_MODE(self, config_name, overrides, *more, **named) if may_be_set else None


class GuardedFiles(FileConfigSource):
    """`file://`: the package's own conf/ as it is, any other folder as data."""

    def load_config(self, config_path: str) -> ConfigResult:
        folder, name = Path(self.path), self._normalize_file_name(config_path)
        is_own = folder.resolve().is_relative_to(config_folder().resolve())
        if not _is_for_whest() or (is_own and not config_path.startswith(LOCAL)):
            return super().load_config(config_path)
        if config_path.startswith(LOCAL) and (is_own or folder.resolve() == user_folder().resolve()):
            return self._load_local(folder, name)
        file, plugin = str(folder / name), plugin_at(folder)
        group = check_place(config_path, file, ("estimator",) if plugin is None else GROUPS)
        return _checked(self._load_within(folder, name), file, group)

    def _load_within(self, folder: Path, name: str) -> ConfigResult:
        file = str(folder / name)
        try:
            text = read_within(folder, name, LARGEST_FILE).decode()
        except (OSError, TooLargeError, UnicodeDecodeError) as error:
            raise refused(file, "", f"it can't be read ({error}). Put a small YAML file there") from None
        check_text(text, file)
        return _load(text, self, file)

    def _load_local(self, folder: Path, name: str) -> ConfigResult:
        """The user's own defaults. Nobody else may have written them."""
        if is_writable_by_others(folder / name):
            raise refused(str(folder / name), "", f"others could have written it. Run chmod go-w {folder / name}")
        result = self._load_within(folder, name)
        check_local(result.header, str(folder / name))
        return result


class GuardedPackage(ImportlibResourcesConfigSource):
    """`pkg://`: Hydra's own packages as they are, any other as data."""

    def load_config(self, config_path: str) -> ConfigResult:
        if f"{self.path}.".startswith((*HYDRAS_OWN, f"{OWN_PACKAGE}.")) or not _is_for_whest():
            return super().load_config(config_path)
        file = f"pkg://{self.path}/{config_path}"
        check_place(config_path, file)
        return _checked(super().load_config(config_path), file)


# A launcher's job on another process gets this registry, then registers Hydra's own sources. Hydra keeps the class that
# is there if its name is the same, and refuses the job if not.
GuardedFiles.__name__ = FileConfigSource.__name__
GuardedPackage.__name__ = ImportlibResourcesConfigSource.__name__


def _load(text: str, source: ConfigSource, file: str) -> ConfigResult:
    try:
        header = ConfigSource._get_header_dict(text[:512])
        config = OmegaConf.load(io.StringIO(text))
    except (ValueError, OSError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise refused(file, "", f"it is not a config ({' '.join(str(error).split())[:200]}). Correct it") from None
    return ConfigResult(provider=source.provider, path=f"file://{source.path}", config=config, header=header)


def _checked(result: ConfigResult, file: str, group: str = "estimator") -> ConfigResult:
    check_header(result.header, file, group)
    check_values(OmegaConf.to_container(result.config, resolve=False), file, _bundled_classes(), group)
    return result


class AddedFolders(SearchPathPlugin):
    """Puts the configs of plug-ins and of the user behind whest's own, which therefore can't be replaced."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        entries = search_path.get_path()
        mains = [str(entry.path) for entry in entries if entry.provider == "main"]
        if any(_is_own(main) for main in mains):
            for provider, folder in added_folders():
                search_path.append(provider, f"file://{folder}")


def _is_own(address: str) -> bool:
    """Whether a search path's entry is whest's own conf/."""
    scheme, _, place = address.rpartition("://")
    return place == OWN_PACKAGE if scheme == "pkg" else Path(place).resolve() == config_folder().resolve()


@cache
def _bundled_classes() -> frozenset[str]:
    """The classes that whest's own choices of `estimator` name."""
    chosen = (OmegaConf.load(path) for path in (config_folder() / "estimator").glob("*.yaml"))
    return frozenset(str(OmegaConf.select(config, "_target_")) for config in chosen)


def _is_for_whest() -> bool:
    """Whether the config that is being composed is whest's: its own conf/ is on the search path."""
    if _Guard.is_application or not GlobalHydra.instance().is_initialized():
        return True
    sources = GlobalHydra.instance().config_loader().get_sources()
    own = config_folder().resolve()
    return any(source.path == OWN_PACKAGE if source.scheme() == "pkg" else _is_place(source, own) for source in sources)


def _is_place(source: ConfigSource, folder: Path) -> bool:
    return source.scheme() == "file" and Path(source.path).resolve() == folder
