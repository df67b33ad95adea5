"""`job=explore path=RUN mlp=NAME`: one MLP of a recorded run on one page; `against=RUN` adds a second run."""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Any

from whest.cli.reproduce import read_config, recorded_folder, refuse_other_classes
from whest.compare.entrants import Entrant, entrant, named
from whest.config.commands import command_line
from whest.config.devices import prepare_jax
from whest.config.settings import Settings, read_settings
from whest.display.console import open_console, say
from whest.display.progress import open_progress
from whest.document import PAGE, REPORT, Json, task_name
from whest.errors import ConfigError, WhestError
from whest.files import inside
from whest.notation import short_path
from whest.page import Cell, save_page
from whest.tasks.whitebox.explore import explorer_page
from whest.tasks.whitebox.network import Network, find_row, load_dataset, read_answer, truth_of
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE
from whest.tracking.recorded import read_report

Config = Mapping[str, Any]
RUN_ID = re.compile(r"[0-9a-f]{6,32}")
MOST_LISTED = 5
"""Runs that an error lists."""
MOST_NEURONS = 2**16
"""Of an MLP on a page: with two runs it has 2 MB."""


@dataclass(frozen=True)
class Recorded:
    """A run to be shown: its folder and its report."""

    folder: Path
    run: Entrant
    is_here: bool
    """Whether the folder stays: a run of MLflow is fetched into a temporary one."""


def explore(config: Config, folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: name a run's folder or an MLflow run's id, job=explore path=RUN_DIR")
    wanted = {"path": str(settings.path)} | ({"against": settings.against} if settings.against else {})
    with ExitStack() as stack:
        runs = [open_run(text, key, config, stack) for key, text in wanted.items()]
        network = load_network(runs, settings, config)
        place = settings.output or default_place(runs[0], settings, network.mlp.name)
        if place.is_dir():
            raise ConfigError(f"output={place} is a folder: name a file, output={place / 'network.html'}")
        links = [_link(one, answer.name, place) for one, answer in zip(runs, network.answers, strict=True)]
        page = explorer_page(network, runs[0].run.report, links, command_line(overrides))
        saved = save_page(page, place)
    say(f"saved    {short_path(saved)}: {network.mlp.name}, {saved.stat().st_size / 1e6:.2g} MB")


def open_run(text: str, key: str, config: Config, stack: ExitStack) -> Recorded:
    """A recorded white-box run of a folder or of MLflow, checked."""
    is_here = Path(text).exists()
    is_run = Path(text).is_file() or (Path(text) / REPORT).exists()
    if not is_run and (is_here or not RUN_ID.fullmatch(text)):
        known = ", ".join(str(short_path(place)) for place in last_runs(read_settings(config).outputs)) or "none yet"
        raise ConfigError(f"{key}={text} is no run's folder and no MLflow run's id; the last runs are: {known}")
    folder = stack.enter_context(recorded_folder(text, config, key))
    found = entrant(read_report(folder), None, text, key)
    if task_name(found.report) != "whitebox":
        raise ConfigError(f"{key}={text} is a run of task={task_name(found.report)}: only task=whitebox has MLPs")
    told = found.report["run_config"]
    if told["width"] * told["depth"] > MOST_NEURONS:
        raise ConfigError(f"{key}={text} has MLPs of {told['width']}x{told['depth']}: a page shows {MOST_NEURONS:,}")
    try:
        inside(folder, PREDICTIONS_FILE)
    except OSError:
        raise ConfigError(f"{key}={text}: {PREDICTIONS_FILE} is a link out of it, put the file itself there") from None
    return Recorded(folder, found, is_here)


def last_runs(outputs: Path) -> list[Path]:
    """The newest runs of an outputs folder."""
    return [report.parent for report in sorted(outputs.glob(f"runs/*/*/{REPORT}"))[: -MOST_LISTED - 1 : -1]]


def load_network(runs: list[Recorded], settings: Settings, config: Config) -> Network:
    """The MLP with its truth, and the runs' answers to it."""
    first = runs[0]
    row = find_row(first.run.report, settings.mlp)
    rows: list[Json] = [row, *(_same_row(one, first, row, str(settings.against)) for one in runs[1:])]
    recorded = {**config, **read_config(first.folder)}
    refuse_other_classes(recorded)
    prepare_jax(settings)
    dataset = load_dataset(recorded, first.run.report, f"path={settings.path}")
    with open_progress(open_console()) as progress:
        try:
            mlp, truth = truth_of(dataset, recorded, row["mlp_name"], settings.outputs / "cache" / "truth", progress)
        except StopIteration:
            raise WhestError(f"path={settings.path} names {row['mlp_name']}, which is not in its dataset") from None
    names = [one.name for one in named([one.run for one in runs])]
    answers = [read_answer(name, one.folder, own, mlp) for name, one, own in zip(names, runs, rows, strict=True)]
    return Network(mlp, truth, tuple(answers))


def _same_row(one: Recorded, first: Recorded, row: Json, text: str) -> Json:
    """The same MLP in another run."""
    hashes = [run.run.report["run_config"]["dataset"]["sha256"] for run in (first, one)]
    found = next((own for own in one.run.report["results"]["per_mlp"] if own["mlp_name"] == row["mlp_name"]), None)
    if found is None or hashes[0] != hashes[1]:
        raise ConfigError(f"against={text} has other MLPs than path: choose a run with the same dataset")
    return found


def default_place(one: Recorded, settings: Settings, name: str) -> Path:
    """Beside the report; for a run of MLflow in the outputs folder."""
    safe = re.sub(r"[^A-Za-z0-9-]+", "-", name)[:60] or "mlp"
    folder = one.folder if one.is_here else settings.outputs / "explore" / str(settings.path)[:8]
    return folder / f"explore-{safe}.html"


def _link(one: Recorded, name: str, place: Path) -> tuple[str, Cell]:
    page = one.folder / PAGE
    if not one.is_here or not page.exists():
        return name, Cell(one.run.source)
    return name, Cell("the run's page", href=Path(relpath(page, place.absolute().parent)).as_posix())
