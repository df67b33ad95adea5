"""whest: score estimators of neural-network means under a compute budget.

    import whest
    report = whest.run("estimator=cov_prop", "dataset.n_mlps=5")

Names are looked up when they are first used, so that `import whest` brings neither JAX nor MLflow nor Hydra.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whest.api import compose as compose
    from whest.api import load_dataset as load_dataset
    from whest.api import run as run
    from whest.meter import Cost as Cost
    from whest.report import Report as Report

__version__ = "0.1.0"

_HOMES = {
    "compose": "whest.api",
    "run": "whest.api",
    "load_dataset": "whest.api",
    "Report": "whest.report",
    "Cost": "whest.meter",
}
__all__ = ["Cost", "Report", "__version__", "compose", "load_dataset", "meter", "run"]


def __getattr__(name: str) -> Any:
    if name == "meter":
        return importlib.import_module("whest.meter")  # the module is the function, see there
    if name not in _HOMES:
        raise AttributeError(f"module 'whest' has no attribute {name!r}: it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
