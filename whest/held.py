"""An estimator that exists already, in a script or a notebook: scored as it is, in this process."""

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from whest.errors import ConfigError
from whest.estimator import Estimator, EstimatorSpec
from whest.experiment import Experiment
from whest.isolation import Isolation


@dataclass(frozen=True, kw_only=True)
class HeldEstimator(EstimatorSpec):
    """Its class need not be importable; so it can't be sent to a worker."""

    made: Estimator

    @property
    def is_bundled(self) -> bool:
        return True  # as trusted as one of ours: whoever calls has run its code already

    @property
    def source(self) -> Path | None:
        return None

    @property
    def source_sha256(self) -> str | None:
        try:
            return hashlib.sha256(inspect.getsource(type(self.made)).encode()).hexdigest()
        except (OSError, TypeError):  # typed at a prompt that keeps no source
            return None

    def create(self) -> Estimator:
        return self.made


def with_estimator(experiment: Experiment, estimator: Estimator, config: Mapping[str, Any]) -> Experiment:
    """The same experiment with this object in place of the config's choice."""
    if experiment.task.name != "whitebox":
        raise ConfigError(
            f"task={experiment.task.name} takes no object of this process: save the class as a file, "
            'whest.run("estimator=file", "estimator.path=mine.py", …)'
        )
    if isinstance(estimator, type) or not callable(getattr(estimator, "predict", None)):
        raise ConfigError(f"estimator={estimator!r} must be an object with predict(mlp, budget): give Mine(), not Mine")
    if config["isolation"]["kind"] == "process":
        raise ConfigError("isolation=process can't take an object of this process: save it as a file, estimator.path=…")
    kind = type(estimator)
    spec = HeldEstimator(
        name=kind.__name__,
        mode=config["estimator"]["mode"],
        target=f"{kind.__module__}.{kind.__qualname__}",
        path=None,
        knobs=_knobs(estimator),
        made=estimator,
    )
    task: Any = experiment.task
    held = replace(task, estimator=spec, isolation=Isolation("none", fresh=False))
    return replace(experiment, task=held, notes={**experiment.notes, "participant": spec.name})


def _knobs(estimator: Any) -> dict[str, Any]:
    """What can be told of its settings: a dataclass's plain fields."""
    fields = asdict(estimator) if is_dataclass(estimator) and not isinstance(estimator, type) else {}
    return {name: value for name, value in fields.items() if isinstance(value, str | bool | int | float | None)}
