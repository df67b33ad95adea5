"""`job=reproduce run=…`: run a recorded run again, and say whether it came out the same."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from yaml import YAMLError

from whest.compare.entrants import Entrant, entrant
from whest.compare.reproduction import Reproduction, judge
from whest.config.build import build_group, build_target
from whest.config.folders import FolderError, check_text
from whest.config.settings import GROUPS, read_settings
from whest.config.sources import config_folder
from whest.dataset.sources import of_its_time
from whest.display.answer import tell
from whest.display.console import open_console
from whest.display.progress import open_progress
from whest.document import CONFIG, SOURCE
from whest.errors import ConfigError, JobFailedError, WhestError
from whest.estimator.spec import ENTRY
from whest.experiment import AnyExperiment, build, run
from whest.files import inside, read_bounded, write_atomically
from whest.provenance.source import read_source_files
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE, read_predictions
from whest.tracking.recorded import fetch_folder, find_run_id, read_report
from whest.tracking.runs import MlflowTracking

Config = Mapping[str, Any]
FILE = "reproduction.json"
OPERATORS = (
    "job",
    "run",
    "path",
    "output",
    "outputs_dir",
    "tracking",
    "resume",
    "figures",
    "page",
    "profile",
    "provenance",
    "port",
)
"""Values that this command decides, and not the record: where things go."""
LARGEST_CONFIG = 2**20
COLOURS = {"same bits": "green", "within noise": "yellow", "differs": "red", "failed": "red"}


@dataclass(frozen=True)
class ReproduceOptions:
    """The config's `reproduce`."""

    source: Literal["kept", "current"]


def reproduce(config: Config, folder: Path, overrides: list[str]) -> None:
    found = carry_out(config, folder, open_console())
    if found.verdict == "differs":
        raise JobFailedError(f"the run differs from the recorded one: {found.reason}")
    if found.verdict == "failed":
        raise JobFailedError("neither run has an answer: repair the estimator, and score it again")


def carry_out(config: Config, folder: Path, console: Console) -> Reproduction:
    """Run the record's config again, compare the two reports, print and save the verdict."""
    settings = read_settings(config)
    options: ReproduceOptions = build_target(ReproduceOptions, config["reproduce"], "reproduce")
    if settings.run is None:
        raise ConfigError("run is missing: name an MLflow run's id or a run's folder, job=reproduce run=RUN_DIR")
    with recorded_folder(settings.run, config) as place, tempfile.TemporaryDirectory() as elsewhere:
        before = _recorded(place, settings.run)
        kept = keep_apart(place / SOURCE, Path(elsewhere)) if options.source == "kept" else None
        experiment = rebuild(config, place, folder, kept)
        _refuse_other_estimator(experiment, before)
        with open_progress(console) as progress:
            report = run(experiment, folder, progress)
        if report.meta.status == "interrupted":
            raise KeyboardInterrupt
        answers = before.answers, read_predictions(folder / PREDICTIONS_FILE)
        sources = read_source_files(place / SOURCE), read_source_files(folder / SOURCE)
        found = judge(before.report, report.to_json(), answers, sources)
    document = {**found.to_json(), "run": settings.run, "repeated": str(folder)}
    write_atomically(folder / FILE, json.dumps(document, indent=2).encode())
    tell(**document)
    print_reproduction(found, before.name, folder, console)
    return found


@contextmanager
def recorded_folder(text: str, config: Config, key: str = "run") -> Iterator[Path]:
    """The folder of a recorded run, as `key` names it. A run of MLflow is fetched into a temporary one."""
    path = Path(text)
    if path.exists():
        yield path.absolute() if path.is_dir() else path.absolute().parent
        return
    if "/" in text:  # an id has none
        raise ConfigError(f"{key}={text} is no file or folder: name a run's folder or its id, job=runs lists them")
    tracking = build_group(config, "tracking", outputs=read_settings(config).outputs)
    if not isinstance(tracking, MlflowTracking):
        raise ConfigError(f"{key}={text} is no file or folder, and tracking=none has no runs: add tracking=mlflow")
    client, experiment_id = tracking.reopen()
    run_id = find_run_id(client, experiment_id, text, key)
    with tempfile.TemporaryDirectory() as temporary:
        fetch_folder(client, run_id, Path(temporary), (CONFIG, PREDICTIONS_FILE), (SOURCE,))
        yield Path(temporary)


