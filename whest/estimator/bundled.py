"""The bundled estimators as the package `estimators`, wherever they lie.

Configs, logged runs and boards name their classes `estimators.cov_prop.CovarianceProp`. A checkout has a folder of that
name. A wheel would take the name away from everybody else, so there the folder is `whest_estimators`, and only
processes of whest know it as `estimators`.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from whest.host import ESTIMATORS

BUNDLED = "estimators"
"""The package whose estimators are trusted."""


class BundledFinder(MetaPathFinder):
    """Finds `estimators` in the wheel's folder. Modules of another package of that name are looked for after ours."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != BUNDLED:
            return None
        other = PathFinder.find_spec(BUNDLED)
        places = [str(ESTIMATORS), *(other.submodule_search_locations or () if other else ())]
        return importlib.util.spec_from_file_location(
            BUNDLED, ESTIMATORS / "__init__.py", submodule_search_locations=places
        )


def know_bundled() -> None:
    """Let this process import the bundled estimators by their name."""
    if ESTIMATORS.name != BUNDLED and not any(isinstance(finder, BundledFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, BundledFinder())
