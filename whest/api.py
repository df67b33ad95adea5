"""Run whest from Python: compose a config, run it, get the report. docs/api.md has examples."""

import os
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whest.config.build import build_group
from whest.config.compose import command_of, compose
from whest.config.settings import read_settings
from whest.config.words import refuse_idle, written_out
from whest.dataset.sources import drawn_seed
from whest.errors import ConfigError
from whest.estimator.contract import Estimator
from whest.estimator.instance import HeldEstimator
from whest.experiment import AnyExperiment, build
from whest.experiment import run as carry_out
from whest.report import AnyReport

if TYPE_CHECKING:
    from whest.dataset.dataset import Dataset


def run(
    *words: str | Mapping[str, Any], estimator: Estimator | None = None, folder: str | Path | None = None
) -> AnyReport:
    """Run the words of a command line, or one composed config, and return the report.

    The files go to `folder`, by default to a new folder under outputs/runs. `estimator` is an object with `predict`:
    it is scored in this process, as trusted code.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    overrides = written_out([word for word in words if isinstance(word, str)])
    configs = [word for word in words if not isinstance(word, str)]
    if len(configs) > 1 or (configs and overrides):
        raise ConfigError("run takes command-line words, or one composed config: whest.run(whest.compose(…))")
    config = dict(configs[0]) if configs else compose(*overrides)
    job = read_settings(config).job
    if job != "score":
        raise ConfigError(f"job={job} gives no report: whest.run is for job=score, python -m whest does the others")
    refuse_idle(job, overrides)
    place = Path(folder) if folder is not None else _new_folder(read_settings(config).outputs)
    command = command_of(overrides) if not configs and estimator is None else ""
    experiment = build(config, place, overrides, command)
    return carry_out(experiment if estimator is None else with_estimator(experiment, estimator), place)


def _new_folder(outputs: Path) -> Path:
    """The folder that Hydra would choose."""
    return outputs / "runs" / datetime.now().strftime("%Y-%m-%d/%H-%M-%S-%f")


def score(config: Mapping[str, Any], folder: Path) -> AnyReport:
    """Run a composed config, and write the report's files to the folder."""
    return carry_out(build(config, folder), folder)


def load_dataset(*words: str) -> "Dataset":
    """A dataset of MLPs, from its path (`load_dataset("outputs/mine")`) or from words of a command line."""
    if len(words) == 1 and "=" not in words[0]:
        words = ("dataset=file", f"dataset.path={words[0]}")
    config = compose(*words)
    dataset: Dataset = build_group(config, "dataset", **drawn_seed(config)).load()
    return dataset


def with_estimator(experiment: AnyExperiment, estimator: Estimator) -> AnyExperiment:
    """The same experiment with this object instead of the config's estimator."""
    if experiment.task.name != "whitebox":
        raise ConfigError(
            f"estimator={type(estimator).__name__} is an object, which task={experiment.task.name} can't use: save the "
            'class in a file, whest.run("estimator=file", "estimator.path=mine.py", …)'
        )
    if isinstance(estimator, type) or not callable(getattr(estimator, "predict", None)):
        raise ConfigError(f"estimator={estimator!r} must be an object with predict(mlp, budget): give Mine(), not Mine")
    config = experiment.config
    if config["isolation"]["kind"] == "process":
        raise ConfigError(
            "isolation=process can't use an object: leave it out, or save the class in a file, estimator.path=mine.py"
        )
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
    held = replace(task, estimator=spec, isolation=replace(task.isolation, kind="none", fresh=False))
    return replace(experiment, task=held, notes={**experiment.notes, "participant": spec.name})


def _knobs(estimator: Any) -> dict[str, Any]:
    """The object's settings for the report: the plain fields of a dataclass."""
    fields = asdict(estimator) if is_dataclass(estimator) and not isinstance(estimator, type) else {}
    return {name: value for name, value in fields.items() if isinstance(value, str | bool | int | float | None)}