def _recorded(folder: Path, text: str) -> Entrant:
    try:
        return entrant(read_report(folder), read_predictions(inside(folder, PREDICTIONS_FILE)), text)
    except (WhestError, OSError) as error:
        raise ConfigError(str(error).replace("compare.runs has", "run is")) from None


def keep_apart(source: Path, folder: Path) -> Path:
    """Copy a kept source out of the outputs folder, which a worker can't see because it holds answers."""
    for name, content in read_source_files(source).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def rebuild(config: Config, place: Path, folder: Path, kept: Path | None) -> AnyExperiment:
    """The experiment of a record's config.yaml, with this command's own store and folders.

    `kept` has the source to use; None takes the file that the config names.
    The record is data: its config may not choose a class or a program that runs outside the worker.
    """
    recorded = {**config, **read_config(place), **{key: config[key] for key in OPERATORS}, "job": "score"}
    node = dict(recorded["estimator"])
    if node.get("python") is not None and node["python"] != config["estimator"].get("python"):
        raise ConfigError(
            f"the recorded run used estimator.python={node['python']}: if you trust that program, add "
            f"estimator=whestbench estimator.path={node.get('path')} estimator.python={node['python']}"
        )
    if node.get("path") is not None:
        node["path"] = str(node["path"] if kept is None else source_path(kept, Path(str(node["path"]))))
    if recorded["isolation"].get("kind") == "none" and config["isolation"].get("kind") != "none":
        raise ConfigError("the recorded run ran with isolation=none: if you trust its code, add isolation=none")
    demanded, kept_up = config["isolation"]["require"], recorded["isolation"].get("require") or ()
    waived = sorted(set(demanded) - set(kept_up))
    if waived:
        raise ConfigError(
            f"the recorded run did without the protection of {', '.join(waived)}: if you trust its code, add "
            f"isolation.require=[{','.join(map(str, kept_up))}]"
        )
    refuse_other_classes(recorded)
    return build({**recorded, "estimator": node}, folder)


def refuse_other_classes(recorded: Config) -> None:
    """Only classes that whest's own conf/ names: whoever wrote the record must not choose what runs here."""
    for group in GROUPS:
        target = recorded[group].get("_target_")
        files = (config_folder() / group).glob("*.yaml")
        known = {line.split()[1] for file in files for line in file.read_text().splitlines() if line[:9] == "_target_:"}
        if target is not None and target not in known and group != "estimator":
            raise ConfigError(f"the recorded run used {group}._target_={target}, which is none of whest's choices")


def _refuse_other_estimator(experiment: AnyExperiment, before: Entrant) -> None:
    """The config of a run from a script doesn't name the object that was scored."""
    spec, told = experiment.task.estimator, before.estimator
    if (spec.name, spec.target) != (told["name"], told["target"]):
        raise ConfigError(
            f"the recorded run scored {told['name']} ({told['target'] or 'a file'}), an object of a script, which its "
            "config can't make again: save the class in a file and score that"
        )


def read_config(place: Path) -> dict[str, Any]:
    try:
        text = read_bounded(inside(place, CONFIG), LARGEST_CONFIG).decode()
        check_text(text, str(place / CONFIG))  # no aliases: ten lines of them take all memory
        loaded = OmegaConf.to_container(OmegaConf.create(text))
    except FolderError:
        raise
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(
            f"{place / CONFIG} can't be read ({str(error).splitlines()[0]}): a run without it can't be repeated"
        ) from None
    if not isinstance(loaded, dict):
        raise ConfigError(f"{place / CONFIG} is no config: put the run's own file there")
    return of_its_time({str(key): value for key, value in loaded.items()})


def source_path(kept: Path, path: Path) -> Path:
    """The kept copy of an estimator's file or folder."""
    found = kept / path.name if (kept / path.name).is_file() else kept
    if found == kept and not (kept / ENTRY).is_file():
        raise ConfigError(
            f"the recorded run kept no source of {path}: use the file as it is now, reproduce.source=current"
        )
    return found


def print_reproduction(found: Reproduction, name: str, folder: Path, console: Console) -> None:
    console.print(f"[bold {COLOURS[found.verdict]}]{found.verdict}[/]: {name}, {found.reason}", soft_wrap=True)
    for cause in found.causes:
        console.print(f"  {cause}", markup=False, soft_wrap=True)
    if found.source_diff:
        console.print(found.source_diff, markup=False, soft_wrap=True)
    console.print(f"saved    {folder / FILE}", markup=False, soft_wrap=True)
