"""The jobs: what `job=…` carries out, each from a composed config to what it prints and leaves."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from whest.cli.datasets import build_bake
from whest.config.build import build_group
from whest.config.compose import config_folder
from whest.config.settings import Settings, read_settings
from whest.errors import ConfigError, WhestError
from whest.experiment import build_experiment
from whest.page.blocks import Page
from whest.page.run import run_page
from whest.tracking.recorded import read_report

Config = Mapping[str, Any]

LOCAL = ("output", "outputs_dir", "hydra.run.dir")
"""Where things were put is nobody's business who reads a dataset."""


class JobFailedError(WhestError):
    """A job that left its report but no valid score; raised so that a sweep counts it as failed."""


def score(config: Config, folder: Path, overrides: list[str]) -> float | None:
    from whest.display.console import open_console, print_report
    from whest.display.progress import open_progress
    from whest.experiment import run
    from whest.sweeps.resume import finished_score, is_sweeps_job, keep_point, point_hash

    experiment = build_experiment(config, folder, overrides, _command(overrides))
    point = point_hash(experiment) if is_sweeps_job(folder) else None
    found = finished_score(folder, point) if point and read_settings(config).resume else None
    if found is not None:
        _say(f"job {folder.name} was finished before, score {found:.3g}")
        return found
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(dict(config))))
    console = open_console()
    with open_progress(console) as progress:
        report = run(experiment, folder, progress)
    print_report(report, folder, console, show_cases=read_settings(config).show_mlps)
    if report.meta.status == "interrupted":
        raise KeyboardInterrupt  # everything is saved; a sweep stops here too
    if report.has_errors:
        raise JobFailedError("the estimator failed: see the report")
    if point and report.score.score is not None:
        keep_point(folder, point, report)
    return report.score.score


