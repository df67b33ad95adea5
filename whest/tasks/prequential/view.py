"""How a prequential run is shown: figures on the console, pictures, rows for MLflow, the manifest."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.markup import escape

from whest.config.commands import board_command
from whest.display.view import View
from whest.document import Json
from whest.notation import figure, gauge
from whest.page.drawing import Draw
from whest.page.run import PageParts
from whest.report import Row
from whest.tasks.prequential.figures import draw_bits_against_flops, draw_online_loss
from whest.tasks.prequential.manifest import MANIFEST_FILE, save_manifest
from whest.tasks.prequential.page import anomaly_words, figure4, gap_words, page_parts
from whest.tasks.prequential.report import PrequentialReport


class PrequentialView(View[PrequentialReport]):
    """The `View` of `task=prequential`."""

    files: ClassVar[tuple[str, ...]] = (MANIFEST_FILE,)

    def title(self, report: PrequentialReport) -> str:
        config = report.config
        return (
            f"[bold]{escape(config['estimator']['name'])}[/] on {escape(config['dataset']['name'])}: "
            f"{report.score.covered_bytes:,} bytes in rows of {config['row_length']}, "
            f"budget {report.limits.budget:.3g} FLOPs, seed {config['seed']}"
        )

    def rows(self, report: PrequentialReport) -> list[Row]:
        score = report.score
        seconds = sum(case.timing.wall_time_s for case in report.blocks)
        compiled = sum(case.compile_time_s for case in report.blocks)
        own = sum(case.forward_flops for case in report.blocks)
        held_out = [] if score.val_bpb is None else [self._held_out(report)]
        return [
            ("bits per byte", figure4(score.bpb), f"{figure4(score.train_bpb_converged)} on the last tenth"),
            *held_out,
            (
                "compute",
                gauge(score.flops_used / report.limits.budget),
                f"{score.n_batches:,} steps; the harness's own {figure(own)} FLOPs are free",
            ),
            ("time", f"{seconds:.3g} s", f"compiled in {compiled:.2g} s"),
        ]

    def _held_out(self, report: PrequentialReport) -> Row:
        score = report.score
        side = "below" if (score.gap or 0) < 0 else "above"
        gap = None if score.gap is None else abs(score.gap)
        return (
            "held out",
            f"{figure4(score.val_bpb)} bits per byte",
            f"{figure4(score.heldout_delta)} better than before learning, {figure4(gap)} {side} the last tenth",
        )

    def complaints(self, report: PrequentialReport) -> list[str]:
        score, lines = report.score, []
        if report.meta.status == "interrupted":
            lines.append(f"[bold yellow]interrupted[/] after {len(report.blocks)} blocks, so there is no score")
        elif score.failure is not None:
            lines.append(f"[bold red]failed, not scored[/]: {escape(score.failure)}")
        if score.step0_anomaly and score.step0_loss is not None:
            lines.append(f"[bold red]score set to 0[/]: {anomaly_words(score.step0_loss)}")
        if score.memorised and score.gap is not None:
            lines.append(f"[bold red]score halved[/]: {gap_words(score.gap)}")
        if score.n_charged_batches:
            lines.append(
                f"[bold yellow]{score.n_charged_batches} batches[/] had no finite loss: they count as 16 bits per byte"
            )
        if report.config["is_reference"]:
            lines.append("a reference: its work on the host isn't counted, so a board lists it but doesn't rank it")
        return lines

    def next_step(self, report: PrequentialReport, is_tracked: bool) -> str | None:
        if report.score.score is None or not is_tracked:
            return None
        return board_command(report.meta.command, "prism", report.meta.protocol_hash)

    def case_table(self, report: PrequentialReport) -> tuple[Sequence[str], list[Sequence[str]]]:
        rows: list[Sequence[str]] = [
            (case.name, f"{report.block_bpb(case):.4f}", f"{case.flops:.3g}", f"{case.timing.wall_time_s:.3g}")
            for case in report.blocks
        ]
        return ("block", "bits per byte", "FLOPs", "wall s"), rows

    def series(self, document: Json) -> dict[str, Sequence[float]]:
        """One value per block: there are thousands of batches."""
        rows = document["results"]["per_case"]
        return {"block_bpb": [row["bpb"] for row in rows if row["bpb"] is not None]}

    def case_figures(self, document: Json) -> list[Json]:
        names = ("bpb", "flops_used", "n_bytes", "wall_time_s")
        rows = document["results"]["per_case"]
        return [{"block": row["case_name"], **{name: row[name] for name in names}} for row in rows]

    def save_files(self, report: PrequentialReport, folder: Path) -> None:
        save_manifest(report, folder)

    def drawings(self, report: PrequentialReport) -> dict[str, tuple[str, Draw]]:
        if not report.blocks:
            return {}
        results = report.to_json()["results"]
        return {
            "online_loss": ("Online loss", lambda axes: draw_online_loss(axes, results)),
            "bits_against_flops": ("Bits against FLOPs", lambda axes: draw_bits_against_flops(axes, results)),
        }

    def page(self, document: Json, report: PrequentialReport | None) -> PageParts:
        return page_parts(document)


VIEW = PrequentialView()
