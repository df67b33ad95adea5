"""Config folders are data: they set `estimator.*` of their own choices, and nothing of them runs in this process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.singleton import Singleton

import whest as whest_package
from tests.support.places import ROOT
from whest.config.sources import GuardedFiles, GuardedPackage, guard_folders
from whest.errors import ConfigError

Whest = Callable[..., Any]
SMALL = ("debug=tiny", "truth=plain", "tracking=none")
SECRET = "s3cret-token"

MARKING = """import pathlib
pathlib.Path({mark!r}).write_text("ran")
from whest.truth.plain import PlainTruth as Sampler
class Estimator:
    def predict(self, mlp, budget):
        return mlp.weights[:, 0]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_SECRET", SECRET)


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        place = Path("theirs") / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def refusal(*words: str) -> str:
    with pytest.raises(ConfigError) as caught:
        whest_package.compose(*words, config_dir="theirs")
    return str(caught.value)


GLOBAL = "# @package _global_\ntruth:\n  _target_: evil.Sampler\nestimator:\n  _target_: evil.Estimator\n"

BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))

HOSTILE = {
    "another package": (GLOBAL, "# @package _global_"),
    "a package by another spelling": ("#   @package   truth\n_target_: evil.Sampler\n", "# @package truth"),
    "a package after empty lines": ("\n\n  # @package _global_\ntruth: {n_samples: 2}\n", "# @package _global_"),
    "a package of hydra": ("# @package hydra.callbacks\nx: {_target_: evil.Callback}\n", "# @package hydra.callbacks"),
    "the environment": ("_target_: evil.Estimator\nknob: ${oc.env:A_SECRET}\n", "estimator.knob=${oc.env:A_SECRET}"),
    "the environment in a list": ("knob: [1, {a: ['x ${ oc.env:A_SECRET } y']}]\n", "estimator.knob[1].a[0]="),
    "the environment, nested": ("knob: ${oc.decode:${oc.env:A_SECRET}}\n", "estimator.knob="),
    "the environment by name": ("name: ${oc.env:A_SECRET}\n", "estimator.name="),
    "the environment, escaped": ('knob: "\\x24{oc.env:A_SECRET}"\n', "estimator.knob="),
    "the environment in a block": ("knob: >-\n  $\\\n  {a}\n  ${oc.env:A_SECRET}\n", "estimator.knob="),
    "an old resolver": ("knob: ${env:A_SECRET}\n", "estimator.knob="),
    "hydra's runtime": ("knob: ${hydra:runtime.cwd}\n", "estimator.knob=${hydra:runtime.cwd}"),
    "hydra's node": ("knob: ${hydra.job.env_set}\n", "estimator.knob="),
    "the tracking address": ("knob: ${tracking.uri}\n", "estimator.knob=${tracking.uri}"),
    "a neighbour's key": ("knob: ${..tracking.uri}\n", "estimator.knob="),
    "the dataset": ("knob: ${dataset.seed}\n", "estimator.knob="),
    "a selection": ("knob: ${oc.select:tracking.uri}\n", "estimator.knob="),
    "a created node": ("knob: '${oc.create:{a:1}}'\n", "estimator.knob="),
    "a nested reference": ("knob: ${estimator.${hydra:job.name}}\n", "estimator.knob="),
    "a class among the knobs": ("_target_: evil.Estimator\nknob: {_target_: os.system}\n", "estimator.knob._target_"),
    "a class deep in a list": ("knob: [[{b: {_target_: os.system}}]]\n", "estimator.knob[0][0].b._target_"),
    "hydra's words": ("_target_: evil.Estimator\n_partial_: true\n", "estimator._partial_"),
    "a class by interpolation": ("_target_: ${estimator.a}\na: evil.Estimator\n", "estimator._target_="),
    "a class as a list": ("_target_: [evil.Estimator]\n", "estimator._target_="),
    "a part of ours as a class": ("_target_: estimators.monte_carlo.dataclass\n", "none of the bundled estimators"),
    "an interpreter": ("mode: flopscope\npath: ${beside:evil.py}\npython: /bin/sh\n", "estimator.python"),
    "a file elsewhere": ("path: /etc/passwd\n", "estimator.path=/etc/passwd"),
    "a file above": ("path: ${beside:../outside.py}\n", "estimator.path="),
    "another group in defaults": ("defaults: [{/truth: evil}]\n", "defaults has {'/truth': 'evil'}"),
    "a package in defaults": ("defaults: ['evil@_global_']\n", "defaults has 'evil@_global_'"),
    "a package in a group's defaults": ("defaults: [{'evil@truth': x}]\n", "defaults has"),
    "an override in defaults": ("defaults: [{override /truth: evil}]\n", "defaults has"),
    "hydra in defaults": ("defaults: [{override /hydra/launcher: evil}]\n", "defaults has"),
    "a path in defaults": ("defaults: [/truth/evil]\n", "defaults has '/truth/evil'"),
    "a path up in defaults": ("defaults: [../truth/evil]\n", "defaults has"),
    "defaults by interpolation": ("defaults: ['${oc.env:A_SECRET}']\n", "defaults has"),
    "defaults as a mapping": ("defaults: {/truth: evil}\n", "defaults has"),
    "an alias": ("a: &x {b: 1}\nc: *x\n", "*x"),
    "many aliases": (BOMB, "*a0"),
    "a merge": ("a: &x {_target_: os.system}\nb:\n  <<: *x\n", "*x"),
    "great depth": ("a: " + "[" * 5000 + "]" * 5000 + "\n", "nested deeper"),
    "great size": ("a: " + "x" * 70_000 + "\n", "more than 65,536 bytes"),
    "an object": ("a: !!python/object/apply:os.system ['true']\n", "it is not a config"),
    "bytes": ("a: !!binary aGVsbG8=\n", "no plain value"),
    "no YAML": ("a: [1\n", "it is not YAML"),
    "a key twice": ("a: 1\na: 2\n", "it is not a config"),
    "a list": ("- 1\n", "it must be a mapping"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_folder_that_wants_more_is_refused(what: str) -> None:
    text, words = HOSTILE[what]
    write({"estimator/mine.yaml": text, "evil.py": "", "truth/evil.yaml": "_target_: evil.Sampler\n"})
    Path("outside.py").write_text("")
    message = refusal("estimator=mine")
    assert words in message
    assert SECRET not in message


def test_a_word_with_a_slash_is_a_file_and_never_a_choice_of_a_folder() -> None:
    write({"estimator/deep/evil.yaml": "_target_: evil.Sampler\n"})
    estimator = whest_package.compose("estimator=deep/evil", config_dir="theirs")["estimator"]
    assert estimator["path"] == "deep/evil"
    assert "_target_" not in estimator


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("truth/evil.yaml", ["truth=evil"]),
        ("tracking/evil.yaml", ["tracking=evil"]),
        ("experiment/evil.yaml", ["experiment=evil"]),
        ("new/evil.yaml", ["+new=evil"]),
        ("hydra/launcher/evil.yaml", ["hydra/launcher=evil"]),
        ("evil.yaml", ["+evil@truth=evil"]),
    ],
)
def test_no_other_group_is_taken_from_a_folder(file: str, words: list[str]) -> None:
    write({file: "_target_: evil.Sampler\n"})
    if file == "evil.yaml":
        with pytest.raises(Exception, match="evil"):
            whest_package.compose(*words, config_dir="theirs")
        return
    message = refusal(*words)
    assert str(Path("theirs") / file) in message
    assert "may only add choices of estimator" in message


