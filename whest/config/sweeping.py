"""The configs of a sweep's jobs, composed once per choice of groups.

Hydra composes each job twice, 80 ms of CPU time each: it reads all files again, though most jobs differ only in values,
which it sets at the very end. Here the composed config is kept, and a job gets a copy with its own values (3 ms).
"""

import copy
import pickle
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from hydra.plugins.sweeper import Sweeper
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from whest.config.copies import copy_quickly
from whest.config.sources import config_folder
from whest.config.versions import HYDRA

KEPT, MOST_KEPT = "_whest_kept", 16
"""The attribute of Hydra's loader with the kept configs. It travels with the loader to a launcher's processes."""
_HYDRAS_OWN, _HYDRAS_CHECK = ConfigLoaderImpl.load_sweep_config, Sweeper.validate_batch_is_legal


def compose_once() -> None:
    """Let Hydra 1.3 compose the jobs of whest's sweeps by `load_job`."""
    if HYDRA < (1, 4):
        ConfigLoaderImpl.load_sweep_config = load_job  # type: ignore[method-assign,assignment]
        Sweeper.validate_batch_is_legal = check_jobs  # type: ignore[method-assign,assignment]
        copy_quickly()


def check_jobs(sweeper: Any, batch: Sequence[Sequence[str]]) -> None:
    """Compose every job before the first one runs, as Hydra does. Jobs that only set values share one config here."""
    loader = sweeper.hydra_context.config_loader if getattr(sweeper, "hydra_context", None) else sweeper.config_loader
    if not _is_whests(loader):
        _HYDRAS_CHECK(sweeper, batch)
        return
    tried: dict[tuple[str, ...], DictConfig] = {}
    for overrides in batch:
        words = [_parsed(word) for word in overrides]
        values = [word for word in words if _sets_a_value(loader, word)]
        chosen = tuple(_line(word) for word in words if word not in values)
        if chosen not in tried or any(word.is_add() or word.is_delete() for word in values):
            tried[chosen] = loader.load_sweep_config(sweeper.config, list(overrides))
            continue
        loader.validate_sweep_overrides_legal(overrides=values, run_mode=RunMode.RUN, from_shell=True)
        _set_values(values, tried[chosen])


def _set_values(values: list[Override], config: DictConfig) -> None:
    try:
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
    except OmegaConfBaseException as error:
        raise ConfigCompositionException() from error


def load_job(loader: ConfigLoaderImpl, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
    """What `load_sweep_config` gives, from a kept config. Hydra itself composes the jobs of other programs."""
    if not _is_whests(loader):
        return _HYDRAS_OWN(loader, master_config, sweep_overrides)
    typed = OmegaConf.to_container(master_config.hydra.overrides.hydra)
    assert isinstance(typed, list)
    words = [_parsed(word) for word in (*map(str, typed), *sweep_overrides)]
    values = [word for word in words if _sets_a_value(loader, word)]
    loader.validate_sweep_overrides_legal(overrides=values, run_mode=RunMode.RUN, from_shell=True)
    config = _copy(loader, master_config.hydra.job.config_name, [_line(word) for word in words if word not in values])
    try:
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        _note_words(config, [word for word in words if not word.is_hydra_override()])
    except OmegaConfBaseException as error:
        raise ConfigCompositionException() from error
    OmegaConf.copy_cache(from_config=master_config, to_config=config)
    return config


@lru_cache(maxsize=4096)
def _parsed(word: str) -> Override:
    """Hydra loads each job twice: all of them before the first, to find errors, and each when it runs."""
    return _parser().parse_overrides([word])[0]


@cache
def _parser() -> OverridesParser:
    return OverridesParser.create()


def _is_whests(loader: ConfigLoaderImpl) -> bool:
    mains = [source for source in loader.get_sources() if source.provider == "main"]
    return [source.path for source in mains] == [str(config_folder())]


def _sets_a_value(loader: ConfigLoaderImpl, word: Override) -> bool:
    """Whether Hydra sets this after composing: a word that chooses no group's file and isn't about Hydra itself."""
    key = word.key_or_group
    return word.package is None and not word.is_hydra_override() and not loader.repository.group_exists(key)


def _line(word: Override) -> str:
    assert word.input_line is not None
    return word.input_line


def _copy(loader: ConfigLoaderImpl, name: str | None, lines: list[str]) -> DictConfig:
    kept: dict[Any, bytes | DictConfig] = vars(loader).setdefault(KEPT, {})
    key = (name, str(Path.cwd()), *lines)
    if key not in kept:
        if len(kept) >= MOST_KEPT:
            kept.pop(next(iter(kept)))
        kept[key] = _packed(loader.load_configuration(name, lines, run_mode=RunMode.RUN))
    packed = kept[key]
    copied: DictConfig = pickle.loads(packed) if isinstance(packed, bytes) else copy.deepcopy(packed)
    return copied


def _packed(config: DictConfig) -> bytes | DictConfig:
    """The config as bytes, from which a copy is made in 1 ms in place of 5."""
    try:
        return pickle.dumps(config)
    except pickle.PicklingError:  # Hydra imports its plug-ins again in a process that starts it twice
        return config


def _note_words(config: DictConfig, words: list[Override]) -> None:
    """All words of the task, in the order in which they were typed."""
    options = config.hydra.job.config.override_dirname
    config.hydra.overrides.task = [_line(word) for word in words]
    config.hydra.job.override_dirname = get_overrides_dirname(
        overrides=words, kv_sep=options.kv_sep, item_sep=options.item_sep, exclude_keys=options.exclude_keys
    )
