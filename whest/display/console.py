"""The report of a finished job on the console: rich text on a terminal, plain text elsewhere."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from whest.config.commands import ui_command
from whest.display.answer import is_json, tell
from whest.display.view import score_row
from whest.document import n_failed, report_metrics
from whest.notation import short_path
from whest.report import AnyReport

PLAIN_WIDTH = 120
NO_SCORE = "[bold red]there is no score[/]"


def open_console() -> Console:
    """Standard output: with colours on a terminal, plain and with a fixed width in a pipe.

    With console=json it is standard error: standard output is for the JSON alone.
    """
    console = Console(highlight=False, stderr=is_json())
    if console.is_terminal:
        return console
    return Console(highlight=False, width=PLAIN_WIDTH, no_color=True, stderr=is_json())


def say(sentence: str) -> None:
    """Print one plain line."""
    open_console().print(sentence, markup=False, highlight=False, soft_wrap=True)


def print_report(report: AnyReport, console: Console, show_cases: bool) -> None:
    """The score and the figures behind it."""
    view, unit = report.view, report.score.by_case.unit
    if report.never_ran:  # its one error is the command's last line
        return
    console.print()
    console.print(view.title(report))
    if report.score.score is None:
        console.print(f"[bold red]no {unit} was finished, so there is no score[/]" if not report.cases else NO_SCORE)
    else:
        _print_figures(report, console)
    for complaint in view.complaints(report):
        console.print(complaint, soft_wrap=True)
    if show_cases:
        print_cases(report, console)


def _print_figures(report: AnyReport, console: Console) -> None:
    rows = Table.grid(padding=(0, 2))
    name, value, remark = score_row(report)
    rows.add_row(f"[bold]{name}[/]", f"[bold {'red' if report.all_failed else 'cyan'}]{value}[/]", remark)
    for row in report.view.rows(report):
        rows.add_row(*row)
    console.print(rows)


def print_cases(report: AnyReport, console: Console) -> None:
    """One row per case."""
    columns, rows = report.view.case_table(report)
    table = Table(box=None, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if 0 < place < len(columns) - 1 else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def print_places(report: AnyReport, folder: Path, console: Console) -> None:
    """Where the run was saved, and its protocol. Printed when everything is saved."""
    files = ("report.json", "report.html", *report.view.files)
    made = [name for name in files if (folder / name).exists()]
    figures = ["figures/"] if (folder / "figures").exists() else []
    console.print(f"saved    {short_path(folder)}: {', '.join([*made, *figures])}", soft_wrap=True)
    console.print(f"protocol {report.meta.protocol_hash}: scores are comparable if this is the same")


def next_steps(report: AnyReport, is_tracked: bool) -> list[str]:
    """Commands for the same data and rules; none if the run came from no command, or never began."""
    if not report.meta.command or report.never_ran:
        return []
    shown = ui_command(report.meta.command) if is_tracked else None
    return [step for step in (report.view.next_step(report, is_tracked), shown) if step is not None]


def tell_report(report: AnyReport, folder: Path, steps: list[str]) -> None:
    """The result for console=json."""
    score = report.score
    is_none = report.all_failed and report.has_errors
    document = report.to_json()
    names = ("report.json", "report.html", "config.yaml", *report.view.files)
    tell(
        estimator=report.config["estimator"]["name"],
        status=report.meta.status,
        score=None if is_none else score.score,
        score_se=None if is_none else score.score_se,
        direction=score.direction,
        n_cases=len(report.cases),
        n_failed=n_failed(document["results"]),
        metrics=report_metrics(document),
        problem=report.problem,
        protocol_hash=report.meta.protocol_hash,
        command=report.meta.command,
        folder=str(folder),
        files=[name for name in names if (folder / name).exists()],
        next=steps,
    )


def print_next(steps: list[str], console: Console) -> None:
    for place, step in enumerate(steps):
        console.print(f"{'' if place else 'next':<9}{step}", soft_wrap=True, markup=False)
