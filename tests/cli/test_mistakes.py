"""Mistakes at the command line: each is one message with its remedy, exit code 2, and nothing half-written."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Whest = Callable[..., Any]

WORDS = {
    # the words themselves
    "bugdet=1e9": "bugdet is not a key of this config. Did you mean budget?",
    "budget==3": "budget==3",
    "valdate": "valdate is neither a job nor key=value. Did you mean validate?",
    "mine.py": "mine.py is neither a job nor key=value. Did you mean estimator=mine.py?",
    "validate doctor": "job=validate and job=doctor: a command has one job",
    "job=scor": "job=scor is no job. Did you mean job=score?",
    "job=comprae": "Did you mean job=compare?",
    "round=tiny": "Did you mean debug=tiny?",
    "estimator=zeros,cov_prop": "To sweep",
    "--config-dir gone": "gone' not found",
    # words that nothing would read
    "leaderboard=prism": "leaderboard=prism has no effect on job=score: add job=leaderboard",
    "leaderboard.deadline=null": "add job=leaderboard",
    "bake.slice=1/2": "bake.slice=1/2 has no effect on job=score: add job=bake",
    "validate compare.runs=[a,b]": "compare.runs=[a,b] has no effect on job=validate: add job=compare",
    "judge.verdict=reviewed": "add job=judge",
    "truth.n_samples=1000": "truth.resample=true",
    "round.width=16": "round.width=16 has no effect on the shipped suite: add dataset=fresh",
    "debug=tiny output=run.json": "output=run.json has no effect on job=score: hydra.run.dir=FOLDER",
    "dubug=tiny": "Did you mean debug?",
    "list estimator=cov_prop budget=3": "estimator=cov_prop has no effect on job=list: leave it out",
    "runs round=phase1": "has no effect on job=runs: leave it out, or choose runs by it, runs.round=phase1",
    "doctor budget=3": "budget=3 has no effect on job=doctor: leave it out. It reads device, output, tracking",
    "gallery seed=3": "seed=3 has no effect on job=gallery: leave it out",
    "estimator=zwölf.py": "estimator.path=zwölf.py: no such file",
    # values
    "budget=-1": "budget must be greater than or equal to 1, got -1",
    "budget=plenty": "budget must be a valid number",
    "seed=-1": "seed must be greater than or equal to 0, got -1",
    "device=tpu": "device must be 'auto', 'cpu' or 'gpu', got 'tpu'",
    "memory_limit_mb=100": "memory_limit_mb=100 works only for a worker: add isolation=process",
    "debug=tiny dataset.n_mlps=0": "dataset.n_mlps must be greater than or equal to 1, got 0",
    "debug=tiny dataset.width=wide": "dataset.width must be a valid integer",
    "scoring=prism": "scoring=prism can't score task=whitebox",
    # datasets
    "dataset=file": "dataset.path is missing: set dataset.path=…",
    "dataset=file dataset.path=gone": "dataset.path=gone",
    "dataset=hub dataset.repo=owner/name": "dataset.revision=null is not pinned",
    "dataset=seeds dataset.mlp_seeds=seeds.json": "dataset.mlp_seeds=seeds.json must hold a JSON list",
    # estimators
    "estimator=covprop": "Did you mean estimator=cov_prop?",
    "estimator=mine": "Did you mean estimator=mine.py?",
    "estimator=gone.py": "estimator.path=gone.py: no such file",
    "estimator=./hollow": "estimator=./hollow is a folder without estimator.py or hollow.py: name the file",
    "-m estimator=mine.py,cov_prop": "estimator=mine.py,cov_prop mixes files and choices",
    "estimator=byte_mlp": "estimator=byte_mlp is a byte learner",
    "estimator.mode=fast": "estimator.mode='fast' is not one of",
    "estimator=cov_prop estimator.form=exact": "A knob of its class is added with a plus, +estimator.form=…",
    "+estimator.rank=3": "estimator.rank is not a key of estimator=CovarianceProp; its keys are: form, sphere",
    "estimator=monte_carlo estimator.budget_fraction=2": "budget_fraction must be less than or equal to 1",
    "estimator=mine.py isolation=none isolation.require=[files]": "use isolation=process",
    # packages that are not installed
    # sweeps that can't begin
    "-m debug=tiny tracking=mlflow estimator=zeros,nope": "estimator/nope",
    "-m debug=tiny bugdet=1,2": "bugdet is not a key of this config",
    # folders
    "debug=tiny outputs_dir=a_file": "can't be written (Not a directory): choose another outputs_dir",
    "debug=tiny outputs_dir=a_file/folder": "can't be written (Not a directory)",
    "debug=tiny hydra.run.dir=a_file": "can't be written (File exists)",
    "-m debug=tiny seed=1,2 outputs_dir=a_file/folder": "can't be written (Not a directory)",
    "debug=tiny hydra.run.dir=run outputs_dir=a_file": "can't be written (File exists)",
    # other jobs
    "init": "path is missing: name a folder for your estimator, job=init path=mine",
    "init path=cov_prop": "estimator=cov_prop exists already",
    "page": "path is missing: name a run's folder or its report.json",
    "page path=gone": "path=gone is no file or folder: name a run's folder, job=runs lists them",
    "champion run=gone": "run has 'gone', which is no file or folder and no MLflow run id: job=runs lists them",
    "inspect path=gone.whest": "(No such file or directory): name a file that job=seal wrote",
    "info path=gone": "gone: no such dataset",
    "merge inputs=[part]": "output is missing",
    "compare compare.runs=[cov_prop]": "must name at least two runs",
    "compare compare.runs=[cov_prop,nope]": "compare.runs has 'nope'",
    "compare compare.runs=[cov_porp,mean_prop]": "no estimator. Did you mean cov_prop?",
    "log path=missing": "path=missing is no file or folder: name a run's folder, job=runs lists them",
    "reproduce run=outputs/runs/nowhere": "run=outputs/runs/nowhere is no file or folder: name a run's",
    "leaderboard": "has no runs yet: score an estimator first",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("class Estimator:\n    def predict(self, mlp, budget): ...\n")
    (tmp_path / "seeds.json").write_text('{"seed": 1}')
    (tmp_path / "a_file").touch()
    (tmp_path / "hollow").mkdir()
    return tmp_path


@pytest.mark.parametrize("words", WORDS)
def test_a_mistake_is_one_message_and_leaves_nothing(words: str, whest: Whest, folder: Path) -> None:
    before = set(folder.rglob("*"))
    outcome = whest(*words.split())
    assert outcome.exit_code == 2, outcome.err
    assert outcome.err.startswith("whest: ")
    assert WORDS[words] in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert set(folder.rglob("*")) == before


def needs_absent(plugin: str) -> pytest.MarkDecorator:
    is_there = importlib.util.find_spec(f"hydra_plugins.{plugin}") is not None
    return pytest.mark.skipif(is_there, reason=f"{plugin} is installed, so nothing is missing")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(f"-m hydra/{choice} seed=1,2", said, marks=needs_absent(plugin))
        for choice, said, plugin in (
            ("launcher=slurm", "hydra/launcher=slurm needs a package that is not", "hydra_submitit_launcher"),
            ("launcher=processes", "pip install 'whest[submitit]'", "hydra_submitit_launcher"),
            ("launcher=cluster", "pip install 'whest[ray]'", "hydra_ray_launcher"),
            ("sweeper=tune", "pip install 'whest[optuna]'", "hydra_optuna_sweeper"),
        )
    ],
)
def test_a_missing_extra_names_its_command(words: str, said: str, whest: Whest, folder: Path) -> None:
    before = set(folder.rglob("*"))
    outcome = whest(*words.split())
    assert outcome.exit_code == 2, outcome.err
    assert outcome.err.startswith("whest: ")
    assert said in outcome.err
    assert set(folder.rglob("*")) == before


def test_a_missing_knob_of_a_file_is_named_as_it_is_typed(whest: Whest, folder: Path) -> None:
    """A stranger's class is known only in its worker: the run is over, but its report says what to type."""
    (folder / "knob.py").write_text(
        "import jax.numpy as jnp\n\n\nclass Estimator:\n"
        "    def __init__(self, rank: int): ...\n"
        "    def predict(self, mlp, budget):\n        return jnp.zeros((mlp.depth, mlp.width))\n"
    )
    outcome = whest("debug=tiny", "truth=plain", "dataset.n_mlps=1", "estimator=knob.py")
    assert outcome.exit_code in (1, 2)
    assert "Traceback" not in outcome.err
    said = " ".join((outcome.out + outcome.err).split())
    assert "estimator.rank is missing: set +estimator.rank=…" in said
