"""Hydra's errors, with the valid choices added."""

import difflib
import re
from itertools import pairwise
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from whest.config.extras import missing_plugin
from whest.config.plugins import plugins
from whest.config.versions import BASE

CONFIG_DIR = ("--config-dir", "-cd")
GROUP_CHOICE = re.compile(r"[\w/]+=[\w.-]+")


def explain_override(error: Exception, conf: Path, arguments: list[str]) -> str:
    """The error's text. An unknown key gets the list of known keys; an unknown choice gets the most similar one."""
    message = str(error).partition("Config search path")[0].strip()
    extra = missing_plugin(message, arguments)
    if extra is not None:
        return extra
    choice = re.search(r"Could not find '(\w+)/(\S+?)'", message)
    if choice is not None:
        names = [path.stem for path in (conf / choice[1]).glob("*.yaml")]
        names += [name for plugin in plugins() for group, name in plugin.choices() if group == choice[1]]
        close = [*_own_file(choice[1], choice[2]), *difflib.get_close_matches(choice[2], names, n=1)]
        meant = f"{choice[1]}={close[0]}" if close else _elsewhere(choice[2], conf)
        return f"{message}\nDid you mean {meant}?" if meant else message
    match = re.search(r"Could not override '([\w./]+)'", message)
    if match is None:
        return message
    parent, _, key = match[1].rpartition(".")
    known = known_keys(parent, conf, arguments)
    if not known:
        return message
    groups = [] if parent else [path.name for path in conf.iterdir() if path.is_dir()]
    close = difflib.get_close_matches(key, [*known, *groups], n=1)
    meant = f" Did you mean {_join(parent, close[0])}?" if close else ""
    place = f"{parent} has the keys" if parent else "the top-level keys are"
    knob = f". A knob of its class is added with a plus, +estimator.{key}=…" if parent == "estimator" else ""
    return f"{_join(parent, key)} is not a key of this config.{meant} {place}: {', '.join(known)}{knob}"


def _elsewhere(name: str, conf: Path) -> str:
    """A choice of this very name in another group, as in round=tiny."""
    return next((f"{path.parent.name}={name}" for path in sorted(conf.glob(f"*/{name}.yaml"))), "")


def _own_file(group: str, name: str) -> list[str]:
    """A file or a folder of this name, which `estimator=` takes with its suffix or a slash."""
    if group != "estimator":
        return []
    return [f"{name}.py"] if Path(f"{name}.py").is_file() else [f"./{name}"] if Path(name).is_dir() else []


def known_keys(parent: str, conf: Path, arguments: list[str]) -> list[str]:
    """The keys of a node, in the config that the groups of the command line compose."""
    groups = {path.name for path in conf.iterdir() if path.is_dir()}
    choices = [a for a in arguments if GROUP_CHOICE.fullmatch(a) and a.partition("=")[0] in groups]
    GlobalHydra.instance().clear()
    own = [Path(folder).absolute() for flag, folder in pairwise(arguments) if flag in CONFIG_DIR]
    searchpath = [f"hydra.searchpath=[{','.join(f'file://{folder}' for folder in own)}]"] if own else []
    try:
        with initialize_config_dir(str(conf), **BASE):
            composed = compose("config", choices + searchpath)
    except Exception:
        return []
    node = OmegaConf.select(composed, parent) if parent else composed
    return [str(key) for key in node] if isinstance(node, DictConfig) else []


def _join(parent: str, key: str) -> str:
    return f"{parent}.{key}" if parent else key
