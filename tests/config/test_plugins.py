"""Choices of installed packages and a user's own defaults: what they may do, and what they can't."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import whest
from whest.checks.doctor.packages import check_plugins
from whest.config.build import build_group
from whest.config.folders import FolderError
from whest.config.plugins import plugins, targets
from whest.errors import ConfigError
from whest.estimator.spec import estimator_spec
from whest.scoring.rules import recompute_of

Install = Callable[[dict[str, str]], None]
RULE = """
from whest.scoring.whest import WhestRule
class Mine(WhestRule):
    name = "mine"
    tasks = ("whitebox",)
    recompute = staticmethod(lambda config, results: 1.0)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a package and its entry point where an installed one would be."""
    place = tmp_path / "site-packages"

    def put(files: dict[str, str]) -> None:
        about = place / "acme_choices-1.2.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-choices\nVersion: 1.2\n")
        (about / "entry_points.txt").write_text("[whest.configs]\nacme = acme_choices.conf\n")
        for name, text in {"__init__.py": "raise SystemExit('it was run')\n", **files}.items():
            path = place / "acme_choices" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(str(place))
        plugins.cache_clear()

    yield put
    plugins.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_choices"]:
        del sys.modules[name]


def test_a_package_adds_an_estimator_and_is_not_run_for_it(install: Install) -> None:
    install(
        {
            "conf/estimator/acme.yaml": "# ours\n_target_: acme_choices.best.Best\nknob: 3\n",
            "best.py": "class Best:\n    pass\n",
        }
    )
    config = whest.compose("estimator=acme", "estimator.knob=4")
    assert config["estimator"] == {
        "name": "acme",
        "mode": "traced",
        "_target_": "acme_choices.best.Best",
        "knob": 4,
    }
    spec = estimator_spec(config["estimator"])
    assert not spec.is_trusted
    assert spec.source is not None
    assert spec.source.name == "best.py"
    assert "acme_choices" not in sys.modules


def test_whests_own_choice_is_not_replaced(install: Install) -> None:
    install({"conf/estimator/cov_prop.yaml": "_target_: acme_choices.best.Best\n"})
    assert whest.compose("estimator=cov_prop")["estimator"]["_target_"] == "estimators.cov_prop.CovarianceProp"
    (finding,) = check_plugins()
    assert finding.status == "warn"
    assert "estimator=cov_prop is whest's own" in finding.detail


@pytest.mark.parametrize(
    ("file", "text", "word", "said"),
    [
        ("conf/tracking/acme.yaml", "_target_: acme_choices.x.Y\n", "tracking=acme", "a plug-in may only add choices"),
        ("conf/experiment/acme.yaml", "# @package _global_\nseed: 1\n", "experiment=acme", "may only add choices"),
        (
            "conf/local/default.yaml",
            "# @package _global_\nseed: 1\n",
            "seed=2",
            "local: a plug-in may only add choices",
        ),
        ("conf/truth/acme.yaml", "# @package _global_\nseed: 1\n", "truth=acme", r"may only set truth\.\*"),
        ("conf/truth/acme.yaml", "n_samples: ${oc.env:HOME}\n", "truth=acme", r"truth\.n_samples"),
        ("conf/estimator/acme.yaml", "python: /bin/sh\n", "estimator=acme", r"estimator\.python"),
    ],
)
def test_what_a_plug_in_may_not_do(install: Install, file: str, text: str, word: str, said: str) -> None:
    install({file: text})
    with pytest.raises(FolderError, match=said):
        whest.compose(word)


def test_its_rule_runs_here_only_if_its_choice_was_typed(install: Install) -> None:
    install(
        {
            "__init__.py": "",
            "conf/scoring/acme.yaml": "_target_: acme_choices.rule.Mine\nmultiplier_floor: 0.1\n",
            "rule.py": RULE,
        }
    )
    chosen = whest.compose("scoring=acme")
    assert build_group(chosen, "scoring").name == "mine"
    whest.compose("scoring=whest")
    with pytest.raises(ConfigError, match=r"scoring\._target_=acme_choices\.rule\.Mine is no class of whest"):
        build_group(chosen, "scoring")
    assert targets("scoring") == ["acme_choices.rule.Mine"]
    assert recompute_of("mine") is not None
    assert recompute_of("nobody's") is None


def test_a_package_that_is_gone_is_a_finding_and_no_error(install: Install) -> None:
    install({"elsewhere/estimator/acme.yaml": "path: x.py\n"})
    (finding,) = check_plugins()
    assert (finding.status, "acme_choices.conf isn't there" in finding.detail) == ("warn", True)
    assert "pip uninstall acme-choices" in (finding.remedy or "")
    assert whest.compose("estimator=zeros")["estimator"]["name"] == "zeros"


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write the user's own defaults."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def put(text: str) -> Path:
        path = tmp_path / "whest" / "local" / "default.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    return put


def test_a_users_own_defaults_hold_and_words_win(local: Callable[[str], Path]) -> None:
    local("# @package _global_\nparticipant: ann\ndataset: {n_mlps: 7}\n")
    config = whest.compose()
    assert (config["participant"], config["dataset"]["n_mlps"]) == ("ann", 7)
    assert whest.compose("participant=bob")["participant"] == "bob"
    assert whest.compose("debug=tiny")["dataset"]["n_mlps"] == 2


def test_defaults_that_others_could_have_written_are_refused(local: Callable[[str], Path]) -> None:
    local("# @package _global_\nparticipant: ann\n").chmod(0o666)
    with pytest.raises(FolderError, match=r"others could have written it. Run chmod go-w"):
        whest.compose()


@pytest.mark.parametrize(
    ("text", "said"), [("participant: ann\n", "# @package _global_"), ("# @package _global_\n- 1\n- [\n", "not YAML")]
)
def test_wrong_defaults_name_the_file(local: Callable[[str], Path], text: str, said: str) -> None:
    path = local(text)
    with pytest.raises(FolderError, match=said) as refused:
        whest.compose()
    assert str(path) in str(refused.value)


def test_defaults_name_no_class_of_others(local: Callable[[str], Path]) -> None:
    local("# @package _global_\nscoring: {_target_: subprocess.Popen}\n")
    with pytest.raises(ConfigError, match=r"scoring\._target_=subprocess\.Popen is no class of whest"):
        build_group(whest.compose(), "scoring")
