"""The top-level values of a config, with types and ranges."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from whest.config.build import Node, build_target
from whest.config.jobs import JOBS
from whest.errors import ConfigError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=1, le=65536)]
if TYPE_CHECKING:
    JobName = str
else:
    JobName = Literal[tuple(JOBS)]

CACHES = {"truth": "sampled truth", "xla": "compiled programs"}
NODES = (
    "leaderboard",
    "bake",
    "compare",
    "plot",
    "judge",
    "reproduce",
    "runs",
    "seal",
    "watch",
    "explain",
    "tune",
    "contest",
    "host",
    "verify",
    "report",
    "hydra",
)
"""Top-level nodes that are no group: of single jobs, or of the report."""
GROUPS = ("round", "task", "dataset", "truth", "data", "estimator", "isolation", "scoring", "tracking")


@dataclass(frozen=True)
class Round:
    """The settings of a round, except its limits."""

    name: str
    width: Size
    depth: Size
    n_samples: Annotated[int, Field(ge=2)]


@dataclass(frozen=True)
class ReportOptions:
    """The config's `report`."""

    names: Literal["whest", "whestbench"]


@dataclass(frozen=True)
class TaskName:
    """The name of the task."""

    name: Literal["whitebox", "prequential", "exam"]


@dataclass(frozen=True)
class Settings:
    """The top-level values of the command line."""

    job: JobName
    budget: Annotated[float, Field(ge=1, le=1e24)]
    lam: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    wall_time_limit_s: Positive | None
    residual_wall_time_limit_s: Positive | None
    memory_limit_mb: Positive | None
    setup_timeout_s: Positive | None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None
    device: Literal["auto", "cpu", "gpu"]
    meter: Literal["whest", "xla", "flopscope", "flopscope-0.7", "flopscope-0.4"]
    participant: Annotated[str, Field(min_length=1)]
    console: Literal["text", "json"]
    name: Annotated[str, Field(min_length=1, max_length=200)] | None
    notes: Annotated[str, Field(min_length=1, max_length=4000)] | None
    hypothesis: Annotated[str, Field(min_length=1, max_length=4000)] | None
    decision: Annotated[str, Field(min_length=1, max_length=4000)] | None
    tags: dict[str, Any]
    show_mlps: bool
    figures: bool
    page: bool
    profile: bool
    provenance: bool
    resume: bool
    outputs_dir: Path
    inputs: list[str] | dict[str, str] | None
    output: Path | None
    path: Path | None
    run: Annotated[str, Field(min_length=1)] | None
    mlp: str | int | None
    against: Annotated[str, Field(min_length=1)] | None
    default_split: str | None
    inbox: Path | None
    board: Path | None
    rerun: str | int | None
    port: Annotated[int, Field(ge=1, le=65535)]

    @property
    def outputs(self) -> Path:
        return self.outputs_dir.absolute()


def read_settings(config: Node) -> Settings:
    """The top-level values of a config, without its groups."""
    scalars = {key: value for key, value in config.items() if key not in (*GROUPS, *NODES)}
    job = scalars.get("job")
    if isinstance(job, str) and job not in JOBS:
        close = get_close_matches(job, JOBS, n=1)
        meant = f" Did you mean job={close[0]}?" if close else ""
        raise ConfigError(f"job={job} is no job.{meant} The jobs are: {', '.join(JOBS)}")
    settings: Settings = build_target(Settings, scalars, "")
    return settings
