"""`job=validate`: check the config's estimator, print the findings and save them as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from whest.checks.contract import check_contract
from whest.checks.finding import Finding, save_findings, summary, worst
from whest.cli.findings import print_findings
from whest.config.devices import prepare_jax
from whest.config.settings import read_settings
from whest.dataset.suite import FOLDER as SUITES
from whest.display.console import open_console
from whest.errors import ConfigError, JobFailedError
from whest.isolation.choose import open_runner
from whest.isolation.runner import Runner
from whest.tasks.whitebox.build import build_task

FILE = "validation.json"


def validate(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    if worst(carry_out_validation(config, folder, overrides, open_console())) == "fail":
        raise JobFailedError("the estimator breaks the contract: see the failed checks above")


def carry_out_validation(
    config: Mapping[str, Any], folder: Path, overrides: Sequence[str], console: Console
) -> list[Finding]:
    """Check the estimator under the rules of its round, print the findings and save them."""
    settings = read_settings(config)
    prepare_jax(settings)
    if config["task"]["name"] != "whitebox":
        raise ConfigError(f"job=validate is for task=whitebox, not task={config['task']['name']}")
    task = build_task(config, settings, folder, overrides)
    if task.estimator.is_sealed:
        raise ConfigError(
            f"job=validate traces an estimator for several shapes, and {task.estimator.path} is a sealed program: "
            f"job=inspect path={task.estimator.path} says what it computes"
        )
    hidden = [settings.outputs, SUITES]

    def opened(width: int, depth: int, budget: float) -> Runner:
        context = replace(task.context, width=width, depth=depth, flop_budget=int(budget))
        compiled = settings.outputs / "cache" / "xla"
        return open_runner(task.isolation, task.estimator, context, task.worker_limits, hidden, compiled)

    place = "in a worker" if task.isolation.is_process(task.estimator) else "in this process"
    console.print(
        f"[bold]{escape(task.estimator.name)}[/], {task.estimator.mode}, {place}: MLPs of {task.context.width}x"
        f"{task.context.depth}, budget {settings.budget:.3g} FLOPs",
        soft_wrap=True,
    )
    findings = check_contract(opened, (task.context.width, task.context.depth), task.limits)
    print_findings(findings, console)
    path = settings.output or folder / FILE
    about: dict[str, object] = {"estimator": task.estimator.name, "source_sha256": task.estimator.source_sha256}
    about |= {"mode": task.estimator.mode, "round": config["round"]["name"], "in_worker": place == "in a worker"}
    save_findings(findings, about, path)
    console.print(f"{summary(findings, 'checks')}; saved {path}", soft_wrap=True)
    return findings
