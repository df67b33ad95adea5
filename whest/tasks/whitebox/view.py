"""How a white-box run is shown: figures on the console, pictures, rows for MLflow."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from whest.config.commands import compare_command
from whest.display.view import View
from whest.document import Json, has_failed
from whest.notation import count, figure, gauge, plus_minus
from whest.report import Row
from whest.scoring.power import power_words, smallest_ratio_of
from whest.scoring.whest import WhestScore
from whest.scoring.whitebox import WhiteboxScore
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE, save_predictions
from whest.tasks.whitebox.report import WhiteboxReport
from whest.tasks.whitebox.words import against_sampling, lambda_words, meter_words

if TYPE_CHECKING:
    from whest.page.drawing import Draw
    from whest.page.run import PageParts


class WhiteboxView(View[WhiteboxReport]):
    """The `View` of `task=whitebox`."""

    files: ClassVar[tuple[str, ...]] = (PREDICTIONS_FILE,)

    def title(self, report: WhiteboxReport) -> str:
        config = report.config
        return (
            f"[bold]{escape(config['estimator']['name'])}[/] on {escape(config['dataset']['name'])}: "
            f"{count(len(report.cases), 'MLP')} of {config['width']}x{config['depth']}, "
            f"budget {report.limits.budget:.3g} FLOPs, λ {report.limits.lam:.3g}{lambda_words(config)}"
            f"{meter_words(config)}"
        )

    def rows(self, report: WhiteboxReport) -> list[Row]:
        score = report.score
        noise = f"{figure(score.final_layer_mse_corrected)} without the truth's own noise"
        wall = sum(case.prediction.timing.wall_time_s for case in report.cases)
        compiled = sum(case.prediction.compile_time_s for case in report.cases)
        return [
            (
                "final-layer MSE",
                plus_minus(score.final_layer_mse, score.final_layer_mse_se),
                f"{noise} ({figure(score.truth_floor_mse)})",
            ),
            ("all-layers MSE", figure(score.all_layers_mse), "by layer " + _layers(score.per_layer_mse)),
            *_rule_rows(score),
            ("time", f"{wall / max(len(report.cases), 1):.3g} s per MLP", f"compiled in {compiled:.2g} s"),
        ]

    def complaints(self, report: WhiteboxReport) -> list[str]:
        lines = []
        if report.meta.status == "interrupted":
            asked = count(report.config["n_mlps"], "MLP")
            lines.append(f"[bold yellow]interrupted[/] after {len(report.cases)} of {asked}")
        if report.score.n_failed_mlps:
            counts = {name.replace("_", " "): n for name, n in vars(report.score.failure_breakdown).items() if n}
            listed = ", ".join(f"{name} {n}" for name, n in counts.items())
            ran = count(len(report.cases), "MLP")
            lines.append(f"[bold red]{report.score.n_failed_mlps} of {ran} failed[/] ({listed})")
            lines += _first_failure(report)
        return lines

    def next_step(self, report: WhiteboxReport, is_tracked: bool) -> str | None:
        if len(report.cases) < 2 or report.has_errors or report.all_failed:
            return None
        estimator = report.config["estimator"]
        return compare_command(report.meta.command, estimator["name"], estimator["mode"])

    def case_table(self, report: WhiteboxReport) -> tuple[Sequence[str], list[Sequence[str]]]:
        field = report.score.by_case.field
        columns = ("MLP", field.replace("_", " "), "final-layer MSE", "C/B", "wall s", "failure")
        rows: list[Sequence[str]] = []
        for case, scored in zip(report.cases, report.score.cases, strict=True):
            reasons = [name.replace("_", " ") for name, is_set in vars(scored.flags).items() if is_set]
            if case.prediction.failure is not None:
                reasons.append(case.prediction.failure.code)
            rows.append(
                (
                    case.name,
                    figure(getattr(scored, field)),
                    figure(scored.final_layer_mse),
                    f"{scored.effective_compute / report.limits.budget:.3g}",
                    f"{case.prediction.timing.wall_time_s:.3g}",
                    ", ".join(reasons),
                )
            )
        return columns, rows

    def series(self, document: Json) -> dict[str, Sequence[float]]:
        return {"layer_mse": [mse for mse in document["results"]["per_layer_mse"] if mse is not None]}

    def case_figures(self, document: Json) -> list[Json]:
        return [_table_row(row) for row in document["results"]["per_mlp"]]

    def save_files(self, report: WhiteboxReport, folder: Path) -> None:
        save_predictions(report, folder)

    def drawings(self, report: WhiteboxReport) -> dict[str, tuple[str, "Draw"]]:
        from whest.page.drawing import draw_case_scores
        from whest.tasks.whitebox.figures import answers_of, draw_final_layer, draw_layer_error

        if not report.cases:
            return {}
        results, answers = report.to_json()["results"], answers_of(report)
        floor = None if answers is None else answers.layer_floor
        return {
            "layer_error": ("Error by layer", lambda axes: draw_layer_error(axes, results, floor)),
            "mlp_scores": (
                f"Score by MLP ({results['direction']} is better)",
                lambda axes: draw_case_scores(axes, results),
            ),
            "prediction_against_truth": (
                "Final layer: prediction against truth",
                lambda axes: draw_final_layer(axes, answers),
            ),
        }

    def page(self, document: Json, report: WhiteboxReport | None) -> "PageParts":
        from whest.tasks.whitebox.figures import answers_of
        from whest.tasks.whitebox.page import page_parts

        return page_parts(document, answers_of(report) if report is not None else None)


VIEW = WhiteboxView()

OWN_FIGURES = ("adjusted_final_layer_score", "score_multiplier", "accuracy", "attempted")
"""What only some rules have."""
FIGURES = (
    *("final_layer_mse", "all_layers_mse", "per_layer_mse", "flops_used", "effective_compute"),
    *("wall_time_s", "residual_wall_time_s"),
    *("budget_exhausted", "time_exhausted", "residual_wall_time_exhausted", "combined_budget_exhausted"),
)


def _table_row(row: Json) -> Json:
    """A case as a row of MLflow's table. Failures are told in words at its end."""
    return {
        "mlp": row["mlp_name"],
        **{name: row[name] for name in OWN_FIGURES if name in row},
        **{name: row.get(name) for name in FIGURES},
        "failed": has_failed(row),
        "error_code": row.get("error_code") or "",
        "traceback": row.get("traceback") or "",
    }


