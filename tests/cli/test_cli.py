"""The command line: its errors and their messages, its jobs, its exit codes."""

import inspect
import io
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict

from tests.support.places import ROOT
from whest.cli.catalogue import headline
from whest.config.jobs import JOBS
from whest.config.versions import BASE

CONF = ROOT / "conf"
CHOICES = sorted((path.parent.name, path.stem) for path in CONF.glob("*/*.yaml"))
GROUPS = sorted({group for group, _ in CHOICES})
Whest = Callable[..., Any]
TINY = ("debug=tiny", "truth=plain")


def composed(*overrides: str) -> tuple[DictConfig, DictConfig]:
    """The job's config and Hydra's own config, as a job gets them from Hydra."""
    with initialize_config_dir(str(CONF), **BASE):
        config = compose("config", list(overrides), return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    with open_dict(config):
        return config, config.pop("hydra")


def assert_refused(outcome: Any, *words: str) -> None:
    """Exit code 2, a message with these words and without a traceback, and no files left."""
    assert outcome.exit_code == 2, outcome.err
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err
    assert outcome.files == []
    assert list(outcome.outputs.glob("runs/*/*")) == []


# --- choices and keys ---


def test_the_contract_names_these_groups() -> None:
    contract = "round task dataset truth estimator isolation scoring tracking experiment debug"
    assert set(contract.split()) <= set(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_an_unknown_choice_is_refused_with_the_choices(whest: Whest, group: str) -> None:
    outcome = whest(f"{group}=no_such_choice")
    assert_refused(outcome, f"{group}/no_such_choice")
    assert {choice for g, choice in CHOICES if g == group} <= set(outcome.err.split())


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("estimator=covprop", "estimator=cov_prop"),
        ("round=warmpu", "round=warmup"),
        ("dataset=frehs", "dataset=fresh"),
        ("truth=refrence", "truth=reference"),
        ("tracking=mlfow", "tracking=mlflow"),
        ("debug=tny", "debug=tiny"),
    ],
)
def test_a_misspelt_choice_is_told_the_nearest(whest: Whest, typo: str, meant: str) -> None:
    assert_refused(whest(typo), f"Did you mean {meant}?")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("bugdet=1e9", "budget"),
        ("wall_time_limit=3", "wall_time_limit_s"),
        ("round.wdth=16", "round.width"),
        ("task.nam=whitebox", "task.name"),
        ("dataset.widht=16", "dataset.width"),
        ("truth.nsamples=100", "truth.n_samples"),
        ("estimator.mod=traced", "estimator.mode"),
        ("isolation.knd=none", "isolation.kind"),
        ("scoring.multiplier_flor=0.2", "scoring.multiplier_floor"),
        ("tracking.experment=mine", "tracking.experiment"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_and_all_there_are(whest: Whest, typo: str, meant: str) -> None:
    choices = ("dataset=fresh", "tracking=mlflow")
    outcome = whest(*choices, typo)
    assert_refused(outcome, typo.partition("=")[0], f"Did you mean {meant}?")
    parent = meant.rpartition(".")[0]
    with initialize_config_dir(str(CONF), **BASE):
        config = compose("config", list(choices))
    keys = OmegaConf.select(config, parent) if parent else config
    assert set(keys) <= set(re.findall(r"\w+", outcome.err))


def test_a_key_of_another_choice_is_refused(whest: Whest) -> None:
    assert_refused(whest("debug=tiny", "dataset.mlp_seeds=[1]"), "dataset.mlp_seeds", "seed_protocol")


@pytest.mark.parametrize(
    ("added", "key", "known"),
    [
        ("+dataset.foo=3", "dataset.foo", "seed_protocol"),
        ("+estimator.rank=3", "estimator.rank", "form, sphere"),
        ("+truth.foo=3", "truth.foo", "n_samples"),
        ("+scoring.foo=3", "scoring.foo", "multiplier_floor"),
        ("+tracking.foo=3", "tracking.foo", "outputs"),
        ("+bugdet=3", " bugdet", "budget"),
    ],
)
def test_an_added_key_that_nothing_reads_is_refused(whest: Whest, added: str, key: str, known: str) -> None:
    assert_refused(whest("debug=tiny", added), f"{key} is not a key", known)


@pytest.mark.parametrize("added", ["+round.foo=3", "+isolation.foo=3", "+task.foo=3"])
def test_an_added_key_is_refused_in_groups_without_a_target_too(whest: Whest, added: str) -> None:
    assert_refused(whest("debug=tiny", added), added.strip("+").partition("=")[0])


# --- values ---


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("budget=-1", "budget must be greater than or equal to 1, got -1"),
        ("budget=nan", "budget must be"),
        ("budget=plenty", "budget must be a valid number"),
        ("lam=-1", "lam must be greater than or equal to 0, got -1"),
        ("seed=-1", "seed must be greater than or equal to 0, got -1"),
        ("wall_time_limit_s=0", "wall_time_limit_s must be greater than 0, got 0"),
        ("residual_wall_time_limit_s=soon", "residual_wall_time_limit_s must be a valid number"),
        ("setup_timeout_s=0", "setup_timeout_s must be greater than 0, got 0"),
        ("job=scor", "job=scor is no job. Did you mean job=score?"),
        ("device=tpu", "device must be 'auto', 'cpu' or 'gpu', got 'tpu'"),
        ("participant=null", "participant must be a valid string"),
        ("show_mlps=maybe", "show_mlps must be a valid boolean"),
        ("task.name=blackbox", "task.name must be 'whitebox', 'prequential' or 'exam', got 'blackbox'"),
        ("isolation.kind=cage", "isolation.kind"),
        ("dataset.width=wide", "dataset.width must be a valid integer"),
        ("dataset.width=0", "dataset.width must be greater than or equal to 1, got 0"),
        ("dataset.n_mlps=0", "dataset.n_mlps must be greater than or equal to 1, got 0"),
        ("dataset.seed=-1", "dataset.seed must be greater than or equal to 0, got -1"),
        ("dataset.range=[3,1]", "dataset.range=[3,1]"),
        ("dataset.range=[0,1]", "dataset.n_mlps=2 is more than the 1 MLPs of fresh"),
        ("dataset.seed_protocol='9.0'", "dataset.seed_protocol must be '2.0' or '3.0', got '9.0'"),
        ("truth.n_samples=1", "truth.n_samples must be greater than or equal to 2, got 1"),
        ("truth.n_samples=1.5", "truth.n_samples must be a valid integer"),
        ("estimator.mode=fast", "estimator.mode"),
        ("scoring.multiplier_floor=2", "scoring.multiplier_floor must be less than or equal to 1, got 2"),
        ("estimator._target_=nowhere.Mine", "no module 'nowhere'"),
        ("estimator._target_=estimators.zeros.Ones", "defines no class Ones"),
        ("estimator._target_=3", "estimator._target_=3"),
        ("dataset._target_=nowhere.Mine", "dataset._target_=nowhere.Mine"),
        ("truth._target_=whest.truth.NoTruth", "truth._target_=whest.truth.NoTruth"),
        ("~budget", "budget"),
        ("~truth", "truth"),
    ],
)
def test_a_wrong_value_is_refused_by_key(whest: Whest, override: str, message: str) -> None:
    assert_refused(whest("debug=tiny", override), message)


