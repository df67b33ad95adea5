"""How an exam run is shown: figures on the console, pictures, rows and files for MLflow."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.markup import escape

from whest.config.commands import board_command
from whest.display.view import View
from whest.document import Json
from whest.files import write_atomically
from whest.notation import figure, gauge
from whest.page.drawing import Draw
from whest.page.run import PageParts
from whest.report import Row
from whest.scoring.exam import ExamScore
from whest.scoring.fherma import FhermaExamScore
from whest.tasks.exam.figures import draw_families, draw_losses
from whest.tasks.exam.page import page_parts
from whest.tasks.exam.report import ExamReport, right_by_family
from whest.tasks.exam.session import HISTORY

PROMOTED = "promoted.npz"


class ExamView(View[ExamReport]):
    """The `View` of `task=exam`."""

    files: ClassVar[tuple[str, ...]] = (HISTORY, PROMOTED)

    def title(self, report: ExamReport) -> str:
        config = report.config
        spent = "FLOPs" if config["budget_by"] == "flops" else "FLOPs (planned; the wall time is the limit)"
        return (
            f"[bold]{escape(config['estimator']['name'])}[/] on {escape(config['dataset']['name'])}: "
            f"{config['n_questions']} questions, budget {report.limits.budget:.3g} {spent}, seed {config['seed']}"
        )

    def rows(self, report: ExamReport) -> list[Row]:
        score = report.score
        families = ", ".join(
            f"{name} {right}/{asked}" for name, (right, asked) in right_by_family(report.cases).items()
        )
        size = score.bundle_gzipped_bytes
        chosen = f"candidate {score.promoted} of {score.n_candidates}" if score.promoted else "none"
        seen = "" if score.validation_score is None else f"{score.validation_score:.3g} % of the public validation set"
        return [
            ("right answers", f"{score.n_right} of {score.n_questions}", escape(families)),
            ("bits per byte", figure(score.bits_per_byte), "of the right answers; not part of the score"),
            *_rule_rows(score),
            ("training", gauge(score.training_flops / report.limits.budget), f"{score.training_steps} updates"),
            ("promoted", chosen, seen),
            ("bundle", "–" if size is None else f"{size:,} bytes", "gzipped, measured by the grader"),
        ]

    def complaints(self, report: ExamReport) -> list[str]:
        lines = []
        if report.meta.status == "interrupted":
            asked = report.config["n_questions"]
            lines.append(f"[bold yellow]interrupted[/] after {len(report.cases)} of {asked} questions")
        if report.score.invalid is not None:
            lines.append(f"[bold red]invalid[/], must be run again: {escape(report.score.invalid)}")
        elif report.score.n_failed_cases:
            first = next(case.failure for case in report.cases if case.failure is not None)
            n = report.score.n_failed_cases
            lines.append(f"[bold red]{n} of {len(report.cases)} questions failed[/]")
            lines.append(f"  {first.code}: {escape(first.message)}")
        return lines

    def next_step(self, report: ExamReport, is_tracked: bool) -> str | None:
        if report.has_errors or not report.cases or not is_tracked:
            return None
        return board_command(report.meta.command, report.config["scoring"]["name"], report.meta.protocol_hash)

    def case_table(self, report: ExamReport) -> tuple[Sequence[str], list[Sequence[str]]]:
        shown: list[Sequence[str]] = []
        for row in report.to_json()["results"]["per_case"]:
            texts = [_line(row.get(name)) for name in ("prefix", "answer", "given")] if report.reveal else []
            marks = [row["case_name"], row["family"], "right" if row["right"] else "wrong"]
            shown.append([*map(escape, [*marks, *texts]), row.get("error_code", "")])
        return ["question", "family", "", *["prefix", "answer", "given"] * report.reveal, "failure"], shown

    def series(self, document: Json) -> dict[str, Sequence[float]]:
        losses = document["results"]["training"]["losses"]
        return {"training_bits_per_byte": [bits for _, bits in losses if bits is not None]}

    def case_figures(self, document: Json) -> list[Json]:
        left_out = ("error", "traceback", "prefix")
        rows = document["results"]["per_case"]
        return [
            {name: row[name] for name in row if name not in left_out} | {"error_code": row.get("error_code", "")}
            for row in rows
        ]

    def save_files(self, report: ExamReport, folder: Path) -> None:
        """Save the promoted bundle beside the report. The session has already written its history."""
        if report.sitting.bundle is not None:
            write_atomically(folder / PROMOTED, report.sitting.bundle)

    def drawings(self, report: ExamReport) -> dict[str, tuple[str, Draw]]:
        if not report.cases:
            return {}
        results = report.to_json()["results"]
        drawn: dict[str, tuple[str, Draw]] = {
            "families": ("Right answers by family", lambda axes: draw_families(axes, results))
        }
        if results["training"]["losses"]:
            drawn["training"] = ("Training", lambda axes: draw_losses(axes, results))
        return drawn

    def page(self, document: Json, report: ExamReport | None) -> PageParts:
        return page_parts(document)


VIEW = ExamView()


def _rule_rows(score: ExamScore) -> list[Row]:
    if not isinstance(score, FhermaExamScore) or score.accuracy is None:
        return []
    return [
        ("accuracy", f"{score.accuracy:.4g} %", "of the answered questions"),
        ("failures", f"{score.failure_rate:.2%} of questions", f"times {score.failure_factor:.4g}"),
        ("mean wall time", f"{score.mean_wall_time_s:.3g} s per question", f"costs {score.time_deduction:.4g} points"),
    ]


def _line(text: str | None) -> str:
    return "–" if text is None else text.replace("\n", "⏎")
