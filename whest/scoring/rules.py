"""Every rule by its name, with the function that checks a report's score against its own rows."""

from collections.abc import Callable, Mapping
from typing import Any

from whest.scoring import ari, fherma, prism, whest

Recompute = Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]
"""From a report's `run_config` and `results` to the score its rows make: a check, never a ranking."""
RECOMPUTE: dict[str, Recompute] = {
    "whest": whest.recompute,
    "fherma": fherma.recompute,
    "prism": prism.recompute,
    "ari": ari.recompute,
}
