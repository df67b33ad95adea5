"""Printed commands: each one composes by the road of the command line, and means the protocol of the run it follows."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import open_dict

from whest.cli.command import resolve
from whest.cli.compare import Planned, gather_entrants
from whest.compare.comparison import CompareOptions
from whest.config.build import build_target
from whest.config.commands import board_command, compare_command, ui_command, words_of
from whest.config.compose import command_of, config_folder, guard_folders
from whest.config.words import refuse_idle, written_out
from whest.document import protocol_hash
from whest.experiment import AnyExperiment, build, protocol_of

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")
"""MLflow's own."""
Whest = Callable[..., Any]
SOURCE = (
    "class Estimator:\n    def __init__(self, rank: int = 1):\n        ...\n    def predict(self, mlp, budget): ...\n"
)
TWENTY = [
    "",
    "estimator=monte_carlo estimator.budget_fraction=0.5",
    "estimator=cov_prop +estimator.sphere=true",
    "round=phase1 dataset.n_mlps=3",
    "round=phase2 dataset.range=[1,3] estimator=mean_prop",
    "debug=tiny",
    "debug=tiny seed=null",
    "dataset=fresh dataset.width=8 dataset.depth=2 dataset.seed=3 truth=plain truth.n_samples=100",
    "dataset=seeds dataset.mlp_seeds=[5,7] round.width=8 round.depth=2",
    "budget=1e9 lam=0 wall_time_limit_s=5 seed=4",
    "estimator.mode=eager",
    "scoring=fherma participant=me",
    "scoring.multiplier_floor=0.2 show_mlps=true",
    "experiment=frontier_warmup",
    "experiment=prism data=generated",
    "isolation.require=[] isolation=process",
    "estimator=mine/mine.py",
    "estimator=./mine +estimator.rank=3",
    "--config-dir mine estimator=mine debug=tiny",
    "--config-dir mine estimator=mine estimator.mode=eager round=phase1",
    "hydra.searchpath=[file://{here}/mine] estimator=mine",
    """estimator=file "estimator.path='a folder/mine.py'" dataset.n_mlps=2""",
]
COMPARED = ("sphere", "phase1", "seed=null", "mode=eager", "fherma", "frontier", "rank", "searchpath")
"""What makes a proposal hard: knobs, a round, a drawn seed, a mode, a rule, an experiment, files and folders."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with an estimator's file, also as a choice of a config folder."""
    for folder in ("mine", "a folder"):
        (tmp_path / folder / "estimator").mkdir(parents=True)
        (tmp_path / folder / "mine.py").write_text(SOURCE)
        (tmp_path / folder / "estimator" / "mine.yaml").write_text("path: ${beside:mine.py}\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    GlobalHydra.instance().clear()


def composed(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The config of a command's words and its overrides, as Hydra's main function composes them."""
    arguments = get_args_parser().parse_args(written_out(words))
    search = create_config_search_path(str(config_folder()))
    if arguments.config_dir is not None:
        place = f"file://{Path(arguments.config_dir).absolute()}"
        search.prepend("command-line", place, SearchPathQuery(provider="schema"))
    GlobalHydra.instance().clear()
    guard_folders()
    main = Hydra.create_main_hydra2("whest", search)
    config = main.compose_config("config", arguments.overrides, RunMode.RUN, with_log_configuration=False)
    HydraConfig.instance().set_config(config)
    with open_dict(config):
        own = config.pop("hydra")
    return resolve(config), list(own.overrides.task)


def built(words: list[str], folder: Path) -> AnyExperiment:
    config, overrides = composed(words)
    refuse_idle(config["job"], overrides)
    return build(config, folder, overrides, command_of(overrides))


def hash_of(experiment: AnyExperiment) -> str:
    return protocol_hash(protocol_of(experiment))


@pytest.mark.parametrize("line", TWENTY)
def test_the_command_of_a_run_means_its_protocol(line: str, here: Path) -> None:
    experiment = built(shlex.split(line.format(here=here)), here)
    assert hash_of(built(words_of(experiment.command), here)) == hash_of(experiment)


@pytest.mark.parametrize("line", [line for line in TWENTY if any(word in line for word in COMPARED)])
def test_the_next_command_compares_by_the_same_protocol(line: str, here: Path) -> None:
    experiment = built(shlex.split(line.format(here=here)), here)
    estimator = experiment.task.estimator
    command = compare_command(experiment.command, estimator.name, estimator.mode)
    assert command is not None
    config, overrides = composed(words_of(command))
    options = build_target(CompareOptions, config["compare"], "compare")
    planned = gather_entrants(options, None, here, overrides, "")
    assert [hash_of(one.experiment) for one in planned if isinstance(one, Planned)] == [hash_of(experiment)] * 2


@pytest.mark.parametrize("words", ["estimator=file estimator.path='a folder/mine.py'", "~estimator.mode", ""])
def test_no_comparison_is_proposed_that_could_not_be_typed(words: str) -> None:
    command = f'python -m whest "{words}"' if words else ""
    assert compare_command(command, "cov_prop", "traced") is None


def test_the_store_of_a_run_is_named_where_its_runs_are_shown() -> None:
    command = "python -m whest estimator=zeros outputs_dir=there tracking.experiment=mine debug=tiny"
    assert words_of(ui_command(command)) == ["job=ui", "outputs_dir=there", "tracking.experiment=mine"]
    assert words_of(board_command(command, "prism", "abc"))[2:] == [
        "leaderboard.protocol=abc",
        "outputs_dir=there",
        "tracking.experiment=mine",
    ]


def test_report_page_and_mlflow_name_the_config_folder(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine" / "estimator").mkdir(parents=True)
    (tmp_path / "mine" / "estimator" / "zero.yaml").write_text("_target_: estimators.zeros.Zeros\n")
    outcome = whest(
        "--config-dir", "mine", "debug=tiny", "seed=null", "truth=plain", "estimator=zero", "tracking=mlflow"
    )
    assert outcome.exit_code == 0, outcome.err
    command = outcome.report["run_meta"]["command"]
    seed = outcome.report["run_config"]["dataset"]["seed"]
    assert command.startswith("python -m whest --config-dir mine debug=tiny")
    assert command.endswith(f" dataset.seed={seed}")
    assert command in (outcome.folder / "report.html").read_text()
    assert outcome.mlflow_tags()["command"] == command
    assert f"python -m whest job=ui tracking=mlflow outputs_dir={outcome.outputs}" in outcome.out
    assert "python -m whest --config-dir mine debug=tiny seed=null truth=plain tracking=mlflow" in outcome.out
