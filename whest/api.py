"""The same run from Python: compose a config, score it, get the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

from whest.config import build_experiment

if TYPE_CHECKING:
    from whest.report import Report

PACKAGE = Path(__file__).parent


def config_folder() -> Path:
    """The checkout's conf/, or the one inside the installed package."""
    checkout = PACKAGE.parent / "conf"
    return checkout if (checkout / "config.yaml").exists() else PACKAGE / "conf"


def compose(*overrides: str) -> dict[str, Any]:
    """The config that these command-line words compose, as plain data."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = hydra_compose("config", list(overrides), return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    with open_dict(config):
        config.pop("hydra")
    container = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def recompose(overrides: Sequence[str]) -> dict[str, Any]:
    """Another config from within a job: the same search path, other words. The job's own config is put back."""
    before = HydraConfig.instance().cfg
    loader = GlobalHydra.instance().config_loader()
    config = loader.load_configuration("config", list(overrides), run_mode=RunMode.RUN)
    try:
        HydraConfig.instance().set_config(config)
        with open_dict(config):
            config.pop("hydra")
        container = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    finally:
        HydraConfig.instance().cfg = before
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def score(config: Mapping[str, Any], folder: Path) -> "Report":
    """Run a composed config; the report's files go to the folder."""
    from whest.experiment import run

    return run(build_experiment(config, folder), folder)
