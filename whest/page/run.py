"""A run's page: the score, where the compute and the error went, every MLP, and how to do it again."""

import json
import logging
from datetime import datetime
from pathlib import Path
from typing import Any

from whest.console import figure, plus_minus
from whest.figures import Answers, answers_of, case_score, draw_layer_error, draw_mlp_scores, has_failed
from whest.page.answers import answer_blocks
from whest.page.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Fact,
    Facts,
    Gauge,
    Headline,
    Page,
    Picture,
    Section,
    Table,
    Text,
)
from whest.page.charts import new_figure
from whest.page.failures import failure_blocks, failure_words
from whest.page.flops import flop_blocks, percent
from whest.page.render import save_page
from whest.recorded import read_report
from whest.report import Json, Report
from whest.tracking import PAGE

LOG = logging.getLogger(__name__)
MAX_ROWS = 1000
FAILED = {
    "whest": "A failed MLP scores as zeros at multiplier 1.",
    "fherma": "A failed MLP has no accuracy and lowers the whole score.",
}
"""What a rule makes of failures."""


def run_page(document: Json, answers: Answers | None = None, config: str | None = None) -> Page:
    """The page of a report.json; with `answers` neuron by neuron too, with `config` as it was composed."""
    told = document["run_config"]
    results = document["results"]
    sections = [
        Section("Error", _error_blocks(results, answers)) if results["per_mlp"] else None,
        Section("Where the FLOPs went", flop_blocks(results)) if results["per_mlp"] else None,
        Section("Prediction against truth", answer_blocks(answers)) if answers else None,
        Section("MLPs", [_mlp_table(document)]) if results["per_mlp"] else None,
        Section("Failures and output", failure_blocks(results["per_mlp"]))
        if failure_blocks(results["per_mlp"])
        else None,
        Section("Reproduce", _reproduction_blocks(document)),
        Section("Config", _config_blocks(document, config)),
    ]
    return Page(
        title=f"{told['estimator']['name']} on {told['dataset']['name']}",
        subtitle=_subtitle(document),
        blocks=[*_notices(document), _headline(document), *_gauge(document), *(s for s in sections if s is not None)],
    )


def save_run_page(report: Report, folder: Path) -> None:
    """Leave report.html beside report.json. A page is for looking at: if it can't be made, nothing else is lost."""
    config = folder / "config.yaml"
    try:
        composed = config.read_text() if config.exists() else None
        save_page(run_page(report.to_json(), answers_of(report), composed), folder / PAGE)
    except Exception as error:
        LOG.warning("%s could not be made (%s: %s); the report is safe", folder / PAGE, type(error).__name__, error)


def page_of_recorded(path: Path) -> tuple[Page, Path]:
    """The page of a run that was recorded earlier, without its neurons; and the folder it was found in."""
    run = read_report(path)
    folder = path if path.is_dir() else path.parent
    config = folder / "config.yaml"
    return run_page(run.report, config=config.read_text() if config.exists() else None), folder


def _subtitle(document: Json) -> str:
    told, n_done = document["run_config"], len(document["results"]["per_mlp"])
    started = datetime.fromisoformat(document["run_meta"]["run_started_at_utc"])
    return (
        f"{n_done} MLPs of {told['width']}×{told['depth']} · {told['round']} · budget {told['flop_budget']:.3g} FLOPs, "
        f"λ {told['lambda_flops_per_second']:.3g} · {started:%-d %B %Y, %H:%M} UTC"
    )


def _notices(document: Json) -> list[Block]:
    """What a reader must know before the score."""
    results, n_asked = document["results"], document["run_config"]["n_mlps"]
    notices: list[Block] = []
    if document["run_meta"]["status"] == "interrupted":
        done = len(results["per_mlp"])
        notices.append(Text(f"Interrupted after {done} of {n_asked} MLPs: every figure is of those alone.", "warn"))
    if results["n_failed_mlps"]:
        words = failure_words(results["failure_breakdown"])
        notices.append(
            Text(
                f"{results['n_failed_mlps']} of {len(results['per_mlp'])} MLPs failed ({words}). "
                f"{FAILED.get(document['run_config']['scoring']['name'], '')}",
                "bad",
            )
        )
    return notices


