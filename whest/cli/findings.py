"""Findings on the console, each with its remedy."""

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whest.checks.finding import Finding, Status
from whest.display.answer import tell

COLOURS: dict[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        colour = COLOURS[finding.status]
        table.add_row(f"[{colour}]{finding.status}[/]", escape(finding.name), escape(finding.detail))
        if finding.remedy:
            table.add_row("", "", f"[bold]→[/] {escape(finding.remedy)}")
    console.print(table)
    tell(findings=[asdict(finding) for finding in findings])
