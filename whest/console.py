"""What a person reads when a job is done: rich on a terminal, plain text elsewhere."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from whest.bake import Baked, BakedRow
    from whest.formats.metadata import Part
    from whest.report import Report
    from whest.sweep_table import SweepRow

PLAIN_WIDTH = 120
GAUGE_WIDTH = 20
NO_SCORE = "[bold red]there is no score[/]"


def open_console() -> Console:
    """Standard output: in colour on a terminal, plain and of a fixed width in a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH, no_color=True)


def print_report(report: "Report", folder: Path, console: Console, show_cases: bool) -> None:
    view, unit = report.view, report.score.by_case.unit
    console.print()
    console.print(view.title(report))
    if report.score.score is None:
        console.print(f"[bold red]no {unit} was finished, so there is no score[/]" if not report.cases else NO_SCORE)
    else:
        _print_figures(report, console)
    for complaint in view.complaints(report):
        console.print(complaint)
    if show_cases:
        _print_cases(report, console)
    _print_places(report, folder, console)


def _print_figures(report: "Report", console: Console) -> None:
    score = report.score
    rows = Table.grid(padding=(0, 2))
    rows.add_row(
        "[bold]score[/]",
        f"[bold cyan]{plus_minus(score.score, score.score_se)}[/]",
        f"{score.direction} is better",
    )
    for row in report.view.rows(report):
        rows.add_row(*row)
    console.print(rows)


def _print_cases(report: "Report", console: Console) -> None:
    columns, rows = report.view.case_table(report)
    table = Table(box=None, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if 0 < place < len(columns) - 1 else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def _print_places(report: "Report", folder: Path, console: Console) -> None:
    files = ("report.json", "report.html", *report.view.files)
    made = [name for name in files if (folder / name).exists()]
    figures = ["figures/"] if (folder / "figures").exists() else []
    console.print(f"saved    {_short(folder)}: {', '.join([*made, *figures])}", soft_wrap=True)
    console.print(f"protocol {report.meta.protocol_hash}: scores are comparable where this is the same")
    step = report.view.next_step(report)
    if step is not None:
        console.print(f"next     {step}", soft_wrap=True)
        console.print("         make ui   (compare the runs in MLflow)")


def print_sweep(rows: list["SweepRow"], best: list[str], folder: Path, console: Console) -> None:
    table = Table(box=None, header_style="bold", title=f"sweep of {len(rows)} jobs", title_justify="left")
    for column in ("job", "estimator", "budget", "score", "failed", "best", "status"):
        table.add_column(column, justify="left" if column in ("estimator", "best", "status") else "right")
    for row in sorted(rows, key=lambda row: (row.flop_budget or 0, row.score if row.score is not None else 9e99)):
        table.add_row(
            str(row.job),
            escape(row.label or row.overrides),
            figure(row.flop_budget),
            plus_minus(row.score, row.score_se),
            "" if row.n_failed is None else str(row.n_failed),
            row.best or "",
            " ".join(filter(None, (row.status, row.problem and f"({escape(row.problem)})"))),
        )
    console.print(table)
    for line in best:
        console.print(escape(line), soft_wrap=True)
    console.print(f"saved    {_short(folder / 'sweep.csv')}, sweep.html and figures", soft_wrap=True)


def figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def plus_minus(value: float | None, error: float | None) -> str:
    """The value with its error in its own power of ten, 3.69e-06 ± 0.21e-06; plainly from 1 up, 942.81 ± 0.35."""
    if value is None:
        return "–"
    if (1 if error else 10) <= abs(value) < 1e6:
        decimals = 2 if not error else min(max(1 - math.floor(math.log10(error)), 0), 4)
        return f"{value:.{decimals}f}" + (f" ± {error:.{decimals}f}" if error is not None else "")
    if error is None:
        return figure(value)
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}e{exponent} ± {error / 10 ** int(exponent):.2f}e{exponent}"


def gauge(utilization: float) -> str:
    """A share of the budget as a bar."""
    filled = round(min(utilization, 1) * GAUGE_WIDTH)
    return f"{'█' * filled}{'░' * (GAUGE_WIDTH - filled)} {utilization:.2%} of the budget"


def _short(path: Path) -> Path:
    """The path as one would type it from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def print_baked_row(baked: "BakedRow", part: "Part", console: Console) -> None:
    """A line an MLP, so that a log shows how a long bake gets on."""
    truth = baked.truth
    how = "was there" if baked.seconds is None else f"{baked.seconds:.1f} s"
    console.print(
        f"{baked.row.index + 1 - part.start:>5} of {part.end - part.start}  {escape(baked.row.name):24} "
        f"standard error {figure(truth.floor_mse**0.5)}  {truth.n_samples:.3g} samples  {how}"
    )


def print_baked(baked: "Baked", console: Console) -> None:
    part, place = baked.part, escape(str(baked.output))
    console.print(
        f"[bold]{place}[/]: MLPs [{part.start},{part.end}) of {part.total}, {baked.n_samples:.3g} samples in all; "
        f"truth's noise adds {figure(baked.floor_mse)} to every MSE",
        soft_wrap=True,
    )
    console.print(f"sha256 {baked.sha256}", soft_wrap=True)
    use = f"dataset=file dataset.path={place}" if part.is_whole else "job=merge inputs=[…] output=…"
    console.print(f"next   python -m whest {use}", soft_wrap=True)
