"""The config of a sweep's job, from a kept one: exactly what Hydra composes."""

import copy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from whest.config.compose import config_folder, guard_folders
from whest.config.copies import _copied_for_job, copied, yaml_text
from whest.config.sweeping import _HYDRAS_OWN, KEPT, MOST_KEPT, check_jobs, load_job
from whest.config.versions import BASE, HYDRA

pytestmark = pytest.mark.skipif(HYDRA >= (1, 4), reason="Hydra 1.4 composes by itself")


@pytest.fixture
def loader() -> Iterator[ConfigLoaderImpl]:
    GlobalHydra.instance().clear()
    guard_folders()
    with initialize_config_dir(str(config_folder()), **BASE):
        found = GlobalHydra.instance().config_loader()
        assert isinstance(found, ConfigLoaderImpl)
        yield found


def sweep(loader: ConfigLoaderImpl, *words: str) -> DictConfig:
    return loader.load_configuration("config", list(words), run_mode=RunMode.MULTIRUN)


def plain(config: DictConfig) -> object:
    return OmegaConf.to_container(config, resolve=False)


JOBS = [
    ["estimator=cov_prop", "budget=68000000000.0"],
    ["estimator=cov_prop", "budget=1e9", "++tags.a=b"],
    ["budget=2", "estimator=monte_carlo", "estimator.seed=3", "round=phase1"],
    ["debug=tiny", "dataset.n_mlps=3", "+estimator.level=0.5"],
    ["scoring=whest", "~report"],
]


def test_a_kept_config_is_what_hydra_composes(loader: ConfigLoaderImpl) -> None:
    master = sweep(loader, "hydra.sweep.dir=/there", "+hydra.job.env_set.A=b")
    for words in JOBS:
        quick, own = load_job(loader, master, words), _HYDRAS_OWN(loader, master, words)
        assert plain(quick) == plain(own)
        assert OmegaConf.is_struct(quick) == OmegaConf.is_struct(own) is True
        assert OmegaConf.is_readonly(quick.hydra) == OmegaConf.is_readonly(own.hydra)
    assert len(vars(loader)[KEPT]) == len(JOBS) - 1, "two jobs differ only in values"


def test_one_job_changes_no_other(loader: ConfigLoaderImpl) -> None:
    master = sweep(loader)
    first = load_job(loader, master, ["budget=1"])
    first.budget = 5
    assert load_job(loader, master, ["lam=2"]).budget == _HYDRAS_OWN(loader, master, ["lam=2"]).budget


@pytest.mark.parametrize(
    "word", ["estimator.foo=1", "estimator=nothing", "budget=1,2", "+budget=3", "~nothing", "a@b=1"]
)
def test_what_hydra_refuses_is_refused_in_its_words(loader: ConfigLoaderImpl, word: str) -> None:
    master = sweep(loader)
    with pytest.raises(HydraException) as own:
        _HYDRAS_OWN(loader, master, [word])
    with pytest.raises(type(own.value)) as quick:
        load_job(loader, master, [word])
    assert str(quick.value) == str(own.value)


def test_few_configs_are_kept(loader: ConfigLoaderImpl) -> None:
    vars(loader)[KEPT] = {("old", number): b"" for number in range(MOST_KEPT)}
    load_job(loader, sweep(loader), ["budget=1"])
    assert len(vars(loader)[KEPT]) == MOST_KEPT
    assert ("old", 0) not in vars(loader)[KEPT]


def test_another_program_s_sweep_is_hydra_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whest.config.sources._Guard.is_application", False)
    (tmp_path / "config.yaml").write_text("a: 1\n")
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(tmp_path), **BASE):
        loader = GlobalHydra.instance().config_loader()
        assert isinstance(loader, ConfigLoaderImpl)
        assert load_job(loader, sweep(loader), ["a=2"]).a == 2
        assert KEPT not in vars(loader)


@pytest.mark.parametrize("batch", [[["budget=1"], ["budget=2"], ["budget=1", "nothing=3"]], [["lam=1"], ["+budget=3"]]])
def test_a_wrong_job_is_found_before_the_first_one_runs(loader: ConfigLoaderImpl, batch: list[list[str]]) -> None:
    master = sweep(loader)
    with pytest.raises(HydraException) as own:
        _HYDRAS_OWN(loader, master, batch[-1])
    with pytest.raises(type(own.value)) as quick:
        check_jobs(SimpleNamespace(hydra_context=None, config_loader=loader, config=master), batch)
    assert str(quick.value) == str(own.value)


def test_a_copy_shares_nothing_and_keeps_its_flags(loader: ConfigLoaderImpl) -> None:
    for words in JOBS:
        config = load_job(loader, sweep(loader), words)
        OmegaConf.set_readonly(config.hydra, True)
        made, theirs = copied(config), copy.deepcopy(config)
        assert plain(made) == plain(theirs) == plain(config)
        assert OmegaConf.is_readonly(made.hydra)
        assert OmegaConf.is_struct(made)
        assert OmegaConf.get_type(made, "hydra") is OmegaConf.get_type(config, "hydra")
        assert made.hydra._get_parent() is made
        assert config.hydra._get_parent() is config
        made.budget = 5
        assert plain(config) == plain(theirs)


def test_hydras_own_part_is_not_copied_for_a_job(loader: ConfigLoaderImpl) -> None:
    config = load_job(loader, sweep(loader), ["budget=1"])
    before = plain(config)
    made = _copied_for_job(config)
    assert made.hydra is None
    assert plain(config) == before
    assert isinstance(before, dict)
    assert plain(made) == {**before, "hydra": None}


YAML = {
    "text": [
        "",
        "yes",
        "1e5",
        "0x1f",
        "a: b",
        "line\nline\n",
        "long words " * 30,
        "ü ☃ \U0001f600",
        "'\"\\\t",
        "- a",
        "~",
        " x ",
    ],
    "deep": {"a": {"b": {"long": "words " * 40, "list": [[1, [2.5]], {"k": [None, True]}]}}, "empty": {}, "none": []},
    "numbers": {"1": 1, "1.0": 1.0, "true": True, "big": 1e300, "inf": float("inf")},
    "a long key " * 14: {"x": 1},
    "on": "off",
}


def test_configs_are_written_as_omegaconf_writes_them(loader: ConfigLoaderImpl) -> None:
    configs = [OmegaConf.create(YAML), *(load_job(loader, sweep(loader), words) for words in JOBS)]
    for config in configs:
        assert yaml_text(plain(config)) == OmegaConf.to_yaml(config)
    same = [1, 2]
    assert yaml_text({"a": same, "b": same, "c": (1,)}) == OmegaConf.to_yaml(
        OmegaConf.create({"a": [1, 2], "b": [1, 2], "c": [1]})
    )
    assert yaml_text(["a=1", "b"]) == OmegaConf.to_yaml(OmegaConf.create(["a=1", "b"]))
    assert yaml_text({"a": 1}) + yaml_text({"a": True}) + yaml_text({"a": "1"}) == "a: 1\na: true\na: '1'\n"
