"""`job=compare`: read recorded runs, run estimators, compare all of them, and save the result on disk and in MLflow."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from whest.compare import comparison as comparing
from whest.compare.comparison import CompareOptions, Comparison
from whest.compare.entrants import (
    Choice,
    Entrant,
    is_choice,
    kept_sources,
    named,
    read_choice,
    read_entrants,
    refuse_other_protocols,
)
from whest.compare.page import comparison_page
from whest.compare.view import draw_comparison, print_comparison
from whest.config.build import build_group, build_target
from whest.config.compose import choices, command_of, recompose
from whest.config.settings import read_settings
from whest.display.answer import tell
from whest.display.console import open_console
from whest.display.progress import open_progress
from whest.errors import ConfigError, JobFailedError
from whest.experiment import AnyExperiment, build, protocol_of, run
from whest.files import write_atomically
from whest.gallery.refresh import refresh
from whest.notation import figure
from whest.page import save_page
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE, read_predictions
from whest.tracking.naming import LONGEST_NAME, own_tags
from whest.tracking.parents import close_parent, open_parent
from whest.tracking.recorded import UnreadableError, read_report
from whest.tracking.runs import MlflowTracking

LOG = logging.getLogger(__name__)
FILES = ("comparison.json", "comparison.png", "comparison.html")
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Planned:
    """An estimator to run now, with its checked config."""

    choice: Choice
    experiment: AnyExperiment
    folder: Path


def compare(config: Config, folder: Path, overrides: list[str]) -> None:
    if not carry_out_comparison(config, folder, overrides, command_of(overrides), open_console()):
        raise JobFailedError("an estimator failed: see its report")


def carry_out_comparison(config: Config, folder: Path, overrides: list[str], command: str, console: Console) -> bool:
    """Compare, save and print. Returns whether all runs are free of errors."""
    options: CompareOptions = build_target(CompareOptions, config["compare"], "compare")
    tracking = build_group(config, "tracking", outputs=read_settings(config).outputs)
    store = tracking if isinstance(tracking, MlflowTracking) else None
    gathered = gather_entrants(options, store, folder, overrides, command)
    _refuse_before_work(gathered)
    entrants = [one if isinstance(one, Entrant) else _run_now(one, console) for one in gathered]
    runs = named(entrants)
    comparison = comparing.compare(runs, options)
    save_comparison(comparison, folder, command, runs)
    ran = [one.folder for one in gathered if isinstance(one, Planned)]
    if store is not None:
        settings = read_settings(config)
        log_comparison(store, comparison, folder, ran, command, settings.name, own_tags(settings.tags))
    tell(verdict=[pair.verdict for pair in comparison.pairs], folder=str(folder), files=list(FILES))
    print_comparison(comparison, folder, console)
    refresh(read_settings(config).outputs, folder)
    return not any(entrant.report["results"]["failure_breakdown"]["error"] for entrant in entrants)


def gather_entrants(
    options: CompareOptions, tracking: MlflowTracking | None, folder: Path, overrides: Sequence[str], command: str
) -> list[Entrant | Planned]:
    """The entrants of `compare.runs`, in order: recorded runs are read, estimators are planned. Nothing runs yet."""
    estimators = choices("estimator")
    gathered: list[Entrant | Planned] = []
    for text in options.runs or []:
        if is_choice(text, estimators):
            for choice in _over_seeds(text, options.seeds):
                place = folder / f"{len(gathered) + 1}-{Path(choice.text.split()[0]).stem}"
                gathered.append(_plan(choice, place, overrides, command))
        else:
            try:
                gathered += read_entrants(text, tracking, estimators)
            except UnreadableError as error:
                raise ConfigError(f"compare.runs has {text}: {error}") from None
    if len(gathered) < 2:
        raise ConfigError(
            f"compare.runs={options.runs} must name at least two runs: estimators to run now "
            "(compare.runs=[cov_prop,mean_prop]), MLflow run ids, report.json files or run folders"
        )
    return gathered


def _over_seeds(text: str, seeds: Sequence[int] | None) -> list[Choice]:
    return [read_choice(text)] if not seeds else [read_choice(f"{text} seed={seed}") for seed in seeds]


def _plan(choice: Choice, folder: Path, overrides: Sequence[str], command: str) -> Planned:
    keys = {word: word.lstrip("+~").partition("=")[0] for word in overrides}
    idle = [word for word, key in keys.items() if key == "estimator" or key.startswith("estimator.")]
    if idle:
        raise ConfigError(
            f'{idle[0]} has no effect on job=compare: write it into compare.runs, "{choice.text} knob=value"'
        )
    kept = [word for word, key in keys.items() if key not in ("job", "name") and not key.startswith("compare")]
    words = [*kept, *choice.overrides]
    try:
        config = recompose(words)
    except ConfigError as error:
        raise ConfigError(f"compare.runs has {choice.text!r}: {error}") from None
    return Planned(choice, build(config, folder, words, command), folder)


def _refuse_before_work(gathered: Sequence[Entrant | Planned]) -> None:
    refuse_other_protocols(
        [
            (one.name, one.report["run_meta"]["protocol"])
            if isinstance(one, Entrant)
            else (one.choice.text, protocol_of(one.experiment))
            for one in gathered
        ]
    )


def _run_now(planned: Planned, console: Console) -> Entrant:
    with open_progress(console) as progress:
        report = run(planned.experiment, planned.folder, progress)
    if report.meta.status == "interrupted":
        raise KeyboardInterrupt  # the report of the finished cases is saved; there is nothing to compare yet
    recorded = read_report(planned.folder)
    answers = read_predictions(planned.folder / PREDICTIONS_FILE)
    place, text = planned.folder, planned.choice.text
    return Entrant(recorded.name, text, recorded.report, answers, place, kept_sources(place))


def log_comparison(
    tracking: MlflowTracking,
    comparison: Comparison,
    folder: Path,
    ran: Sequence[Path],
    command: str,
    own_name: str | None = None,
    own: Mapping[str, str] | None = None,
) -> None:
    """Log one MLflow run for the comparison. The runs made for it become its children."""
    verdicts = [pair.verdict for pair in comparison.pairs]
    tags = {
        **(own or {}),
        "verdict": "; ".join(verdicts)[:5000],
        "compared_protocol": comparison.protocol_hash,
        "run_folder": str(folder),
        "command": command,
        "mlflow.source.name": command,
    }
    name = (own_name or " against ".join(side.name for side in comparison.sides))[:LONGEST_NAME]
    score = " against ".join(figure(side.mean) for side in comparison.sides)
    metrics = [
        (key, float(value), step)
        for step, pair in enumerate(comparison.pairs)
        for key, value in pair.to_json().items()
        if isinstance(value, int | float)
    ]
    try:
        run_id = open_parent(tracking, "comparison", name, tags)
        files = [folder / file for file in FILES]
        close_parent(tracking, run_id, metrics, files=files, children=ran, score=score, words=". ".join(verdicts))
    except Exception as error:
        LOG.warning(
            "MLflow at %s did not store the comparison (%s); it is saved in %s", tracking.tracking_uri, error, folder
        )


def save_comparison(comparison: Comparison, folder: Path, command: str, runs: Sequence[Entrant]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = {**comparison.to_json(), "command": command}
    write_atomically(folder / FILES[0], json.dumps(document, indent=2, allow_nan=False).encode())
    draw_comparison(comparison).savefig(folder / FILES[1], dpi=130)
    save_page(comparison_page(comparison, command, runs, folder), folder / FILES[2])