def compare(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.compare import carry_out_comparison
    from whest.display.console import open_console

    if not carry_out_comparison(config, folder, overrides, _command(overrides), open_console()):
        raise JobFailedError("an estimator failed: see its report")


def bake(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.datasets import print_baked, print_baked_row
    from whest.display.console import open_console
    from whest.display.progress import open_progress

    told = [_without_folder(word) for word in overrides if word.lstrip("+").partition("=")[0] not in LOCAL]
    job = build_bake(config, _output(read_settings(config)), overrides, _command(told))
    console = open_console()
    baked = []
    with open_progress(console) as progress:
        for row in job.draw(progress):
            print_baked_row(row, job.part, console)
            baked.append(row)
    print_baked(job.save(baked), console)


def merge_slices(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.dataset.formats.combine import merge

    settings = read_settings(config)
    inputs = settings.inputs or []
    if isinstance(inputs, dict):
        raise ConfigError("inputs must be a list of slices for job=merge: inputs=[a,b]")
    sha256 = merge([Path(path) for path in inputs], _output(settings))
    _say(f"merged {len(inputs)} slices into {settings.output}, sha256 {sha256}")


def combine_splits(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.dataset.formats.combine import combine

    settings = read_settings(config)
    inputs = settings.inputs or []
    named = {name: Path(path) for name, path in inputs.items()} if isinstance(inputs, dict) else None
    splits = combine(named or [Path(path) for path in inputs], _output(settings), settings.default_split)
    _say(f"combined the splits {', '.join(splits)} into {settings.output}")


def describe_dataset(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.datasets import print_info
    from whest.display.console import open_console

    path = read_settings(config).path
    if path is None:
        raise ConfigError("path is missing: say which dataset, job=info path=DIR")
    print_info(path, open_console())


def make_leaderboard(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.boards import carry_out_board
    from whest.display.console import open_console

    carry_out_board(config, overrides, open_console())


def judge(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.boards import carry_out_judgement

    run_id, verdicts = carry_out_judgement(config, overrides)
    for verdict in verdicts:
        _say(f"{run_id}: {verdict.verdict} at {verdict.at}, {verdict.reason}")


def list_choices(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.catalogue import print_catalogue

    print_catalogue(config_folder(), read_settings(config).outputs)


def show_ui(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.tracking.ui import address, open_store, serve

    settings = read_settings(config)
    tracking, experiment_id = open_store(build_group(config, "tracking", outputs=settings.outputs))
    _say(f"MLflow needs some seconds, then shows the runs at\n{address(experiment_id, settings.port)}")
    exit_code = serve(tracking, settings.port)
    if exit_code:
        raise JobFailedError(f"MLflow's server ended with exit code {exit_code}: is port={settings.port} taken?")


def draw_page(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.jobs import page_of_recorded
    from whest.document import PAGE
    from whest.page import save_page

    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: say which report, job=page path=RUN_DIR")
    page, place = page_of_recorded(settings.path)
    output = settings.output or place / PAGE
    _say(f"saved    {save_page(page, output)}")


def import_reports(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.import_reports import describe, import_all
    from whest.tracking.runs import MlflowTracking

    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: say which WhestBench report or folder of them, job=import path=DIR")
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    if not isinstance(tracking, MlflowTracking):
        raise ConfigError("job=import makes MLflow runs: leave out tracking=none, or say tracking=mlflow")
    is_named = any(word.lstrip("+").startswith("participant=") for word in overrides)
    participant = settings.participant if is_named else None
    for line in describe(import_all(settings.path, tracking, participant, _command(overrides), settings.outputs)):
        _say(line)


def clean_caches(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.cli.catalogue import clean

    clean(read_settings(config).outputs)


def start_own(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.starter import next_steps, start_estimator

    settings = read_settings(config)
    if settings.path is None:
        raise ConfigError("path is missing: say where your estimator goes, job=init path=mine")
    taken = [path.stem for path in (config_folder() / "estimator").glob("*.yaml")]
    for path in start_estimator(settings.path, taken, settings.outputs):
        _say(f"wrote    {path}")
    for place, command in enumerate(next_steps(settings.path)):
        _say(f"{'' if place else 'next':<9}{command}")


def validate(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.checks.finding import worst
    from whest.cli.validate import carry_out_validation
    from whest.display.console import open_console

    if worst(carry_out_validation(config, folder, overrides, open_console())) == "fail":
        raise JobFailedError("the estimator doesn't keep the contract: see the list above")


def diagnose(config: Config, folder: Path, overrides: list[str]) -> None:
    from whest.checks.finding import worst
    from whest.cli.doctor import carry_out_examination
    from whest.display.console import open_console

    if worst(carry_out_examination(config, open_console())) == "fail":
        raise JobFailedError("something is broken: the arrows above say how to mend it")


JOBS: dict[str, Callable[[Config, Path, list[str]], float | None]] = {
    "score": score,
    "compare": compare,
    "bake": bake,
    "merge": merge_slices,
    "combine": combine_splits,
    "info": describe_dataset,
    "page": draw_page,
    "ui": show_ui,
    "list": list_choices,
    "clean": clean_caches,
    "import": import_reports,
    "leaderboard": make_leaderboard,
    "judge": judge,
    "init": start_own,
    "validate": validate,
    "doctor": diagnose,
}


def _output(settings: Settings) -> Path:
    if settings.output is None:
        raise ConfigError(f"output is missing: say where job={settings.job} writes, output=DIR")
    return settings.output


def _command(overrides: list[str]) -> str:
    return shlex.join(["python", "-m", "whest", *overrides])


def _without_folder(word: str) -> str:
    """Of an absolute path the name alone."""
    key, _, value = word.partition("=")
    return f"{key}={Path(value).name}" if Path(value).is_absolute() else word


def _say(sentence: str) -> None:
    from whest.display.console import open_console

    open_console().print(sentence, markup=False, highlight=False, soft_wrap=True)


def page_of_recorded(path: Path) -> tuple[Page, Path]:
    """The page of a run that was recorded earlier, without what only the run itself knew; and the folder it lies in."""
    run = read_report(path)
    folder = path if path.is_dir() else path.parent
    config = folder / "config.yaml"
    return run_page(run.report, config=config.read_text() if config.exists() else None), folder
