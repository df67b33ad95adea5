"""Make the prequential task from a composed config. Every value is checked before any work starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from whest.config.build import Node, build_group, build_target
from whest.config.settings import Settings
from whest.errors import ConfigError
from whest.estimator.spec import estimator_spec
from whest.isolation.choose import Isolation
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.shadow import LEAST_UPDATES
from whest.limits import Limits, WorkerLimits
from whest.sealed.purpose import Purpose
from whest.sealed.sealed import sealed_programs
from whest.tasks.prequential.task import Prequential, is_reference
from whest.tasks.prequential.text import Text

SEED = 1337
"""The seed if the config has none."""


@dataclass(frozen=True)
class Options:
    """`conf/task/prequential.yaml`."""

    name: Literal["prequential"]
    row_length: Annotated[int, Field(ge=2, le=65536)]
    random_updates: Annotated[float, Field(ge=LEAST_UPDATES, le=1)]


def build_task(config: Node, settings: Settings, folder: Path, overrides: Sequence[str]) -> Prequential:
    options = build_target(Options, config["task"], "task")
    estimator = estimator_spec(config["estimator"])
    if estimator.mode != "traced":
        raise ConfigError(f"estimator.mode={estimator.mode} can't run a byte learner: use estimator.mode=traced")
    text = build_group(config, "data").load()
    if not isinstance(text, Text):
        raise ConfigError("task=prequential reads a text: choose data=pydocs, data=generated or data=files")
    if len(text.train) < options.row_length:
        raise ConfigError(
            f"data={text.name} has {len(text.train)} bytes to read, fewer than one row of task.row_length="
            f"{options.row_length}: give it more text, or a shorter row"
        )
    context = LearnerContext(
        flop_budget=int(settings.budget),
        row_length=options.row_length,
        n_bytes=len(text.train),
        seed=SEED if settings.seed is None else settings.seed,
    )
    if estimator.is_bundled and not is_reference(estimator):
        create_learner(estimator, context)  # finds a wrong knob, or an estimator that is no learner, before any work
    isolation: Isolation = build_target(Isolation, config["isolation"], "isolation")
    isolation.refuse_unfit(estimator)
    purpose = Purpose("prequential", context.flop_budget, row_length=context.row_length, n_bytes=context.n_bytes)
    return Prequential(
        text=text,
        estimator=estimator,
        limits=Limits(settings.budget, settings.lam, settings.wall_time_limit_s, settings.residual_wall_time_limit_s),
        context=context,
        isolation=isolation,
        worker_limits=WorkerLimits(settings.wall_time_limit_s, settings.setup_timeout_s, settings.memory_limit_mb),
        bad_batch_charge=float(config["scoring"]["bad_batch_charge"]),
        random_updates=options.random_updates,
        outputs=settings.outputs,
        sealed=sealed_programs(estimator, purpose),
    )
