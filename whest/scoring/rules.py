"""Every rule by its name, with the function that computes a report's score again from its rows."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from whest.config.plugins import targets
from whest.scoring import ari, fherma, prism, whest

Recompute = Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]
"""Takes a report's `run_config` and `results` and returns the score of its rows. It checks a report; it never ranks."""

RECOMPUTE: dict[str, Recompute] = {
    "whest": whest.recompute,
    "fherma": fherma.recompute,
    "prism": prism.recompute,
    "ari": ari.recompute,
}


def recompute_of(rule: str) -> Recompute | None:
    """The function of a rule: whest's own, or `recompute` of an installed plug-in's class of that name."""
    if rule in RECOMPUTE:
        return RECOMPUTE[rule]
    for target in targets("scoring"):
        module, _, name = target.rpartition(".")
        found = getattr(importlib.import_module(module), name, None)
        if getattr(found, "name", None) == rule:
            return getattr(found, "recompute", None)
    return None
