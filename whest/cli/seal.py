"""`job=seal`: trace the config's estimator or learner in a worker, and write its programs into one file of data."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from omegaconf import OmegaConf
from pydantic import Field

from whest.config.build import build_target
from whest.config.devices import prepare_jax
from whest.config.settings import Settings, read_settings
from whest.config.sources import config_folder
from whest.dataset.suite import FOLDER as SUITES
from whest.display.answer import tell
from whest.display.console import say
from whest.errors import ConfigError
from whest.files import SEALED, write_atomically
from whest.isolation.learner import WorkerContext
from whest.isolation.process import World
from whest.sealed import sealing
from whest.sealed.purpose import Purpose
from whest.sealed.sealing import Author, Order
from whest.sealed.text import size_text
from whest.tasks.prequential.task import is_reference
from whest.tasks.task import task_builder

SHAPE = re.compile(r"(\d{1,5})x(\d{1,5})@(\d+(?:\.\d+)?(?:e\d{1,2})?)")


@dataclass(frozen=True)
class SealOptions:
    """The `seal` part of the config."""

    shapes: Annotated[list[str], Field(min_length=1, max_length=32)] | None
    author: Annotated[str, Field(max_length=200)] | None
    words: Annotated[str, Field(max_length=4000)] | None


def seal(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    options: SealOptions = build_target(SealOptions, config["seal"], "seal")
    place = settings.output
    if place is None or place.suffix != SEALED:
        raise ConfigError(f"output={place} is missing or no {SEALED} file: name the file to write, output=mine{SEALED}")
    if place.exists():
        raise ConfigError(f"output={place} exists and is not overwritten: name another file, or remove it first")
    prepare_jax(settings)
    task: Any = task_builder(config["task"]["name"])(config, settings, folder, overrides)
    author = Author(options.author or "", options.words or "")
    orders = orders_of(task, settings, options.shapes)
    content, listings = sealing.seal(task.estimator, author, orders)
    write_atomically(place, content)
    for order, listed in zip(orders, listings, strict=True):
        costs = ", ".join(f"{program.name} {program.cost.flops:,}" for program in listed)
        over = max(program.cost.flops for program in listed) > order.purpose.budget
        say(f"sealed   {order.purpose}: {costs} FLOPs" + (", over its budget" if over else ""))
    say(f"saved    {place}: {task.estimator.name}, {size_text(len(content))}")
    tell(path=str(place), n_bytes=len(content), shapes=[order.purpose.to_json() for order in orders])


def orders_of(task: Any, settings: Settings, shapes: list[str] | None) -> list[Order]:
    """What to trace: the config's own shape and budget, or those of `seal.shapes`."""
    if task.name != "whitebox" and shapes is not None:
        raise ConfigError(f"seal.shapes={shapes} is for task=whitebox: a learner is sealed for its own config")
    if task.name == "exam":
        return [_exam_order(task)]
    cache = settings.outputs / "cache" / "xla"
    required = task.isolation.required_of(task.estimator)
    hidden = tuple(str(path) for path in (settings.outputs, SUITES))
    if task.name == "prequential":
        context = task.context
        if is_reference(task.estimator):
            raise ConfigError(f"estimator={task.estimator.name} is a reference on the host, and no program to seal")
        world = World(task.estimator, WorkerContext(**asdict(context)), task.worker_limits, hidden, cache, required)
        rows = {"row_length": context.row_length, "n_bytes": context.n_bytes}
        return [Order(Purpose("prequential", context.flop_budget, **rows), "learner", world, context.seed)]
    orders = []
    for purpose in _purposes(task, shapes):
        context = replace(task.context, width=purpose.width, depth=purpose.depth, flop_budget=purpose.budget)
        world = World(task.estimator, context, task.worker_limits, hidden, cache, required)
        orders.append(Order(purpose, "trace", world, context.seed))
    return orders


def _exam_order(task: Any) -> Order:
    plan = task.plan
    purpose = Purpose("exam", plan.context.flop_budget, row_length=plan.context.row_length)
    return Order(purpose, "trace", plan.world, plan.context.seed, asdict(plan.recipe))


def _purposes(task: Any, shapes: list[str] | None) -> list[Purpose]:
    if shapes is None:
        context = task.context
        return [Purpose("whitebox", context.flop_budget, width=context.width, depth=context.depth)]
    return list(dict.fromkeys(map(read_shape, shapes)))


def read_shape(text: str) -> Purpose:
    """`64x4@1e8`, or the name of a round."""
    found = SHAPE.fullmatch(text)
    if found:
        return Purpose("whitebox", int(float(found[3])), width=int(found[1]), depth=int(found[2]))
    rounds = sorted(path.stem for path in (config_folder() / "round").glob("*.yaml"))
    if text not in rounds:
        raise ConfigError(
            f"seal.shapes has {text!r}, which is neither WIDTHxDEPTH@BUDGET, as 64x4@1e8, nor one of the rounds "
            f"{', '.join(rounds)}"
        )
    node = OmegaConf.load(config_folder() / "round" / f"{text}.yaml")
    return Purpose("whitebox", int(node.budget), width=int(node.round.width), depth=int(node.round.depth))
