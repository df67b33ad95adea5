"""whest: score estimators of neural-network means under a compute budget.

    import whest
    report = whest.run("estimator=cov_prop", "dataset.n_mlps=5")

Names are imported at their first use, so that `import whest` loads neither JAX nor MLflow nor Hydra.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and not __file__.startswith(sys.path[0] + "/"):
    # `python -m` puts the working folder first, where a file could pass for a library. PYTHONPATH=. puts it back.
    del sys.path[0]

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whest.api import load_dataset as load_dataset
    from whest.api import run as run
    from whest.config.compose import compose as compose
    from whest.cost import Cost as Cost
    from whest.metering import meter as meter
    from whest.report import Report as Report

__version__ = "0.1.0"

_HOMES = {
    "compose": "whest.config.compose",
    "run": "whest.api",
    "load_dataset": "whest.api",
    "meter": "whest.metering",
    "Report": "whest.report",
    "Cost": "whest.cost",
}
__all__ = ["Cost", "Report", "__version__", "compose", "load_dataset", "meter", "run"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'whest' has no attribute {name!r}: it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def _former_meter() -> ModuleType:
    """Keep `from whest.meter import meter` working. A file `meter.py` would hide the function `whest.meter`."""

    def look_up(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module("whest.metering.walk"), name)

    module = ModuleType("whest.meter", "The meter, now in `whest.metering`.")
    vars(module)["__getattr__"] = look_up
    return module


sys.modules["whest.meter"] = _former_meter()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