def _rule_rows(score: WhiteboxScore) -> list[Row]:
    """The figures that only this rule has."""
    share = gauge(score.mean_compute_utilization or 0)
    if isinstance(score, WhestScore):
        rows = [("compute", share, f"multiplier {figure(score.mean_score_multiplier)}")]
        ratio = score.ratio_to_sampling
        if ratio is not None:
            rows.append(("against sampling", f"{ratio:.3g}x", f"{against_sampling(ratio)} at the same compute"))
        if len(score.cases) > 1:
            resolved = smallest_ratio_of([case.adjusted_final_layer_score for case in score.cases])
            rows.append(("resolves", *power_words(resolved, len(score.cases))))
        return rows
    from whest.scoring.fherma import FhermaScore  # another rule's run doesn't import it

    if isinstance(score, FhermaScore):
        return [
            ("compute", share, "does not change the score within the budget"),
            ("accuracy", f"{score.accuracy:.4g} %", "of final-layer neurons within the tolerance"),
            ("failures", f"{score.failure_rate:.2%} of MLPs", f"times {score.failure_factor:.4g}"),
            ("mean wall time", f"{score.mean_wall_time_s:.3g} s", f"costs {score.time_deduction:.4g} points"),
        ]
    return [("compute", share, "")]


def _first_failure(report: WhiteboxReport) -> list[str]:
    failure = next((case.prediction.failure for case in report.cases if case.prediction.failure), None)
    if failure is not None:
        return [*map(escape, failure.lines), *(f"  hint: {escape(hint)}" for hint in failure.hints)]
    rows = report.to_json()["results"]["per_mlp"]
    limits = [(row["traceback"], [LIMITS[flag] for flag in LIMITS if row[flag]]) for row in rows if has_failed(row)]
    if not limits:
        return []
    reason, keys = limits[0]
    return [f"  {escape(reason or '')}", f"  hint: the limit is {' and '.join(keys)}: raise it, or do less"]


LIMITS = {
    "budget_exhausted": "budget",
    "time_exhausted": "wall_time_limit_s",
    "residual_wall_time_exhausted": "residual_wall_time_limit_s",
    "combined_budget_exhausted": "budget (FLOPs, and residual time at lam)",
}
"""The key of the config behind each flag."""


def _layers(mses: tuple[float, ...]) -> str:
    shown = mses if len(mses) <= 8 else (*mses[:3], *mses[-3:])
    words = [f"{mse:.1e}" for mse in shown]
    return " ".join(words if len(mses) <= 8 else [*words[:3], "…", *words[3:]])
