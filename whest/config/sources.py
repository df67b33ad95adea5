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
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from whest.config.folders import (
    LARGEST_FILE,
    check_header,
    check_place,
    check_text,
    check_values,
    refused,
)
from whest.files import TooLargeError, read_within
from whest.host import CONFIGS

SETS_MODE = ("hydra.mode", "hydra.searchpath", "--config-", "-c")
"""Words that set Hydra's mode, or that name a folder whose configs may."""
HYDRAS_OWN = ("hydra.", "hydra_plugins.")
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
        folder = Path(self.path)
        if folder.resolve().is_relative_to(config_folder().resolve()) or not _is_for_whest():
            return super().load_config(config_path)
        name = self._normalize_file_name(config_path)
        file = str(folder / name)
        check_place(config_path, file)
        try:
            text = read_within(folder, name, LARGEST_FILE).decode()
        except (OSError, TooLargeError, UnicodeDecodeError) as error:
            raise refused(file, "", f"it can't be read ({error}). Put a small YAML file there") from None
        check_text(text, file)
        return _checked(_load(text, self, file), file)


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


def _checked(result: ConfigResult, file: str) -> ConfigResult:
    check_header(result.header, file)
    check_values(OmegaConf.to_container(result.config, resolve=False), file, _bundled_classes())
    return result


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
