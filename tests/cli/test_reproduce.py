"""`job=reproduce` and `console=json`: real runs, repeated."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_harness import Outcome

Whest = Callable[..., Outcome]
TINY = ("debug=tiny", "page=false")
MINE = """
import jax.numpy as jnp
from helper import SHIFT


class Estimator:
    def predict(self, mlp, budget):
        return jnp.abs(mlp.weights).sum(axis=1) * SHIFT
"""
PRISM = ("experiment=prism", "data=generated", "data.max_bytes=4096", "data.val_bytes=1024", "budget=1e9", "page=false")
EXAM = ("experiment=ari", "budget=1e9", "page=false")
TWENTY = (
    *[(*TINY, f"estimator={name}") for name in ("mean_prop", "cov_prop", "third_cumulant")],
    *[(*TINY, f"estimator={name}", "budget=1e7") for name in ("monte_carlo", "orthogonal", "kerdock", "telescoping")],
    (*TINY, "estimator=cov_prop", "scoring=fherma"),
    (*TINY, "estimator=mean_prop", "estimator.mode=eager"),
    (*TINY, "estimator=mean_prop", "truth=plain"),
    (*TINY, "estimator=cov_prop", "isolation=process"),
    (*TINY, "estimator=monte_carlo", "budget=1e6", "seed=7"),
    ("dataset.n_mlps=2", "estimator=cov_prop", "page=false"),
    ("estimator=mine.py", *TINY),
    ("estimator=random", *TINY),
    (*PRISM, "estimator=byte_mlp"),
    (*PRISM, "estimator=ngram"),
    (*PRISM, "estimator=byte_ssm"),
    (*EXAM, "estimator=byte_mlp"),
    (*EXAM, "estimator=byte_attention"),
)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helper.py").write_text("SHIFT = 0.5\n")
    return tmp_path


def answer(outcome: Outcome) -> Any:
    """The one line of JSON on standard output."""
    (line,) = outcome.out.splitlines()
    return json.loads(line)


def scored(whest: Whest, folder: Path, *words: str) -> Any:
    outcome = whest(*words, "console=json", f"hydra.run.dir={folder}")
    assert outcome.exit_code == 0, outcome.err
    return answer(outcome)


def test_a_run_is_the_same_again_and_answers_are_json(whest: Whest, tmp_path: Path) -> None:
    told = scored(whest, tmp_path / "first", *TINY, "estimator=mean_prop")
    report = json.loads((tmp_path / "first" / "report.json").read_text())
    assert (told["score"], told["exit_code"], told["job"]) == (report["results"]["score"], 0, "score")
    assert {"report.json", "config.yaml", "predictions.npz"} <= set(told["files"])
    assert told["next"][0].startswith("python -m whest")
    again = whest("job=reproduce", f"run={told['folder']}", "tracking=none", "console=json")
    assert again.exit_code == 0
    assert answer(again)["verdict"] == "same bits"
    assert "same bits: mean_prop" in again.err  # people read standard error then

    with_damage = json.loads(json.dumps(report))
    with_damage["run_config"]["estimator"]["target"] = "__main__.Mine"
    (tmp_path / "first" / "report.json").write_text(json.dumps(with_damage))
    refused = whest("job=reproduce", f"run={told['folder']}", "tracking=none", "console=json")
    assert (refused.exit_code, answer(refused)["exit_code"]) == (2, 2)
    assert "an object of a script" in answer(refused)["error"]


def test_the_kept_source_runs_and_a_changed_line_is_shown(whest: Whest, mine: Path) -> None:
    trusted = ("isolation=none", "isolation.require=[]")
    scored(whest, mine / "first", *TINY, "estimator=mine.py", *trusted)
    assert json.loads((mine / "first" / "provenance.json").read_text())["source"]["files"].keys() == {
        "mine.py", "helper.py",
    }  # fmt: skip
    (mine / "mine.py").write_text(MINE.replace("* SHIFT", "* SHIFT * 3"))
    words = ("job=reproduce", "run=first", "tracking=none", *trusted)
    kept = whest(*words)
    assert kept.exit_code == 0
    assert kept.out.startswith("same bits: mine, every figure of 2 MLPs is the same")
    current = whest(*words, "reproduce.source=current")
    assert current.exit_code == 1
    assert current.out.startswith("differs: mine, ")
    assert "+        return jnp.abs(mlp.weights).sum(axis=1) * SHIFT * 3" in current.out
    assert "the estimator's source changed" in current.out
    refused = whest("job=reproduce", "run=first", "tracking=none")
    assert refused.exit_code == 2
    assert "add isolation=none" in refused.err


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("whest.truth.fast.FastTruth", "os.system", "truth._target_=os.system, which is none of whest's choices"),
        ("estimators.mean_prop.MeanProp", "subprocess.Popen", "an object of a script"),
        ("name: mean_prop", "name: mean_prop\n  python: /bin/sh", "estimator.python=/bin/sh"),
        (
            "  - processes\n",
            "",
            "did without the protection of processes: if you trust its code, add isolation.require=",
        ),
        ("task:", "task: ]", "it is not YAML"),
    ],
)
def test_a_strangers_record_chooses_no_code(
    whest: Whest, tmp_path: Path, recorded: Path, before: str, after: str, message: str
) -> None:
    place = tmp_path / "theirs"
    shutil.copytree(recorded, place)
    config = (place / "config.yaml").read_text()
    assert before in config
    (place / "config.yaml").write_text(config.replace(before, after, 1))
    outcome = whest("job=reproduce", f"run={place}", "tracking=none")
    assert outcome.exit_code == 2
    assert message in outcome.err


BOMB = "az: &a [x,x]\n" + "".join(f"{b}z: &{b} [*{a},*{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("harm", "message"),
    [("a link", "source is a link: put the run's own files there"), ("aliases", "YAML aliases are not read here")],
)
def test_a_strangers_record_reads_no_files_and_takes_no_memory(
    whest: Whest, mine: Path, harm: str, message: str
) -> None:
    """`source -> ..` put the files around the record into the worker and into reproduction.json."""
    scored(whest, mine / "run", "estimator=mine.py", *TINY, "tracking=none")
    if harm == "a link":
        (mine / "private.py").write_text("S3CR3T = 1\n")
        shutil.rmtree(mine / "run" / "source")
        (mine / "run" / "source").symlink_to("..")
    else:
        with (mine / "run" / "config.yaml").open("a") as config:
            config.write(BOMB)
    outcome = whest("job=reproduce", "run=run", "tracking=none", "hydra.run.dir=again")
    assert outcome.exit_code == 2
    assert message in outcome.err
    assert not (mine / "again").exists()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import whest

    folder = tmp_path_factory.mktemp("recorded") / "run"
    whest.run(*TINY, "estimator=mean_prop", f"outputs_dir={folder.parent}", folder=folder)
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "run is missing"),
        (("run=nowhere",), "tracking=none has no runs: add tracking=mlflow"),
        (("run=.",), "can't be read"),
    ],
)
def test_a_run_that_is_not_there(whest: Whest, words: tuple[str, ...], message: str) -> None:
    outcome = whest("job=reproduce", "tracking=none", *words)
    assert outcome.exit_code == 2
    assert message in outcome.err
    assert outcome.files == []


def test_a_wrong_word_is_json_too(whest: Whest) -> None:
    outcome = whest("console=json", "estimatr=cov_prop")
    assert answer(outcome)["exit_code"] == outcome.exit_code == 2
    assert "Did you mean estimator" in answer(outcome)["error"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")  # MLflow's
@pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning")  # MLflow's
@pytest.mark.parametrize("words", TWENTY, ids=" ".join)
def test_twenty_logged_runs_come_out_the_same(whest: Whest, mine: Path, words: tuple[str, ...]) -> None:
    scored(whest, mine / "first", *words, "tracking=mlflow")
    (mine / "mine.py").write_text("raise RuntimeError('the kept copy runs, not this file')\n")
    outcome = whest("job=reproduce", f"run={mine / 'first'}", "tracking=none", "console=json")
    assert answer(outcome)["verdict"] == "same bits", outcome.err
