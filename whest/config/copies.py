"""Copies of configs, and their text, in a fraction of the time that OmegaConf takes.

Hydra copies a job's config five times and writes it three times: 60 ms of CPU time per job, in which a cheap estimator
is scored. The copies and the files are the same.
"""

import copy
import pickle
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from hydra.core import utils
from hydra.core.hydra_config import HydraConfig
from omegaconf import AnyNode, DictConfig, OmegaConf
from omegaconf._utils import get_omega_conf_dumper

UNPACKABLE = (pickle.PicklingError, TypeError, AttributeError)
"""What pickle raises for a class that it can't find again."""


def copy_quickly() -> None:
    """Let Hydra 1.3 copy and write the configs of jobs by this module."""
    utils.copy = SimpleNamespace(deepcopy=_copied_for_job)  # type: ignore[attr-defined,assignment]
    utils._save_config = _save_config
    HydraConfig.set_config = _set_config  # type: ignore[method-assign]


def copied(config: Any) -> Any:
    """What `copy.deepcopy` makes of a config: nothing is shared with it but its parent."""
    if not isinstance(config, DictConfig):
        return copy.deepcopy(config)
    parent = config.__dict__["_parent"]
    content = config.__dict__["_content"]
    own = list(content.values()) if isinstance(content, dict) else []
    parents = [node.__dict__["_parent"] for node in own]
    config.__dict__["_parent"] = None
    for node in own:  # the part that is Hydra's own has the whole config as its parent, which is not to be packed
        node.__dict__["_parent"] = config
    try:
        made = pickle.loads(pickle.dumps(config, pickle.HIGHEST_PROTOCOL))
    except UNPACKABLE:  # Hydra imports its plug-ins again in a process that starts it twice
        made = copy.deepcopy(config)
    finally:
        config.__dict__["_parent"] = parent
        for node, before in zip(own, parents, strict=True):
            node.__dict__["_parent"] = before
    made.__dict__["_parent"] = parent
    return made


def _copied_for_job(config: Any) -> Any:
    """`run_job` copies the whole config, and first of all deletes Hydra's part of the copy: it is the larger half."""
    content = config.__dict__["_content"]
    if not isinstance(content, dict) or len(content) < 2 or "hydra" not in content:
        return copied(config)
    hydras = content["hydra"]
    content["hydra"] = AnyNode(None, key="hydra", parent=config)
    try:
        return copied(config)
    finally:
        content["hydra"] = hydras


def _set_config(self: HydraConfig, cfg: DictConfig) -> None:
    """Hydra's own part of a job's config, apart from the rest but able to refer to it. Nobody changes it from there."""
    OmegaConf.set_readonly(cfg.hydra, True)
    self.cfg = DictConfig({})  # type: ignore[assignment]
    self.cfg.__dict__["_content"]["hydra"] = cfg.hydra  # setting it by its name would copy it, node by node


def _save_config(cfg: Any, filename: str, output_dir: Path) -> None:
    output_dir.mkdir(parents=True, exist_ok=True)
    container = OmegaConf.to_container(cfg, enum_to_str=True)
    (output_dir / filename).write_text(yaml_text(container), encoding="utf-8")


def yaml_text(values: Any) -> str:
    """What `OmegaConf.to_yaml` writes for plain data. Most lines of a job's config are those of the job before."""
    if isinstance(values, dict) and values:
        return "".join(_pair_text(0, key, value) for key, value in values.items())
    return _dumped(values)


def _pair_text(depth: int, key: Any, value: Any) -> str:
    head = _kept_text(depth, key, _Shown({}))
    if isinstance(value, dict) and value and head.endswith(": {}\n") and head.count("\n") == 1:
        inner = (_pair_text(depth + 1, *pair) for pair in value.items())
        return head.removesuffix(" {}\n") + "\n" + "".join(inner)
    return _kept_text(depth, key, _Shown(value))


class _Shown:
    """A value that is the same as another if both are written in the same way."""

    def __init__(self, value: Any) -> None:
        self.value, self._text = value, repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


@lru_cache(maxsize=4096)
def _kept_text(depth: int, key: Any, shown: _Shown) -> str:
    """A key and its value so many levels down: where a long line is folded depends on its indent."""
    values = {key: shown.value}
    for _ in range(depth):
        values = {"x": values}
    return "".join(_dumped(values).splitlines(keepends=True)[depth:])


def _dumped(values: Any) -> str:
    text: str = yaml.dump(values, default_flow_style=False, allow_unicode=True, sort_keys=False, Dumper=_Dumper)
    return text


class _Dumper(yaml.Dumper):  # type: ignore[misc]
    """OmegaConf's: strings that look like numbers are quoted. Nothing is written as a reference to something above."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(str, get_omega_conf_dumper().str_representer)
_Dumper.add_representer(tuple, yaml.Dumper.represent_list)
