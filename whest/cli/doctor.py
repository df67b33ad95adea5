"""`job=doctor`: all checks of the installation, in the order in which a run needs them."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from whest.checks.doctor.machine import check_devices, check_rates, check_sandbox
from whest.checks.doctor.packages import check_names, check_options, check_packages, check_plugins, check_python
from whest.checks.doctor.programs import check_kept_programs
from whest.checks.doctor.storage import check_caches, check_disk, check_store, check_writable
from whest.checks.finding import Finding, save_findings, summary, worst
from whest.cli.findings import print_findings
from whest.config.build import build_group
from whest.config.settings import read_settings
from whest.display.console import open_console
from whest.errors import JobFailedError

PEER = Path("outputs/peer")
"""WhestBench's own interpreter, where `make peer` puts it."""
Check = Callable[[], Finding | list[Finding]]


def examine(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    if worst(carry_out_examination(config, open_console())) == "fail":
        raise JobFailedError("a check failed: the line with the arrow (→) says how to fix it")


def carry_out_examination(config: Mapping[str, Any], console: Console) -> list[Finding]:
    """Run all checks and print them. With `output=FILE`, save them as JSON too."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    settings = read_settings(config)
    tracking = build_group(config, "tracking", outputs=settings.outputs)
    findings = look_at(
        [
            ("Python", check_python),
            ("packages", check_packages),
            ("names", check_names),
            ("plug-ins", check_plugins),
            ("devices", partial(check_devices, settings.device)),
            ("matmul", check_rates),
            ("kept programs", check_kept_programs),
            ("outputs", partial(check_writable, settings.outputs, "outputs")),
            ("disk", partial(check_disk, settings.outputs)),
            ("caches", partial(check_caches, settings.outputs)),
            ("MLflow store", partial(check_store, tracking)),
            ("sandbox", check_sandbox),
            ("options", partial(check_options, PEER)),
        ]
    )
    print_findings(findings, console)
    if settings.output is not None:
        save_findings(findings, {}, settings.output)
    console.print(summary(findings, "checks"), soft_wrap=True)
    return findings


def look_at(checks: Iterable[tuple[str, Check]]) -> list[Finding]:
    """Run the checks. A check that raises an exception is a finding too, and the others go on."""
    findings: list[Finding] = []
    for name, check in checks:
        try:
            found = check()
        except Exception as error:
            problem = f"the check itself failed ({type(error).__name__}: {error})"
            found = Finding(name, "fail", problem, "please report this, with these lines")
        findings += found if isinstance(found, list) else [found]
    return findings
