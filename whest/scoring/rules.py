"""Every rule by its name, with the function that computes a report's score again from its rows."""

from collections.abc import Callable, Mapping
from typing import Any

from whest.scoring import ari, fherma, prism, whest

Recompute = Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]
"""Takes a report's `run_config` and `results` and returns the score of its rows. It checks a report; it never ranks."""

RECOMPUTE: dict[str, Recompute] = {
    "whest": whest.recompute,
    "fherma": fherma.recompute,
    "prism": prism.recompute,
    "ari": ari.recompute,
}
