"""Typed objects from config nodes: wrong keys, types and ranges are refused with the key, the value and the remedy."""

import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from whest.errors import ConfigError


def build_target(target: Any, values: Mapping[str, Any], key: str) -> Any:
    """`target(**values)`, checked against the target's annotations; `key` is where the values stand in the config."""
    _refuse_unknown(target, values, key)
    if not is_dataclass(target):
        try:
            return target(**values)
        except TypeError as error:
            raise ConfigError(f"{key}: {error}") from error
    try:
        return TypeAdapter(target).validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(problem, key) for problem in error.errors())) from None


def _refuse_unknown(target: Any, values: Mapping[str, Any], key: str) -> None:
    parameters = inspect.signature(target).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = [name for name in values if name not in parameters]
    if unknown:
        known = ", ".join(parameters) or "none"
        raise ConfigError(f"{key}.{unknown[0]} is not a key of {key}={target.__name__}; its keys are: {known}")


def _explain(problem: Any, key: str) -> str:
    """One of pydantic's findings as a sentence: "dataset.width must be greater than or equal to 1, got 0"."""
    parts = [str(part) for part in problem["loc"] if not str(part).startswith(("function-", "constrained", "list["))]
    place = ".".join(part for part in [key, *parts] if part)
    if problem["type"] == "missing" and isinstance(problem["loc"][-1], int):
        return f"{place.rpartition('.')[0]} has too few items, got {problem['input']!r}"
    if problem["type"] == "missing":
        return f"{place} is missing: set {place}=…"
    message = problem["msg"].replace("Input should be", "must be")
    return f"{place} {message}, got {problem['input']!r}"
