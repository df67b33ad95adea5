"""What differs between the versions of Hydra and OmegaConf that whest runs on: 1.3 with 2.3, and 1.4 with 2.4."""

from collections.abc import Callable, Sequence
from typing import Any

import hydra
import omegaconf
from omegaconf import OmegaConf


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


HYDRA, OMEGACONF = _release(hydra.__version__), _release(omegaconf.__version__)

BASE: dict[str, Any] = {"version_base": "1.3"} if HYDRA < (1, 4) else {}
"""An argument of `hydra.main` and `initialize…`. Hydra 1.3 asks for it, 1.4 warns of it; both behave as 1.3 does."""

CALLBACK = "whest.sweeps.callback.SweepCallback"


def main_arguments(words: Sequence[str]) -> dict[str, Any]:
    """Those of `hydra.main`. Hydra 1.4 makes no object of a config but of these classes: ours, and typed ones."""
    if HYDRA < (1, 4):
        return BASE
    typed = (word.lstrip("+").partition("=") for word in words)
    own = [value.strip("'\"") for key, _, value in typed if key.startswith("hydra.") and key.endswith("._target_")]
    return {"execution_whitelist": (CALLBACK, *own)}


def register_resolver(name: str, resolver: Callable[..., Any]) -> None:
    """Make `${name:…}` known, under the name that OmegaConf's own function has in this version."""
    # 2.3 has a `register_resolver` too, its old one with other arguments.
    register = OmegaConf.register_new_resolver if OMEGACONF < (2, 4) else vars(OmegaConf)["register_resolver"].__func__
    register(name, resolver, replace=True)