def _headline(document: Json) -> Headline:
    results, n_done = document["results"], len(document["results"]["per_mlp"])
    if results["score"] is None:
        return Headline("score", "none", "No MLP was finished, or a figure is not finite.", "bad")
    error = results.get("score_se", results.get("adjusted_final_layer_score_se"))
    spread = "± one standard error" if error is not None else "one MLP gives no error bar"
    return Headline(
        label=f"score, {results['direction']} is better",
        value=plus_minus(results["score"], error),
        note=f"mean over {n_done} MLPs, {spread}",
        tone="bad" if results["n_failed_mlps"] else "plain",
        facts=_facts(document),
    )


def _facts(document: Json) -> list[Fact]:
    results, told = document["results"], document["run_config"]
    facts = [
        Fact(
            "final-layer MSE",
            plus_minus(results["final_layer_mse"], results["final_layer_mse_se"]),
            f"{figure(results['final_layer_mse_corrected'])} without the truth's own noise",
        ),
        Fact("all-layers MSE", figure(results["all_layers_mse"]), f"mean over {told['depth']} layers"),
        *_rule_facts(results),
    ]
    ratio = results.get("ratio_to_sampling")
    if ratio is not None:
        words = "better than" if ratio < 1 else "worse than"
        facts.append(Fact("against sampling", f"{ratio:.3g}×", f"{words} plain sampling with the same compute"))
    walls = [row["wall_time_s"] for row in results["per_mlp"]]
    compiled = f"compiled in {results['compile_time_s']:.2g} s"
    facts.append(Fact("time", f"{sum(walls) / len(walls):.3g} s an MLP", compiled))
    failed = results["n_failed_mlps"]
    facts.append(Fact("failed MLPs", f"{failed} of {len(walls)}", "", "bad" if failed else "plain"))
    return facts


def _rule_facts(results: Json) -> list[Fact]:
    """What only some rules have."""
    facts = []
    if "mean_score_multiplier" in results:
        facts.append(Fact("multiplier", figure(results["mean_score_multiplier"]), "max(floor, C/B), mean over MLPs"))
    if "accuracy" in results:
        facts.append(Fact("accuracy", f"{results['accuracy']:.4g} %", "of final-layer neurons within the tolerance"))
        facts.append(Fact("price of time", f"{results['time_deduction']:.4g}", "points off for the mean wall time"))
        facts.append(Fact("price of failures", f"× {results['failure_factor']:.4g}", "of what is left"))
    return facts


def _gauge(document: Json) -> list[Block]:
    results, told = document["results"], document["run_config"]
    share, compute = results["mean_compute_utilization"], results["mean_effective_compute"]
    if share is None or compute is None:
        return []
    floor = told["scoring"].get("multiplier_floor")
    seconds = sum(row["residual_wall_time_s"] for row in results["per_mlp"]) / len(results["per_mlp"])
    residual = f", {seconds:.2g} s of residual time at λ among them" if seconds else ""
    note = f"{compute:.3g} FLOPs an MLP{residual}."
    if floor is not None and 0 < share < floor:
        note += f" {floor / share:.3g} times as much would cost no more: the multiplier's floor is {floor:g}."
    elif share > 1:
        note += " That is over the budget."
    return [Gauge(f"{share:.2%} of the budget spent.", share, floor, note)]


def _error_blocks(results: Json, answers: Answers | None) -> list[Block]:
    by_layer, layer_axes = new_figure()
    floor = answers.layer_floor if answers is not None else None
    draw_layer_error(layer_axes, results, floor)
    by_mlp, mlp_axes = new_figure()
    draw_mlp_scores(mlp_axes, results)
    mses = results["per_layer_mse"]
    field, label = case_score(results)
    parts = [row[field] for row in results["per_mlp"] if row[field] is not None]
    low, high = min(parts, default=None), max(parts, default=None)
    noise = results["truth_floor_mse"]
    hidden = [f"{mse:.1e} at layer {i}" for i, mse in enumerate(mses, 1) if mse and mse < layer_axes.get_ylim()[0]]
    below = f" Below the axis: {', '.join(hidden)}." if hidden else ""
    return [
        Picture(
            by_layer,
            f"Mean squared error by layer: {figure(mses[0])} at layer 1, {figure(mses[-1])} at layer {len(mses)}; "
            f"the truth's own noise is {figure(noise)} at the last.",
            f"Error by layer, a grey line an MLP. Truth's own noise adds {figure(noise)} to the final layer's.{below}",
        ),
        Picture(
            by_mlp,
            f"{label} of each of {len(results['per_mlp'])} MLPs in order, from {figure(low)} to {figure(high)}.",
            f"Each MLP's {label}, from {figure(low)} to {figure(high)}.",
        ),
    ]