def test_a_link_out_of_the_folder_is_not_followed() -> None:
    write({"estimator/other.yaml": ""})
    Path("outside.yaml").write_text("knob: 1\n")
    Path("theirs/estimator/mine.yaml").symlink_to(Path("outside.yaml").absolute())
    assert "leads out of" in refusal("estimator=mine")


def test_a_link_beside_is_not_followed() -> None:
    write({"estimator/mine.yaml": "path: ${beside:mine.py}\n"})
    Path("outside.py").write_text("")
    Path("theirs/mine.py").symlink_to(Path("outside.py").absolute())
    with pytest.raises(Exception, match="leads out of the config folder"):
        whest_package.compose("estimator=mine", config_dir="theirs")


def test_what_a_folder_may_say_composes() -> None:
    text = "# ours\ndefaults: [base, _self_]\npath: ${beside:mine.py}\nshare: 0.5\nbudget: ${budget}\nhalf: ${.share}\n"
    write(
        {"estimator/mine.yaml": text, "estimator/base.yaml": "rank: [1, {a: b}]\nname: ${file_stem:}\n", "mine.py": ""}
    )
    config = whest_package.compose("estimator=mine", config_dir="theirs")
    assert config["estimator"] == {
        "name": "mine",
        "mode": "traced",
        "rank": [1, {"a": "b"}],
        "path": str(Path("theirs/mine.py").absolute()),
        "share": 0.5,
        "budget": config["budget"],
        "half": 0.5,
    }


def test_a_bundled_class_with_knobs_of_ones_own_composes() -> None:
    write(
        {"estimator/mine.yaml": "_target_: estimators.zeros.Zeros\n", "estimator/heir.yaml": "defaults: [mean_prop]\n"}
    )
    assert whest_package.compose("estimator=mine", config_dir="theirs")["estimator"]["_target_"].endswith("Zeros")
    assert whest_package.compose("estimator=heir", config_dir="theirs")["estimator"]["_target_"].endswith("MeanProp")


@pytest.mark.parametrize("flag", ["--config-dir", "searchpath", "--config-path"])
def test_the_command_line_refuses_before_anything_is_written(whest: Whest, tmp_path: Path, flag: str) -> None:
    write({"estimator/mine.yaml": GLOBAL, "config.yaml": "hydra: {callbacks: {x: {_target_: evil.Callback}}}\n"})
    folder = str(tmp_path / "theirs")
    words = [f"hydra.searchpath=[file://{folder}]"] if flag == "searchpath" else []
    outcome = whest(*([flag, folder] if not words else []), *words, *SMALL, "estimator=mine")
    assert outcome.exit_code == 2
    assert f"{folder}/" in outcome.err
    assert "Traceback" not in outcome.err
    assert not outcome.outputs.exists()


