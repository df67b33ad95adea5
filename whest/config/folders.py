"""What a config folder may say. A folder that isn't the package's own is data: it sets keys of its own estimators.

Each rule closes a road from a folder into this process: other groups and packages name classes that run here,
interpolations read the environment, a path or an interpreter of its own reaches other files and programs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from whest.errors import ConfigError

LARGEST_FILE = 2**16
"""Bytes of a folder's config."""

DEEPEST = 12
"""Levels of nesting in a folder's config."""

CHOICE = re.compile(r"(?P<group>\w+)/[A-Za-z0-9_][\w-]*(\.yaml)?", re.ASCII)

DEFAULT = re.compile(r"[A-Za-z0-9_][\w-]*")

REFERENCE = re.compile(
    r"\$\{(beside:[\w][\w./-]*|file_stem:|\.\w+|seed|budget|lam|(estimator|round)\.\w+(\.\w+)*)\}", re.ASCII
)
"""Interpolations that a folder may use: our own resolvers, its own keys, and the figures that `setup` is told."""

BESIDE = re.compile(r"\$\{beside:[^${}]+\}")

CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)

FORBIDDEN = {
    "python": "it names a program that runs outside the worker. Give it on the command line: estimator.python=…",
}


class FolderError(ConfigError):
    """A config folder that wants more than it may."""


def refused(file: str, key: str, what: str) -> FolderError:
    return FolderError(f"{file}: {key}: {what}" if key else f"{file}: {what}")


def check_place(config_path: str, file: str, groups: Sequence[str] = ("estimator",)) -> str:
    """The group of the choice: `estimator`, or one of those that a plug-in may add to."""
    found = CHOICE.fullmatch(config_path)
    if found is None or found["group"] not in groups:
        group = config_path.rpartition("/")[0] or config_path
        places = ", ".join(f"{name}/NAME.yaml" for name in groups)
        raise refused(
            file,
            group,
            f"{'a config folder' if len(groups) == 1 else 'a plug-in'} may only add choices of "
            f"{', '.join(groups)} ({places}). "
            "Set other keys on the command line, or put the file into whest's own conf/",
        )
    return found["group"]


def check_header(header: Mapping[str, str | None], file: str, group: str = "estimator") -> None:
    """No `# @package`: it would put the file's keys elsewhere in the config."""
    for name, value in header.items():
        if value is not None:
            raise refused(file, f"# @{name} {value}", f"a config folder may only set {group}.*. Remove the line")


def check_local(header: Mapping[str, str | None], file: str) -> None:
    """The user's own defaults are keys of the whole config."""
    if header.get("package") != "_global_":
        raise refused(file, "", "its first line must be `# @package _global_`. Add it")


def check_text(text: str, file: str) -> None:
    """Bounds on a file before it is loaded. An alias can stand for any number of copies, so there are none."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise refused(file, f"*{event.anchor}", "YAML aliases are not read here. Write the value out")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > DEEPEST:
                raise refused(file, "", f"it is nested deeper than {DEEPEST} levels. Make it flatter")
    except yaml.YAMLError as error:
        raise refused(file, "", f"it is not YAML ({' '.join(str(error).split())[:200]}). Correct it") from None


def check_values(values: Any, file: str, bundled: frozenset[str], group: str = "estimator") -> None:
    """The content of a choice. `bundled` are the classes that whest's own choices of `estimator` name."""
    if not isinstance(values, Mapping):
        raise refused(file, "", "it must be a mapping of keys to values")
    _check_defaults(values.get("defaults", []), file)
    for key, value in values.items():
        if key != "defaults":
            _check_key(str(key), value, file, bundled, group)


def _check_key(key: str, value: Any, file: str, bundled: frozenset[str], group: str) -> None:
    name = f"{group}.{key}"
    if key in FORBIDDEN:
        raise refused(file, name, FORBIDDEN[key])
    if key == "_target_":
        _check_target(value, file, bundled, group)
    elif _is_special(key):
        raise refused(file, name, "keys like _this_ are Hydra's own. Rename it")
    if key == "path" and value not in (None, "???") and not (isinstance(value, str) and BESIDE.fullmatch(value)):
        raise refused(
            file, f"{name}={value}", "name a file in this folder, path: ${beside:FILE.py}, or leave the path out"
        )
    for place, found in _walk(value, name, file):
        if not isinstance(found, str | bool | int | float | None):
            raise refused(file, place, f"{type(found).__name__} is no plain value. Write text or a number")
        if isinstance(found, str) and "${" in REFERENCE.sub("", found):
            raise refused(
                file,
                f"{place}={found}",
                "a config folder may refer to estimator.*, round.*, seed, budget and lam, and use ${beside:FILE}. "
                "Give anything else on the command line",
            )


def _check_target(value: Any, file: str, bundled: frozenset[str], group: str) -> None:
    key = f"{group}._target_={value}"
    if not isinstance(value, str) or CLASS.fullmatch(value) is None:
        raise refused(file, key, "it must be the path of a class, package.module.Class")
    if value.split(".")[0] == "estimators" and value not in bundled:
        raise refused(
            file,
            key,
            "it is none of the bundled estimators of job=list. Name one of them, or a class of yours",
        )


def _check_defaults(defaults: Any, file: str) -> None:
    """Only other choices of `estimator`, by name: no other group, no package, no `override`."""
    entries = defaults if isinstance(defaults, list) else [defaults]
    for entry in entries:
        if not isinstance(entry, str) or DEFAULT.fullmatch(entry) is None:
            raise refused(
                file, f"defaults has {entry!r}", "a config folder may only list names of other estimator choices there"
            )


def _walk(value: Any, place: str, file: str) -> Iterator[tuple[str, Any]]:
    """Every value beneath a key, with its place; keys are checked on the way."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if _is_special(str(key)) or "${" in str(key):
                raise refused(file, f"{place}.{key}", "keys like _this_ are Hydra's own. Rename it")
            yield from _walk(item, f"{place}.{key}", file)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _walk(item, f"{place}[{number}]", file)
    else:
        yield place, value


def _is_special(key: str) -> bool:
    return key.startswith("_") and key.endswith("_")


def file_beside(name: str, folders: list[Path]) -> Path:
    """A file in one of the config folders; neither `..` nor a link leads out of it."""
    for folder in folders:
        place = (folder / name).resolve()
        if place.is_file():
            if not place.is_relative_to(folder.resolve()):
                raise ConfigError(f"{name} leads out of the config folder {folder}: put the file itself there")
            return folder / name
    where = ", ".join(map(str, folders)) or "none was given"
    raise ConfigError(f"{name} is in no config folder ({where}): --config-dir FOLDER")
