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
    from whest.scoring.whitebox import WhiteboxScore
    from whest.sweep_table import SweepRow

PLAIN_WIDTH = 120
GAUGE_WIDTH = 20


def open_console() -> Console:
    """Standard output: in colour on a terminal, plain and of a fixed width in a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH, no_color=True)


def print_report(report: "Report", folder: Path, console: Console, show_mlps: bool) -> None:
    score, config = report.score, report.config
    console.print()
    console.print(
        f"[bold]{escape(config['estimator']['name'])}[/] on {escape(config['dataset']['name'])}: "
        f"{len(report.cases)} MLPs of {config['width']}x{config['depth']}, "
        f"budget {report.limits.budget:.3g} FLOPs, λ {report.limits.lam:.3g}"
    )
    if score.score is None:
        console.print("[bold red]no MLP was finished, so there is no score[/]")
    else:
        _print_figures(report, console)
    _print_failures(report, console)
    if show_mlps:
        console.print(_mlp_table(report))
    _print_places(report, folder, console)


def _print_figures(report: "Report", console: Console) -> None:
    score = report.score
    rows = Table.grid(padding=(0, 2))
    rows.add_row(
        "[bold]score[/]",
        f"[bold cyan]{plus_minus(score.score, score.score_se)}[/]",
        f"{score.direction} is better",
    )
    rows.add_row(
        "final-layer MSE",
        plus_minus(score.final_layer_mse, score.final_layer_mse_se),
        f"{figure(score.final_layer_mse_corrected)} without the truth's own noise ({figure(score.truth_floor_mse)})",
    )
    rows.add_row("all-layers MSE", figure(score.all_layers_mse), "by layer " + _layers(score.per_layer_mse))
    for row in _rule_rows(score):
        rows.add_row(*row)
    wall = sum(case.prediction.timing.wall_time_s for case in report.cases)
    compiled = sum(case.prediction.compile_time_s for case in report.cases)
    rows.add_row("time", f"{wall / max(len(report.cases), 1):.3g} s an MLP", f"compiled in {compiled:.2g} s")
    console.print(rows)


def _rule_rows(score: "WhiteboxScore") -> list[tuple[str, str, str]]:
    """The figures behind the score that are the rule's own."""
    from whest.scoring.fherma import FhermaScore
    from whest.scoring.whest import WhestScore

    share = _gauge(score.mean_compute_utilization or 0)
    match score:
        case WhestScore(ratio_to_sampling=ratio, mean_score_multiplier=multiplier):
            rows = [("compute", share, f"multiplier {figure(multiplier)}")]
            if ratio is not None:
                better = "better than" if ratio < 1 else "worse than"
                rows.append(("against sampling", f"{ratio:.3g}x", f"{better} plain sampling at the same compute"))
            return rows
        case FhermaScore():
            return [
                ("compute", share, "counts for nothing until it is over"),
                ("accuracy", f"{score.accuracy:.4g} %", "of final-layer neurons within the tolerance"),
                ("failures", f"{score.failure_rate:.2%} of MLPs", f"times {score.failure_factor:.4g}"),
                ("mean wall time", f"{score.mean_wall_time_s:.3g} s", f"costs {score.time_deduction:.4g} points"),
            ]
        case _:
            return [("compute", share, "")]


def _print_failures(report: "Report", console: Console) -> None:
    if report.meta.status == "interrupted":
        console.print(f"[bold yellow]interrupted[/] after {len(report.cases)} of {report.config['n_mlps']} MLPs")
    if not report.score.n_failed_mlps:
        return
    counts = {name.replace("_", " "): n for name, n in vars(report.score.failure_breakdown).items() if n}
    listed = ", ".join(f"{name} {n}" for name, n in counts.items())
    console.print(f"[bold red]{report.score.n_failed_mlps} of {len(report.cases)} MLPs failed[/] ({listed})")
    failure = next((case.prediction.failure for case in report.cases if case.prediction.failure), None)
    if failure is not None:
        console.print(f"  {failure.code}: {escape(failure.message)}")
        for hint in failure.shape.cause_hints if failure.shape else ():
            console.print(f"  hint: {escape(hint)}")
    elif report.score.failure_breakdown.budget_exhausted:
        flops = max(case.prediction.cost.flops for case in report.cases)
        console.print(
            f"  the program costs {flops:.4g} FLOPs, the budget is {report.limits.budget:.4g}: it was not run"
        )


