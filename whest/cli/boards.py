"""`job=leaderboard` ranks the logged runs and only reads MLflow; `job=judge` adds a verdict to a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from whest.boards.board import Board, make_board
from whest.boards.entries import read_entry
from whest.boards.show import print_board, save_board
from whest.boards.verdicts import Ruling, Verdict, read_verdicts, verdict_tag
from whest.config.build import build_group, build_target
from whest.config.settings import read_settings
from whest.display.console import open_console, say
from whest.errors import ConfigError
from whest.gallery.refresh import refresh
from whest.tracking.recorded import find_run_id, find_runs
from whest.tracking.runs import MlflowTracking

if TYPE_CHECKING:
    from whest.tracking.runs import MlflowClient

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Judgement:
    """The keys of job=judge."""

    run: str | None
    verdict: Ruling | None
    reason: str | None
    solution: str | None


def rank(config: Config, folder: Path, overrides: list[str]) -> None:
    carry_out_board(config, overrides, open_console())


def judge(config: Config, folder: Path, overrides: list[str]) -> None:
    run_id, verdicts = carry_out_judgement(config, overrides)
    for verdict in verdicts:
        say(f"{run_id}: {verdict.verdict} at {verdict.at}, {verdict.reason}")


def carry_out_board(config: Config, overrides: Sequence[str], console: Console) -> Board:
    """Read the experiment's runs, rank them, print and save the board."""
    settings = read_settings(config)
    policy = build_group({"leaderboard": _as_typed(config, overrides, "leaderboard", "protocol")}, "leaderboard")
    client, experiment_id = _open(config)
    board = make_board(policy, [read_entry(run) for run in find_runs(client, [experiment_id])])
    folder = settings.output or settings.outputs / "leaderboards" / policy.rule
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"output={folder} is a file: name a folder for board.html, board.csv and board.json")
    save_board(board, folder)
    print_board(board, folder, console)
    refresh(settings.outputs, folder)
    return board


def carry_out_judgement(config: Config, overrides: Sequence[str]) -> tuple[str, list[Verdict]]:
    """Add a verdict to a run. Returns the run's full id and all its verdicts."""
    asked: Judgement = build_target(Judgement, _as_typed(config, overrides, "judge", "run"), "judge")
    if asked.run is None:
        raise ConfigError("judge.run is missing: give a run's id, or its first characters, as a board shows them")
    if asked.verdict is None:
        raise ConfigError(
            "judge.verdict is missing: judge.verdict=disqualified, invalid (must be run again), reviewed or reinstated"
        )
    client, experiment_id = _open(config)
    run_id = find_run_id(client, experiment_id, asked.run, "judge.run")
    solution = asked.solution or client.get_run(run_id).data.tags.get("solution")
    if asked.verdict == "reviewed" and not solution:
        raise ConfigError(
            "judge.solution is missing: to review a run, describe its solution or link to it, judge.solution='…'"
        )
    reason = asked.reason or ("its solution was reviewed" if asked.verdict == "reviewed" else "")
    name, value = verdict_tag(asked.verdict, reason, datetime.now(UTC))
    if asked.solution:
        client.set_tag(run_id, "solution", asked.solution)
    client.set_tag(run_id, name, value)
    return run_id, read_verdicts(client.get_run(run_id).data.tags)


def _as_typed(config: Config, overrides: Sequence[str], group: str, name: str) -> Config:
    """The group, with the hash as it was typed: Hydra reads hashes such as 0123 and 12e45 as numbers."""
    if not isinstance(config[group][name], int | float):
        return dict(config[group])
    typed = [word.partition("=")[2] for word in overrides if word.startswith(f"{group}.{name}=")]
    return {**config[group], name: typed[-1] if typed else str(config[group][name])}


def _open(config: Config) -> tuple["MlflowClient", str]:
    settings = read_settings(config)
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    if not isinstance(tracking, MlflowTracking):
        raise ConfigError(f"job={settings.job} reads MLflow's runs: leave out tracking=none, or set tracking=mlflow")
    return tracking.reopen()