@pytest.mark.parametrize(
    ("knob", "message"),
    [
        ("estimator.budget_fraction=2", "estimator.budget_fraction must be less than or equal to 1, got 2"),
        ("estimator.seed=x", "estimator.seed must be a valid integer"),
    ],
)
def test_a_bundled_estimators_knobs_are_checked(whest: Whest, knob: str, message: str) -> None:
    assert_refused(whest("debug=tiny", "estimator=monte_carlo", knob), message)


@pytest.mark.parametrize("override", ["λ=3", "budget==3", "estimator=zeros,mean_prop"])
def test_what_hydra_cannot_parse_is_a_config_error(whest: Whest, override: str) -> None:
    assert_refused(whest("debug=tiny", override), override)


# --- paths ---


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["estimator=file"], "estimator.path is missing: set estimator.path="),
        (["estimator=file", "estimator.path=gone.py"], "estimator.path=gone.py: no such file"),
        (["estimator=file", "estimator.path=."], "estimator.path=."),
        (["dataset=seeds"], "dataset.mlp_seeds is missing"),
        (["dataset=seeds", "dataset.mlp_seeds=gone.json"], "dataset.mlp_seeds=gone.json: no such file"),
        (["dataset=seeds", "dataset.mlp_seeds=[]"], "dataset.mlp_seeds is empty"),
        (["dataset=seeds", "dataset.mlp_seeds=seeds.json"], "dataset.mlp_seeds=seeds.json must hold a JSON list"),
    ],
)
def test_a_missing_or_wrong_file_is_refused(whest: Whest, tmp_path: Path, overrides: list[str], message: str) -> None:
    (tmp_path / "seeds.json").write_text('{"seed": 1}')
    assert_refused(whest("debug=tiny", *overrides), message)