def test_a_sweep_over_a_hostile_choice_is_refused(whest: Whest) -> None:
    write({"estimator/mine.yaml": GLOBAL})
    outcome = whest("--config-dir", "theirs", "-m", *SMALL, "estimator=zeros,mine")
    assert outcome.exit_code == 2
    assert "# @package _global_" in outcome.err


def test_the_operators_own_words_may_do_everything(whest: Whest, tmp_path: Path) -> None:
    write({"estimator/mine.yaml": "_target_: estimators.zeros.Zeros\n"})
    outcome = whest("--config-dir", "theirs", *SMALL, "estimator=mine", "participant=${oc.env:A_SECRET}")
    assert outcome.exit_code == 0, outcome.err
    assert outcome.report["run_config"]["participant"] == SECRET


OTHER = """
import whest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from whest.config.versions import BASE
whest.compose("estimator=zeros")
GlobalHydra.instance().clear()
with initialize_config_dir({folder!r}, **BASE):
    print(compose("config", ["truth=other"]).truth.where)
"""


def test_another_hydra_program_in_the_process_is_left_alone(tmp_path: Path) -> None:
    write({"config.yaml": "defaults: [{truth: other}]\n", "truth/other.yaml": "where: ${oc.env:A_SECRET}\n"})
    script = OTHER.format(folder=str(tmp_path / "theirs"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert ended.stdout.strip() == SECRET, ended.stderr


# --- classes of other groups ---


def test_a_class_of_another_group_is_ours_unless_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text(MARKING.format(mark=str(tmp_path / "mark")))
    monkeypatch.syspath_prepend(tmp_path)
    config = whest_package.compose(*SMALL, "estimator=zeros", "outputs_dir=out")
    config["truth"] = {**config["truth"], "_target_": "evil.Sampler"}
    with pytest.raises(ConfigError, match=r"truth\._target_=evil\.Sampler is no class of whest"):
        whest_package.run(config)
    assert not (tmp_path / "mark").exists()
    report = whest_package.run(*SMALL, "estimator=zeros", "outputs_dir=out", "truth._target_=evil.Sampler")
    assert (tmp_path / "mark").exists()
    assert report.score.score is not None


@pytest.mark.parametrize("target", ["os.system", "whest.files.Path", "whest.files.read_bounded", "whest", None, 3])
def test_what_is_no_class_of_ours_is_not_called(target: Any) -> None:
    config = whest_package.compose(*SMALL, "estimator=zeros", "outputs_dir=out")
    config["scoring"] = {"_target_": target}
    with pytest.raises(ConfigError, match=r"scoring\._target_"):
        whest_package.run(config)


# --- modules of the working folder ---


def python(*words: str) -> subprocess.CompletedProcess[str]:
    """`python -m whest` from this folder, with whest on the path by name."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "whest", *words], capture_output=True, text=True, env=environment)


def test_a_file_in_the_working_folder_does_not_pass_for_a_library(tmp_path: Path) -> None:
    """Each of these names would be imported by whest itself."""
    for name in ("hydra", "rich", "optax", "whest_plugin"):
        Path(f"{name}.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'mark')!r}).touch()\n")
    ended = python("job=list")
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "mark").exists()


def test_a_local_estimators_folder_is_not_bundled(
    whest: Whest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the working folder is on the path: it runs in a worker, like any stranger's."""
    Path("estimators").mkdir()
    Path("estimators/__init__.py").write_text("")
    Path("estimators/zeros.py").write_text(MARKING.format(mark=str(tmp_path / "mark")).replace("Estimator", "Zeros"))
    for name in [name for name in sys.modules if name.split(".")[0] == "estimators"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    outcome = whest(*SMALL, "estimator=zeros")
    assert not (tmp_path / "mark").exists(), "it ran in this process"
    assert outcome.report["run_config"]["isolation"]["worker"] is True


def test_a_package_is_not_run_to_find_a_class_in_it(whest: Whest, tmp_path: Path) -> None:
    """Its class is imported by the worker alone, which can't write here."""
    Path("stranger").mkdir()
    Path("stranger/__init__.py").write_text(
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
    )
    Path("stranger/mod.py").write_text("class Estimator:\n    pass\n")
    write({"estimator/mine.yaml": "_target_: stranger.mod.Estimator\n"})
    outcome = whest("--config-dir", "theirs", *SMALL, "estimator=mine")
    ran_here = (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() == str(os.getpid())
    assert not ran_here, outcome.err
    assert "stranger" not in sys.modules


def test_a_job_on_another_process_keeps_the_guard() -> None:
    """What Hydra's launchers do there: take over this process's singletons, then register their own sources."""
    guard_folders()
    before = dict(Singleton._instances)
    try:
        Singleton.set_state(Singleton.get_state())
        types = SourcesRegistry.instance().types
        assert (types["file"], types["pkg"]) == (GuardedFiles, GuardedPackage)
    finally:
        Singleton._instances = before
