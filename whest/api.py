"""The same run from Python: compose a config, run it, get the report. docs/api.md has examples."""

import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from whest.config import build_experiment, build_group, drawn_seed, read_settings
from whest.errors import ConfigError

if TYPE_CHECKING:
    from whest.dataset import Dataset
    from whest.estimator import Estimator
    from whest.report import Report

PACKAGE = Path(__file__).parent


def _beside(name: str) -> str:
    """`${beside:mine.py}`: a file in the folder that --config-dir (or hydra.searchpath) names, wherever we are."""
    sources = HydraConfig.get().runtime.config_sources
    folders = [Path(source.path) for source in sources if source.schema == "file" and source.provider != "main"]
    found = [folder / name for folder in folders if (folder / name).is_file()]
    if not found:
        raise ConfigError(
            f"{name} is in no config folder ({', '.join(map(str, folders)) or 'none was given'}): --config-dir FOLDER"
        )
    return str(found[0])


def _file_stem(*, _parent_: DictConfig) -> str:
    """`${file_stem:}`: what the file under the neighbouring key `path` is called."""
    return "file" if OmegaConf.is_missing(_parent_, "path") else Path(_parent_.path).stem


OmegaConf.register_new_resolver("beside", _beside, replace=True)
OmegaConf.register_new_resolver("file_stem", _file_stem, replace=True)


def config_folder() -> Path:
    """The checkout's conf/, or the one inside the installed package."""
    checkout = PACKAGE.parent / "conf"
    return checkout if (checkout / "config.yaml").exists() else PACKAGE / "conf"


def compose(*words: str, config_dir: str | Path | None = None) -> dict[str, Any]:
    """The config that these command-line words compose, as plain data; `config_dir` adds a folder of your own."""
    own = [f"hydra.searchpath=[file://{Path(config_dir).absolute()}]"] if config_dir is not None else []
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = hydra_compose("config", [*words, *own], return_hydra_config=True)
    HydraConfig.instance().set_config(config)
    with open_dict(config):
        config.pop("hydra")
    return _plain(config)


def recompose(overrides: Sequence[str]) -> dict[str, Any]:
    """Another config from within a job: the same search path, other words. The job's own config is put back."""
    before = HydraConfig.instance().cfg
    loader = GlobalHydra.instance().config_loader()
    config = loader.load_configuration("config", list(overrides), run_mode=RunMode.RUN)
    try:
        HydraConfig.instance().set_config(config)
        with open_dict(config):
            config.pop("hydra")
        return _plain(config)
    finally:
        HydraConfig.instance().cfg = before


def choices(group: str) -> list[str]:
    """What a group of the config in force can be, the user's own configs included."""
    found: list[str] = GlobalHydra.instance().config_loader().get_group_options(group)
    return sorted(found)


def _plain(config: Any) -> dict[str, Any]:
    container = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def run(
    *words: str | Mapping[str, Any], estimator: "Estimator | None" = None, folder: str | Path | None = None
) -> "Report":
    """What `python -m whest WORDS` runs, or a composed config; the files go to `folder`, by default as ever.

    `estimator` is an object with `predict`, made here: it is scored in this process, as one that is trusted.
    """
    from whest.experiment import run as carry_out

    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    told = [word for word in words if isinstance(word, str)]
    configs = [word for word in words if not isinstance(word, str)]
    if len(configs) > 1 or (configs and told):
        raise ConfigError("run takes command-line words, or one composed config: whest.run(whest.compose(…))")
    config = dict(configs[0]) if configs else compose(*told)
    job = read_settings(config).job
    if job != "score":
        raise ConfigError(f"job={job} gives no report: whest.run is for job=score, python -m whest does the others")
    place = Path(folder) if folder is not None else _new_folder(read_settings(config).outputs)
    command = shlex.join(["python", "-m", "whest", *told]) if not configs else ""
    if estimator is None:
        experiment = build_experiment(config, place, told, command)
    else:
        from whest.held import with_estimator

        experiment = with_estimator(build_experiment(config, place, told), estimator, config)
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config)))
    return carry_out(experiment, place)


def _new_folder(outputs: Path) -> Path:
    """Where Hydra would put it."""
    return outputs / "runs" / datetime.now().strftime("%Y-%m-%d/%H-%M-%S-%f")


def score(config: Mapping[str, Any], folder: Path) -> "Report":
    """Run a composed config; the report's files go to the folder."""
    from whest.experiment import run

    return run(build_experiment(config, folder), folder)


def load_dataset(*words: str) -> "Dataset":
    """A dataset of MLPs: by its path (`load_dataset("outputs/mine")`), or by words as on the command line."""
    if len(words) == 1 and "=" not in words[0]:
        words = ("dataset=file", f"dataset.path={words[0]}")
    config = compose(*words)
    dataset: Dataset = build_group(config, "dataset", **drawn_seed(config)).load()
    return dataset
