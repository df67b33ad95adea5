"""Compose a config with Hydra: from the words of the command line to plain data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from whest.config.commands import command_line
from whest.config.folders import file_beside
from whest.config.jobs import JOBS
from whest.config.sources import config_folder as config_folder
from whest.config.sources import guard_folders as guard_folders
from whest.config.versions import BASE, register_resolver
from whest.config.words import written_out
from whest.errors import ConfigError
from whest.notation import short_path


def _beside(name: str) -> str:
    """`${beside:mine.py}`: the path of a file in the folder of --config-dir (or of hydra.searchpath)."""
    sources = HydraConfig.get().runtime.config_sources
    folders = [Path(source.path) for source in sources if source.schema == "file" and source.provider != "main"]
    return str(file_beside(name, folders))


def _file_stem(*, _parent_: DictConfig) -> str:
    """`${file_stem:}`: the name, without suffix, of the file under the key `path` of the same node."""
    return "file" if OmegaConf.is_missing(_parent_, "path") else Path(_parent_.path).stem or "file"


def _job_lines() -> str:
    """`${jobs:}`: a line per job, for --help."""
    return "".join(f"  {name:<12} {job.summary}\n" for name, job in JOBS.items())


register_resolver("jobs", _job_lines)
register_resolver("beside", _beside)
register_resolver("file_stem", _file_stem)


def command_of(overrides: Sequence[str]) -> str:
    """The command line with these words, and with the config folders that they need."""
    return command_line([*(word for word in _folder_words() if word not in overrides), *overrides])


def _folder_words() -> list[str]:
    """The words that gave the config in force its folders: --config-dir is a flag, and no override."""
    if not HydraConfig.initialized():
        return []
    config = HydraConfig.get()
    given = [Path(source.path) for source in config.runtime.config_sources if source.provider == "command-line"]
    flags = [word for folder in given for word in ("--config-dir", str(short_path(folder)))]
    return [*flags, *_searchpath_words()]


def _searchpath_words() -> list[str]:
    typed = HydraConfig.get().overrides.hydra if HydraConfig.initialized() else []
    return [word for word in typed if word.lstrip("+").startswith("hydra.searchpath=")]


def compose(*words: str, config_dir: str | Path | None = None) -> dict[str, Any]:
    """The config of these command-line words, as plain data. `config_dir` adds a folder with your own configs."""
    own = [f"hydra.searchpath=[file://{Path(config_dir).absolute()}]"] if config_dir is not None else []
    GlobalHydra.instance().clear()
    guard_folders()
    full = written_out(words)
    try:
        with initialize_config_dir(str(config_folder()), **BASE):
            config = hydra_compose("config", [*full, *own], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        from whest.config.explain import explain_override  # only where it is needed

        raise ConfigError(explain_override(error, config_folder(), full)) from None
    HydraConfig.instance().set_config(config)
    with open_dict(config):
        config.pop("hydra")
    return _plain(config)


def recompose(overrides: Sequence[str]) -> dict[str, Any]:
    """Compose another config inside a job, with the same search path. The job's own config is restored after it."""
    before, words = HydraConfig.instance().cfg, [*overrides, *_searchpath_words()]
    loader = GlobalHydra.instance().config_loader()
    try:
        config = loader.load_configuration("config", words, run_mode=RunMode.RUN)
        HydraConfig.instance().set_config(config)
        with open_dict(config):
            config.pop("hydra")
        return _plain(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(str(error).strip()) from None
    finally:
        HydraConfig.instance().cfg = before


def launcher_words() -> list[str]:
    """The words that chose a launcher for sweeps; none if jobs run one after the other."""
    typed = HydraConfig.get().overrides.hydra if HydraConfig.initialized() else []
    return [word for word in typed if word.lstrip("+").startswith(("hydra/launcher", "hydra.launcher"))]


def typed_words() -> list[str]:
    """The overrides of the config in force: what the operator typed."""
    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []


def choices(group: str) -> list[str]:
    """The choices of a config group, with the user's own configs."""
    loader = GlobalHydra.instance().config_loader()
    found: list[str] = loader.get_group_options(group, config_name="config", overrides=_searchpath_words())
    return sorted(found)


def _plain(config: Any) -> dict[str, Any]:
    container = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}