@pytest.mark.parametrize("key", ["outputs_dir", "hydra.run.dir"])
def test_a_folder_that_cannot_be_made_is_refused(whest: Whest, tmp_path: Path, key: str) -> None:
    (tmp_path / "a_file").touch()
    assert_refused(whest("debug=tiny", f"{key}={tmp_path / 'a_file' / 'folder'}"), "a_file")


@pytest.mark.parametrize("override", ["truth.n_samples=1000", "truth=reference"])
def test_a_truth_setting_without_effect_is_refused(whest: Whest, override: str) -> None:
    assert_refused(whest("tracking=none", override), override, "truth.resample=true", "dataset=fresh")


def test_resampling_draws_the_suites_truth_anew(whest: Whest) -> None:
    outcome = whest("debug=one", "estimator=zeros", "truth=plain", "truth.resample=true", "truth.n_samples=4096")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.report["results"]["breakdowns"]["sampling"]["n_samples"] == 4096


def test_a_tracked_config_error_leaves_no_store(whest: Whest) -> None:
    assert_refused(whest("debug=tiny", "tracking=mlflow", "budget=-1"), "budget")


def test_a_folder_of_the_users_own_survives_a_config_error(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    assert_refused(whest("debug=tiny", "budget=-1", f"hydra.run.dir={tmp_path / 'mine'}"), "budget")
    assert [path.name for path in (tmp_path / "mine").rglob("*")] == ["notes.txt"]


# --- the configs themselves ---


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_every_choice_composes_and_builds(group: str, choice: str, tmp_path: Path) -> None:
    from whest.cli.command import resolve
    from whest.config.build import build_group
    from whest.config.settings import read_settings
    from whest.estimator.spec import estimator_spec

    (tmp_path / "mine.py").write_text("class Estimator:\n    def predict(self, mlp, budget): ...\n")
    (tmp_path / "mine.whest").touch()
    needed = {
        ("estimator", "file"): [f"estimator.path={tmp_path / 'mine.py'}"],
        ("estimator", "sealed"): [f"estimator.path={tmp_path / 'mine.whest'}"],
        ("estimator", "whestbench"): [f"estimator.path={tmp_path / 'mine.py'}"],
        ("dataset", "file"): ["dataset.path=set"],
        ("dataset", "hub"): ["dataset.repo=hf://owner/name@v1"],
        ("dataset", "seeds"): ["dataset.mlp_seeds=[1]"],
        ("data", "files"): [f"data.path={tmp_path}"],
    }
    given = needed.get((group, choice), [])
    config, hydra = composed(f"{group}={choice}", *given, f"outputs_dir={tmp_path / 'outputs'}")
    values = resolve(config)
    settings = read_settings(values)
    assert settings.participant == values["estimator"]["name"]
    build_group(values, "scoring")
    build_group(values, "tracking", outputs=settings.outputs)
    assert build_group(values, "truth").n_samples >= 2
    build_group(values, "dataset", **({"seed": 0} if values["dataset"].get("seed", 0) is None else {}))
    if choice not in ("whestbench", "sealed"):  # the peer is needed, or a whole file: test_peer.py, tests/sealed
        made = estimator_spec(values["estimator"]).create()
        assert hasattr(made, "predict") or hasattr(made, "update") or hasattr(made, "learn"), vars(made)
    for key, swept in (hydra.sweeper.get("params") or {}).items() if group == "experiment" else ():
        for value in str(swept).split(","):
            composed(f"{key}={value}")


@pytest.mark.parametrize(
    ("choice", "width", "depth", "budget", "lam", "residual", "wall"),
    [
        ("warmup", 256, 8, 6.8e10, 1e11, None, 60),
        ("phase1", 256, 32, 2.72e11, 1e11, None, 60),
        ("phase2", 1024, 16, 2**41, 0, 0.4, 120),
    ],
)
def test_a_round_sets_every_figure_of_its_row(
    choice: str, width: int, depth: int, budget: float, lam: float, residual: float | None, wall: float
) -> None:
    config, _ = composed(f"round={choice}", "dataset=fresh")
    assert (config.dataset.width, config.dataset.depth) == (width, depth)
    assert (config.budget, config.lam, config.residual_wall_time_limit_s) == (budget, lam, residual)
    assert config.wall_time_limit_s == wall


# --- help, list, clean ---


PROBE = """
import sys
from tests.support.places import ROOT
from whest.__main__ import main
try:
    main()
finally:
    print("imported:", [name for name in ("jax", "mlflow") if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [(["--help"], 0), (["--cfg", "job"], 0), (["estimator=nope"], 2)],
)
def test_help_and_config_answer_without_heavy_imports(
    arguments: list[str], exit_code: int, tmp_path: Path, environment: dict[str, str]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == exit_code, ended.stderr
    assert "imported: []" in ended.stderr
    assert list(tmp_path.iterdir()) == []
    if "--help" in arguments:
        for group, choice in CHOICES:
            assert re.search(rf"^{group}: .*\b{choice}\b", ended.stdout, re.MULTILINE)
        assert "python -m whest" in ended.stdout
    if "--cfg" in arguments:
        assert OmegaConf.create(ended.stdout).budget == 6.8e10


def test_list_names_every_choice(whest: Whest) -> None:
    outcome = whest("job=list")
    assert outcome.exit_code == 0, outcome.err
    names = {line.split()[0]: line for line in outcome.out.splitlines() if line.strip()}
    for _, choice in (pair for pair in CHOICES if pair[0] != "task"):
        assert choice in names
        assert len(names[choice].split()) > 2, f"{choice} has no description"
    jobs = outcome.out[outcome.out.index("job=…") : outcome.out.index("estimator=…")]
    listed = dict(re.findall(r"^ +(\S+) +(.*\S) *$", jobs, re.MULTILINE))
    assert listed == {name: job.summary for name, job in JOBS.items()}


def test_the_config_s_comment_on_job_names_every_job() -> None:
    """The comment of `job:`, with the lines of comment below it."""
    found = re.search(r"^job: .*\n(?: +#.*\n)*", (CONF / "config.yaml").read_text(), re.MULTILINE)
    assert found is not None
    comment = " ".join(line.partition("#")[2] for line in found[0].splitlines())
    assert [name.strip() for name in comment.split(",")] == list(JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_s_target_is_a_function_of_cli(name: str) -> None:
    """Called with the config, the folder and the words of the command line."""
    target = JOBS[name].target
    function = pkgutil.resolve_name(target)
    assert target.startswith("whest.cli.")
    assert len(inspect.signature(function).parameters) == 3


def test_clean_removes_the_caches_and_nothing_else(whest: Whest) -> None:
    before = whest(*TINY, "estimator=zeros").files
    truths = [name for name in before if name.startswith("cache/truth")]
    assert len(truths) == 2
    cleaned = whest("job=clean")
    assert cleaned.exit_code == 0, cleaned.err
    assert not any(path.is_file() for path in (cleaned.outputs / "cache").rglob("*"))
    assert set(before) - set(truths) <= set(cleaned.files)
    assert whest("job=clean").exit_code == 0


def test_a_description_is_shown_to_its_end() -> None:
    ends = {
        "ari": "unless leaderboard.demo_counts=true",
        "fherma": "description is published",
        "prism": "with a weight",
    }
    for name, end in ends.items():
        assert headline(CONF / "contest" / f"{name}.yaml").endswith(end)
    assert headline(CONF / "contest" / "whitebox.yaml").endswith("the challenge's own score"), "no command in it"


def test_a_job_that_only_reads_needs_no_folder_to_write(whest: Whest, tmp_path: Path) -> None:
    (tmp_path / "a_file").touch()
    outcome = whest("job=list", f"outputs_dir={tmp_path / 'a_file'}")
    assert outcome.exit_code == 0, outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["a_file"]


@pytest.mark.parametrize("job", ["list", "clean"])
def test_a_job_without_a_report_leaves_no_run_folder(whest: Whest, job: str) -> None:
    assert whest(f"job={job}").files == []


# --- a run ---


def test_the_run_folder_is_where_it_was_asked_for(whest: Whest, tmp_path: Path) -> None:
    outcome = whest(*TINY, "budget=1e6", "estimator=mean_prop", "hydra.run.dir=here/there", "figures=true")
    folder = tmp_path / "here" / "there"
    assert outcome.exit_code == 0, outcome.err
    assert (folder / "report.json").exists()
    assert len(list((folder / "figures").glob("*.png"))) == 3
    text = (folder / "config.yaml").read_text()
    config = OmegaConf.create(text)
    assert "${" not in text
    assert (config.budget, config.dataset.width, config.estimator.name) == (1e6, 16, "mean_prop")
    assert list(outcome.outputs.glob("runs/*")) == []
    assert "here/there: report.json" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [(["estimator=file", "estimator.path=mine.py"], 1), (["bugdet=1"], 2)],
)
def test_a_process_that_fails_says_so_in_a_line_and_its_exit_code(
    whest_process: Whest, tmp_path: Path, arguments: list[str], exit_code: int
) -> None:
    (tmp_path / "mine.py").write_text("class Estimator:\n    def predict(self, mlp, budget):\n        1 / 0\n")
    outcome = whest_process(*TINY, *arguments)
    assert outcome.exit_code == exit_code, outcome.err
    assert "Traceback" not in outcome.err
    assert "Warning" not in outcome.err
    assert "\x1b" not in outcome.out + outcome.err
    assert outcome.err.splitlines()[-1].startswith("whest: ")


def test_a_console_that_speaks_ascii_only_does_not_spoil_the_run(whest: Whest, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    assert whest(*TINY, "estimator=zeros").exit_code == 0
    assert b"zeros on fresh" in written.getvalue()


SLOW_TRUTH = ["dataset=fresh", "dataset.width=64", "dataset.depth=3", "seed=5", "truth=plain", "truth.n_samples=50000"]


def test_ctrl_c_keeps_the_finished_mlps(interrupt: Whest) -> None:
    outcome = interrupt(*SLOW_TRUTH, "dataset.n_mlps=500", "estimator=mean_prop", "tracking=mlflow", n_truths=2)
    assert outcome.exit_code == 130, outcome.err
    assert "Traceback" not in outcome.err
    report = outcome.report
    finished = [row["mlp_index"] for row in report["results"]["per_mlp"]]
    assert finished == list(range(len(finished)))
    assert 1 <= len(finished) < 500
    assert report["run_meta"]["status"] == "interrupted"
    assert report["run_config"]["n_mlps"] == 500
    scores = [row["adjusted_final_layer_score"] for row in report["results"]["per_mlp"]]
    assert report["results"]["score"] == pytest.approx(sum(scores) / len(scores))
    assert f"interrupted after {len(finished)} of 500 MLPs" in outcome.out
    assert (outcome.folder / "report.html").exists()
    assert list(outcome.mlflow_runs().values()) == ["KILLED"]
    drawn = [path.suffix for path in (outcome.outputs / "cache" / "truth").iterdir()]
    assert set(drawn) <= {".npz", ".begun"}
    assert drawn.count(".begun") <= 1, "at most the draw it was in the midst of"


def test_ctrl_c_stops_a_whole_sweep(interrupt: Whest) -> None:
    outcome = interrupt(
        "-m", *SLOW_TRUTH, "dataset.n_mlps=500", "estimator=zeros,mean_prop", "tracking=none", n_truths=2
    )
    assert outcome.exit_code == 130, outcome.err
    assert (outcome.sweep / "0" / "report.json").exists()
    assert not (outcome.sweep / "1" / "report.json").exists()


@pytest.mark.parametrize("name", ["platform", "typing", "hydra"])
def test_a_file_of_the_working_folder_does_not_pass_for_a_library(
    name: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath('ran').touch()\nraise ImportError\n")
    command = [sys.executable, "-m", "whest", "job=list"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "ran").exists()


def test_the_script_runs_code_of_the_current_folder(tmp_path: Path, outputs: Path, environment: dict[str, str]) -> None:
    script = Path(sys.executable).with_name("whest-run")
    if not script.exists():
        pytest.skip("whest is not installed in this environment")
    (tmp_path / "mine.py").write_text(
        "import jax.numpy as jnp\n\n\nclass Mine:\n"
        "    def predict(self, mlp, budget):\n        return jnp.zeros((mlp.depth, mlp.width))\n"
    )
    ended = subprocess.run(
        [script, *TINY, "isolation=none", "estimator._target_=mine.Mine", f"outputs_dir={outputs}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert "score " in ended.stdout
    assert "\x1b" not in ended.stdout
    assert len(list(outputs.glob("runs/*/*/report.json"))) == 1