def _print_places(report: "Report", folder: Path, console: Console) -> None:
    made = [name for name in ("report.json", "report.html") if (folder / name).exists()]
    console.print(f"saved    {_short(folder)}: {', '.join([*made, 'figures/'])}", soft_wrap=True)
    console.print(f"protocol {report.meta.protocol_hash}: scores are comparable where this is the same")
    if len(report.cases) > 1 and not report.has_errors and report.config["estimator"]["path"] is None:
        other = "mean_prop" if report.config["estimator"]["name"] == "cov_prop" else "cov_prop"
        console.print(
            f"next     python -m whest -m estimator={other},{report.config['estimator']['name']} "
            f"budget={report.limits.budget / 10:.3g},{report.limits.budget:.3g}",
            soft_wrap=True,
        )
        console.print("         make ui   (compare the runs in MLflow)")


def _mlp_table(report: "Report") -> Table:
    table = Table(box=None, header_style="bold")
    field, _ = report.score.by_case
    for column in ("MLP", field.replace("_", " "), "final-layer MSE", "C/B", "wall s", "failure"):
        table.add_column(column, justify="left" if column in ("MLP", "failure") else "right")
    for case, scored in zip(report.cases, report.score.cases, strict=True):
        reasons = [name.replace("_", " ") for name, is_set in vars(scored.flags).items() if is_set]
        if case.prediction.failure:
            reasons.append(case.prediction.failure.code)
        table.add_row(
            case.name,
            figure(getattr(scored, field)),
            figure(scored.final_layer_mse),
            f"{scored.effective_compute / report.limits.budget:.3g}",
            f"{case.prediction.timing.wall_time_s:.3g}",
            ", ".join(reasons),
        )
    return table


def print_sweep(rows: list["SweepRow"], best: list[str], folder: Path, console: Console) -> None:
    table = Table(box=None, header_style="bold", title=f"sweep of {len(rows)} jobs", title_justify="left")
    for column in ("job", "estimator", "budget", "score", "failed MLPs", "best", "status"):
        table.add_column(column, justify="left" if column in ("estimator", "best", "status") else "right")
    for row in sorted(rows, key=lambda row: (row.flop_budget or 0, row.score if row.score is not None else 9e99)):
        table.add_row(
            str(row.job),
            escape(row.label or row.overrides),
            figure(row.flop_budget),
            plus_minus(row.score, row.score_se),
            "" if row.n_failed_mlps is None else str(row.n_failed_mlps),
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
    """The value with its error in its own power of ten, 3.69e-06 ± 0.21e-06; plainly from 10 up, 942.81 ± 0.35."""
    if value is None:
        return "–"
    if 10 <= abs(value) < 1e6:
        decimals = 2 if not error else min(max(1 - math.floor(math.log10(error)), 0), 4)
        return f"{value:.{decimals}f}" + (f" ± {error:.{decimals}f}" if error is not None else "")
    if error is None:
        return figure(value)
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}e{exponent} ± {error / 10 ** int(exponent):.2f}e{exponent}"


def _layers(mses: tuple[float, ...]) -> str:
    shown = mses if len(mses) <= 8 else (*mses[:3], *mses[-3:])
    words = [f"{mse:.1e}" for mse in shown]
    return " ".join(words if len(mses) <= 8 else [*words[:3], "…", *words[3:]])


def _gauge(utilization: float) -> str:
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
