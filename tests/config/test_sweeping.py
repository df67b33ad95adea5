"""The config of a sweep's job, from a kept one: exactly what Hydra composes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from whest.config.compose import config_folder, guard_folders
from whest.config.sweeping import _HYDRAS_OWN, KEPT, MOST_KEPT, load_job
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
