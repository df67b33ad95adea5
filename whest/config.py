"""From a composed config to an experiment: every value checked before any work starts."""

import importlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from whest.build import build_target
from whest.errors import ConfigError

if TYPE_CHECKING:
    from whest.bake import Bake
    from whest.experiment import Experiment

Node = Mapping[str, Any]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Job = Literal[
    "score",
    "bake",
    "merge",
    "combine",
    "info",
    "page",
    "ui",
    "list",
    "clean",
    "compare",
    "leaderboard",
    "judge",
    "import",
    "init",
    "validate",
    "doctor",
]
Size = Annotated[int, Field(ge=1, le=65536)]


@dataclass(frozen=True)
class Round:
    """What a round fixes beside its limits."""

    name: str
    width: Size
    depth: Size
    n_samples: Annotated[int, Field(ge=2)]


@dataclass(frozen=True)
class TaskName:
    """Which task."""

    name: Literal["whitebox", "prequential", "exam"]


@dataclass(frozen=True)
class Settings:
    """The scalars of the command line."""

    job: Job
    budget: Annotated[float, Field(ge=1, le=1e24)]
    lam: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    wall_time_limit_s: Positive | None
    residual_wall_time_limit_s: Positive | None
    memory_limit_mb: Positive | None
    setup_timeout_s: Positive | None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None
    device: Literal["auto", "cpu", "gpu"]
    participant: Annotated[str, Field(min_length=1)]
    show_mlps: bool
    resume: bool
    outputs_dir: Path
    inputs: list[str] | dict[str, str] | None
    output: Path | None
    path: Path | None
    default_split: str | None
    port: Annotated[int, Field(ge=1, le=65535)]

    @property
    def outputs(self) -> Path:
        return self.outputs_dir.absolute()


NODES = ("leaderboard", "bake", "compare", "judge", "hydra")
"""Keys of the top level that belong to single jobs."""
GROUPS = ("round", "task", "dataset", "truth", "data", "estimator", "isolation", "scoring", "tracking")


def read_settings(config: Node) -> Settings:
    """The top level of the config, without its groups."""
    scalars = {key: value for key, value in config.items() if key not in (*GROUPS, *NODES)}
    settings: Settings = build_target(Settings, scalars, "")
    return settings


def build_experiment(config: Node, folder: Path, overrides: Sequence[str] = (), command: str = "") -> "Experiment":
    """The typed experiment behind a composed, resolved config. `overrides` are the choices made on the command line."""
    settings = read_settings(config)
    prepare_jax(settings)

    from whest.experiment import Experiment
    from whest.tasks.task import fits, legal_pairs, task_module

    _refuse_missing_groups(config)
    name = build_target(TaskName, {"name": config["task"].get("name")}, "task").name
    rule = build_group(config, "scoring")
    if not fits(name, rule):
        raise ConfigError(f"scoring={rule.name} can't score task={name}: there is {legal_pairs()}")
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    task = task_module(name).build_task(config, settings, folder, overrides)
    notes = {
        "round": config["round"]["name"],
        "seed": settings.seed,
        "device": settings.device,
        "memory_limit_mb": settings.memory_limit_mb,
        "setup_timeout_s": settings.setup_timeout_s,
        "participant": settings.participant,
    }
    return Experiment(task, rule, tracking, notes, command)


def build_bake(config: Node, output: Path, overrides: Sequence[str], command: str) -> "Bake":
    """The typed bake behind a composed, resolved config."""
    settings = read_settings(config)
    prepare_jax(settings)

    from whest.bake import Bake, BakeOptions, counted_from_zero
    from whest.cache import TruthCache
    from whest.formats.save import provenance_here

    _refuse_missing_groups(config)
    refuse_two_aims(overrides)
    if drawn_seed(config):
        raise ConfigError("seed is missing: a bake can only go on, or be sliced, from a seed it is given, seed=7")
    options = build_target(BakeOptions, config["bake"], "bake")
    sampler = build_group(config, "truth")
    dataset = counted_from_zero(build_group(config, "dataset").load())
    is_drawn = not dataset.has_truth or sampler.resample
    refuse_idle_truth(not is_drawn, overrides)
    drawn_by = f"{sampler.name} {sampler.version}" if is_drawn else dataset.sampler
    aim = sampler.standard_error if is_drawn else dataset.standard_error
    return Bake(
        dataset=dataset,
        part=options.part(dataset.n_mlps),
        sampler=sampler,
        cache=TruthCache(settings.outputs / "cache" / "truth"),
        output=output,
        provenance=provenance_here(options.split, options.config, drawn_by, aim, command),
    )


def build_group(config: Node, group: str, **more: Any) -> Any:
    """One group's `_target_` with its keys as arguments."""
    values = {key: value for key, value in config[group].items() if key != "_target_"} | more
    target = config[group].get("_target_")
    module, _, name = str(target).rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(f"{group}._target_={target} can't be imported: give the path of a class") from None
    return build_target(found, values, group)


def drawn_seed(config: Node) -> dict[str, int]:
    """A fresh dataset without a seed gets one now, so that the run can be repeated."""
    dataset = config["dataset"]
    return {"seed": secrets.randbits(31)} if "seed" in dataset and dataset["seed"] is None else {}


def _refuse_missing_groups(config: Node) -> None:
    missing = [group for group in GROUPS if group not in config]
    if missing:
        raise ConfigError(f"{missing[0]} is missing from the config: choose one, {missing[0]}=…")


def refuse_two_aims(overrides: Sequence[str]) -> None:
    """A number of samples and an error bar can't both say when to stop."""
    aims = [o for o in overrides if o.lstrip("+~").startswith(("truth.n_samples=", "truth.standard_error="))]
    if len(aims) > 1 and not any(aim.endswith("=null") for aim in aims):
        raise ConfigError(f"{' and '.join(aims)} contradict each other: give one of them")


def refuse_idle_truth(brings_truth: bool, overrides: Sequence[str]) -> None:
    """A truth setting that would do nothing is a mistake worth a word."""
    idle = [override for override in overrides if override.lstrip("+~").startswith(("truth=", "truth."))]
    if brings_truth and idle:
        raise ConfigError(
            f"{idle[0]} has no effect: the dataset brings its own truth. Add truth.resample=true to draw it anew, "
            "or choose dataset=fresh"
        )


def prepare_jax(settings: Settings) -> None:
    """Device, precision and compilation cache, before the first array exists."""
    import jax

    logging.getLogger("jax").setLevel(logging.WARNING)
    if settings.device != "auto":
        jax.config.update("jax_platforms", {"cpu": "cpu", "gpu": "cuda,rocm"}[settings.device])
    jax.config.update("jax_default_matmul_precision", "highest")
    jax.config.update("jax_compilation_cache_dir", str(settings.outputs / "cache" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    try:
        jax.devices()
    except RuntimeError as error:
        raise ConfigError(f"device={settings.device}: JAX finds no such device ({error}). Use device=cpu") from None
