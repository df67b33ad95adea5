"""Typed objects from config nodes. The error for a wrong key, type or range names the key, the value and the remedy."""

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, get_type_hints

from pydantic import ConfigDict, Field, ValidationError, create_model

from whest.config.plugins import owner_of
from whest.errors import ConfigError

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


Node = Mapping[str, Any]


def build_target(target: Any, values: Mapping[str, Any], key: str) -> Any:
    """`target(**values)`, checked against the target's annotations. `key` is the place of the values in the config."""
    _refuse_unknown(target, values, key)
    return target(**_checked(target, values, key))


def build_group(config: Node, group: str, **more: Any) -> Any:
    """Build one group: its `_target_`, with its keys as arguments."""
    values = {key: value for key, value in config[group].items() if key != "_target_"} | more
    return build_target(_own_class(config[group].get("_target_"), group), values, group)


def _own_class(target: Any, group: str) -> Any:
    """The class of a group: one of whest's own, one that was typed, or one of an installed plug-in whose choice was.

    It runs in this process, with all its rights.
    """
    module, _, name = str(target).rpartition(".")
    is_own = module.startswith("whest.")
    if not is_own and not _is_typed(str(target), group):
        raise ConfigError(
            f"{group}._target_={target} is no class of whest, and would run in this process: if you trust it, type "
            f"{group}._target_={target} on the command line"
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(f"{group}._target_={target} can't be imported: give the path of a class") from None
    if is_own and not (isinstance(found, type) and found.__module__.startswith("whest.")):
        raise ConfigError(f"{group}._target_={target} is no class of whest: choose {group}=… from job=list")
    return found


def _is_typed(target: str, group: str) -> bool:
    """Whether this class, or the choice of a plug-in that names it, was typed on the command line."""
    from whest.config.compose import typed_words  # Hydra is slow to import, and a worker needs none of it

    words = [word.lstrip("+").partition("=") for word in typed_words()]
    if any(key == f"{group}._target_" and value.strip("'\"") == target for key, _, value in words):
        return True
    return owner_of(target, group, typed_words()) is not None


def _refuse_unknown(target: Any, values: Mapping[str, Any], key: str) -> None:
    signature = inspect.signature(target)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    unknown = [name for name in values if name not in signature.parameters]
    if unknown and not takes_any:
        known = ", ".join(signature.parameters) or "none"
        raise ConfigError(f"{_join(key, unknown[0])} is not a key of {key}={target.__name__}; its keys are: {known}")
    required = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind not in VARIADIC]
    missing = [_join(key, name) for name in required if name not in values]
    if missing:
        added = "+" if key == "estimator" else ""  # a knob that no YAML names is a new key of the config
        raise ConfigError(f"{missing[0]} is missing: set {added}{missing[0]}=…")


def _checked(target: Any, values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The values, converted to the types of the target's annotations. A value without an annotation stays as it is."""
    names, checker = _checker(target, tuple(values))
    try:
        model = checker(**values)
    except ValidationError as error:
        causes = [problem.get("ctx", {}).get("error") for problem in error.errors()]
        own = next((cause for cause in causes if isinstance(cause, ConfigError)), None)
        raise own or ConfigError(_explain(error, key)) from None
    checked = {name: getattr(model, field) for field, name in names.items()}
    for name in checked:
        if isinstance(values[name], bool) and not isinstance(checked[name], bool):
            raise ConfigError(f"{_join(key, name)} must be a number, got {values[name]!r}")
    return {**values, **checked}


@lru_cache(maxsize=128)
def _checker(target: Any, keys: tuple[str, ...]) -> tuple[dict[str, str], Any]:
    """The names of a model's fields, and the model that checks them: 1 ms to make, and a sweep's jobs share it."""
    hints = _annotations(target)
    names = {f"value_{i}": name for i, name in enumerate(keys) if name in hints}  # pydantic reserves some names
    schema: dict[str, Any] = {field: (hints[name], Field(alias=name)) for field, name in names.items()}
    return names, create_model("Checked", __config__=ConfigDict(arbitrary_types_allowed=True), **schema)


def _annotations(target: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, or of a constructor's parameters."""
    if is_dataclass(target):
        return get_type_hints(target, include_extras=True)
    try:
        made_by = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
        hints = get_type_hints(made_by, include_extras=True)
    except (NameError, TypeError):  # a name that only a type checker imports: nothing to check against
        return {}
    parameters = inspect.signature(target).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind not in VARIADIC and p.name in hints}


def _explain(error: ValidationError, key: str) -> str:
    """pydantic's errors, one sentence per key: "dataset.width must be greater than or equal to 1, got 0"."""
    findings: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for problem in error.errors():
        place = problem["loc"][:1] + tuple(part for part in problem["loc"][1:] if isinstance(part, int))
        name = _join(key, ".".join(str(part) for part in place))
        if problem["type"] == "missing" and len(problem["loc"]) > 1:
            name = _join(key, str(problem["loc"][0]))
            findings.setdefault(name, []).append("has too few items")
        else:
            findings.setdefault(name, []).append(problem["msg"].replace("Input should be", "must be"))
        values[name] = problem["input"]
    return "\n".join(f"{name} {' or '.join(found)}, got {values[name]!r}" for name, found in findings.items())


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
