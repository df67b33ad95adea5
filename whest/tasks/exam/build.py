"""Make the exam task from a composed config. Every value is checked before any work starts."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whest.config.build import Node, build_group, build_target
from whest.config.settings import Settings
from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec, estimator_spec
from whest.isolation.choose import Isolation
from whest.isolation.furniture import furniture
from whest.isolation.messages import Traced
from whest.learner.contract import LearnerContext, create_learner, step_cost
from whest.learner.shadow import LEAST_UPDATES
from whest.limits import Limits, WorkerLimits
from whest.sealed.container import Entry
from whest.sealed.purpose import Purpose
from whest.sealed.sealed import open_sealed
from whest.tasks.exam.allowance import Seconds, WallClock
from whest.tasks.exam.material import ExamData, Material
from whest.tasks.exam.plan import Plan
from whest.tasks.exam.process.room import refuse_exam_in_room
from whest.tasks.exam.recipe import Recipe
from whest.tasks.exam.task import Exam

ENDLESS = 2**53
"""The length of the stream, in bytes: rows are drawn again and again, and only the budget ends it."""


@dataclass(frozen=True)
class ExamOptions:
    """`task=exam` and its keys."""

    name: Literal["exam"]
    budget_by: Literal["flops", "wall"]
    budget_s: Seconds
    call_limit_s: Seconds
    reserve_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    bundle_limit_bytes: Annotated[int, Field(ge=1)]
    random_updates: Annotated[float, Field(ge=LEAST_UPDATES, le=1)]
    reveal: bool | None
    recipe: dict[str, Any]


def build_task(config: Node, settings: Settings, folder: Path, overrides: Sequence[str]) -> Exam:
    options: ExamOptions = build_target(ExamOptions, config["task"], "task")
    spec = estimator_spec(config["estimator"])
    sealed = _sealed(spec, int(settings.budget), options.recipe, overrides)
    node = options.recipe if sealed is None else dict(sealed[0].recipe or {})
    recipe: Recipe = build_target(Recipe, node, "task.recipe")
    _refuse_bad_recipe(options, recipe)
    material = _load_material(config)
    refuse_exam_in_room(material.exam_path, furniture(spec))
    seed = secrets.randbits(31) if settings.seed is None else settings.seed
    context = LearnerContext(int(settings.budget), recipe.row_length, ENDLESS, seed)
    _refuse_bad_learner(spec, context, in_flops=options.budget_by == "flops")
    isolation: Isolation = build_target(Isolation, config["isolation"], "isolation")
    wall = WallClock(options.budget_s, options.call_limit_s, options.reserve_s)
    plan = Plan(
        spec=spec,
        context=context,
        worker_limits=WorkerLimits(settings.wall_time_limit_s, settings.setup_timeout_s, settings.memory_limit_mb),
        material=material,
        recipe=recipe,
        budget=settings.budget,
        wall_clock=wall if options.budget_by == "wall" else None,
        call_limit_s=options.call_limit_s,
        bundle_limit_bytes=options.bundle_limit_bytes,
        random_updates=options.random_updates,
        seed=seed,
        cache=settings.outputs / "cache" / "xla",
        require=isolation.require,
        sealed=None if sealed is None else sealed[1],
    )
    limits = Limits(settings.budget, 0.0, settings.wall_time_limit_s, None)
    reveal = material.is_demo if options.reveal is None else options.reveal
    return Exam(plan, limits, folder, reveal)


def _sealed(
    spec: EstimatorSpec, budget: int, recipe: dict[str, Any], overrides: Sequence[str]
) -> tuple[Entry, Traced] | None:
    """A sealed learner's entry for exams of this budget, which has its own recipe."""
    if not spec.is_sealed or spec.path is None:
        return None
    typed = [word for word in overrides if word.lstrip("+").startswith("task.recipe")]
    if typed:
        raise ConfigError(f"{typed[0]} has no effect: {spec.path} is sealed with its recipe, leave the word out")
    file = open_sealed(spec.path)
    rows = [entry.purpose.row_length for entry in file.header.entries if entry.purpose.task == "exam"]
    wanted = Purpose("exam", budget, row_length=rows[0] if rows else recipe.get("row_length"))
    entry = file.entry(wanted, f"estimator.path={spec.path}")
    if entry.recipe is None or entry.recipe.get("row_length") != entry.purpose.row_length:
        raise ConfigError(f"estimator.path={spec.path} has no recipe that fits its programs: seal it again")
    return entry, file.programs(entry)


def _load_material(config: Node) -> Material:
    data = build_group(config, "data")
    if not isinstance(data, ExamData):
        raise ConfigError("task=exam needs training text, a validation set and an exam: choose data=exam")
    return data.load()


def _refuse_bad_recipe(options: ExamOptions, recipe: Recipe) -> None:
    if isinstance(recipe.promote, int) and recipe.promote > recipe.calls:
        raise ConfigError(
            f"task.recipe.promote={recipe.promote} is larger than task.recipe.calls={recipe.calls}: "
            "give a number from 1 to calls, last or none"
        )
    if options.reserve_s >= options.budget_s:
        raise ConfigError(
            f"task.reserve_s={options.reserve_s:g} must be less than task.budget_s={options.budget_s:g}: lower it"
        )


def _refuse_bad_learner(spec: EstimatorSpec, context: LearnerContext, in_flops: bool) -> None:
    """Find a wrong knob, or an estimator of another task, before any work. A stranger's file runs only in a room."""
    if not spec.is_bundled:
        return
    flops = step_cost(create_learner(spec, context), context).flops
    if in_flops and flops > context.flop_budget:
        raise ConfigError(
            f"budget={context.flop_budget:.4g} is too small: one update costs {flops:.4g} FLOPs, raise the budget"
        )