def _mlp_table(document: Json) -> Table:
    results, budget = document["results"], document["run_config"]["flop_budget"]
    field, label = case_score(results)
    rows = [
        [
            row["mlp_index"],
            row["mlp_name"],
            row[field],
            row["final_layer_mse"],
            row["all_layers_mse"],
            percent(row["effective_compute"] / budget),
            row["flops_used"],
            row["wall_time_s"],
            Cell(failure_words(row), tone="bad") if has_failed(row) else "",
        ]
        for row in results["per_mlp"][:MAX_ROWS]
    ]
    columns: list[Column | str] = [
        "#",
        "MLP",
        Column("score" if "adjusted" in field else field, label),
        "final-layer MSE",
        "all-layers MSE",
        Column("C/B", "effective compute over the budget"),
        "FLOPs",
        "wall s",
        "failure",
    ]
    total = len(results["per_mlp"])
    cut = f"The first {MAX_ROWS:,} of {total:,}; report.json has them all. " if total > MAX_ROWS else ""
    return Table(columns, rows, f"{cut}Press a column's name to sort by it.")


def _reproduction_blocks(document: Json) -> list[Block]:
    meta = document["run_meta"]
    version = meta["code_version"] or ""
    at = f"git checkout {version}\n" if version and not version.endswith("-dirty") else ""
    return [
        Code(f"{at}{meta['command']}{_drawn_seed(document)}", "The command."),
        Facts(_provenance(document)),
        Text("Scores compare where the protocol is the same."),
    ]


def _drawn_seed(document: Json) -> str:
    """Fresh MLPs whose seed nobody gave were drawn from one all the same."""
    told, command = document["run_config"], document["run_meta"]["command"]
    is_drawn = told["dataset"]["name"] == "fresh" and told["seed"] is None and "dataset.seed=" not in command
    return f" seed={told['dataset']['seed']}" if is_drawn else ""


def _provenance(document: Json) -> list[tuple[str, str]]:
    meta, told = document["run_meta"], document["run_config"]
    host = meta["host"]
    rows = {
        "protocol": meta["protocol_hash"],
        "whest": meta["whest_version"],
        "code": meta["code_version"] or "installed package",
        "estimator": told["estimator"]["target"] or told["estimator"]["path"],
        "estimator's source": (told["estimator"]["source_sha256"] or "")[:16],
        "participant": told["participant"],
        "dataset": f"{told['dataset']['name']} {told['dataset']['sha256'][:16]}",
        "isolation": "in workers" if told["isolation"]["worker"] else "in this process",
        "JAX, NumPy": f"{host['jax_version']}, {host['numpy_version']}",
        "Python": host["python_version"],
        "machine": f"{host['cpu_brand'] or host['machine']}, {host['cpu_count_logical']} cores, {host['device']}",
        "duration": f"{meta['run_duration_s']:.3g} s",
        "finished": meta["run_finished_at_utc"][:19].replace("T", " ") + " UTC",
        "status": meta["status"],
    }
    return [(name, str(value)) for name, value in rows.items() if value]


def _config_blocks(document: Json, config: str | None) -> list[Block]:
    composed = [Code(config, "As composed from conf/ and the command line", is_folded=True)] if config else []
    return [
        Code(_pretty(document["run_config"]), "As the report has it", is_folded=True),
        *composed,
        Code(_pretty(document["run_meta"]["protocol"]), "The protocol behind the hash", is_folded=True),
    ]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
