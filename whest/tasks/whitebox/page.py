"""The page of a white-box run: compute, error, prediction against truth, all MLPs."""

from datetime import datetime

from whest.document import Json, case_score, has_failed
from whest.notation import count, figure, plus_minus
from whest.page.blocks import Block, Cell, Column, Fact, Gauge, Table, Text
from whest.page.cases import case_chart
from whest.page.failures import failure_blocks, failure_words, output_blocks
from whest.page.flops import flop_blocks, percent
from whest.page.run import PageParts
from whest.tasks.whitebox.answers import answer_blocks
from whest.tasks.whitebox.figures import Answers
from whest.tasks.whitebox.layers import layer_chart
from whest.tasks.whitebox.predictions import PREDICTIONS_FILE
from whest.tasks.whitebox.words import against_sampling, lambda_words

MAX_ROWS = 1000
EXPLORE = "To see one MLP neuron by neuron: job=explore path=RUN_DIR mlp=NAME."

FAILED = {
    "whest": "A failed MLP gets the score of all zeros, with multiplier 1.",
    "fherma": "A failed MLP has no accuracy and lowers the whole score.",
}
"""The effect of failures, by rule."""

ISOLATION = {True: "in workers", False: "in this process", None: ""}
"""None: in an imported run."""


def page_parts(document: Json, answers: Answers | None = None) -> PageParts:
    """The parts of the page, from a report.json. `answers` adds the charts of single neurons."""
    config, results = document["run_config"], document["results"]
    rows = results["per_mlp"]
    return PageParts(
        title=f"{config['estimator']['name']} on {config['dataset']['name']}",
        subtitle=_subtitle(document),
        notices=_notices(document),
        note=_note(results),
        facts=_facts(document) if results["score"] is not None else [],
        gauges=_gauge(document),
        sections={
            "Failures": failure_blocks(rows),
            "Error": _error_blocks(results, answers) if rows and results["per_layer_mse"] else [],
            "Where the FLOPs went": flop_blocks(results, len(rows), "FLOPs per MLP") if rows else [],
            "Prediction against truth": answer_blocks(answers) if answers else [],
            "MLPs": [_mlp_table(document)] if rows else [],
            "Output": output_blocks(rows),
        },
        provenance={"isolation": ISOLATION[config["isolation"]["worker"]]},
        files=(PREDICTIONS_FILE,),
    )


def _subtitle(document: Json) -> str:
    config, n_done = document["run_config"], len(document["results"]["per_mlp"])
    started = datetime.fromisoformat(document["run_meta"]["run_started_at_utc"])
    return (
        f"{count(n_done, 'MLP')} of {config['width']}×{config['depth']} · {config['round']} · "
        f"budget {config['flop_budget']:.3g} FLOPs, "
        f"λ {config['lambda_flops_per_second']:.3g}{lambda_words(config)} · "
        f"{started:%-d %B %Y, %H:%M} UTC"
    )


def _notices(document: Json) -> list[Block]:
    """Warnings above the score."""
    results, n_asked = document["results"], document["run_config"]["n_mlps"]
    notices: list[Block] = []
    if "imported" in document:
        notices += _import_notices(document["imported"])
    if document["run_meta"]["status"] == "interrupted":
        done, asked = len(results["per_mlp"]), count(n_asked, "MLP")
        notices.append(Text(f"Interrupted after {done} of {asked}: all figures are over these.", "warn"))
    if results["n_failed_mlps"]:
        words = failure_words(results["failure_breakdown"])
        notices.append(
            Text(
                f"{results['n_failed_mlps']} of {count(len(results['per_mlp']), 'MLP')} failed ({words}). "
                f"{FAILED.get(document['run_config']['scoring']['name'], '')}",
                "bad",
            )
        )
    return notices


def _import_notices(imported: Json) -> list[Block]:
    notices: list[Block] = [
        Text(f"Imported from {imported['from']}, a WhestBench report. It was not run by whest.", "warn")
    ]
    if imported["problems"]:
        notices.append(Text(f"Its figures are inconsistent: {'; '.join(imported['problems'][:8])}.", "bad"))
    return notices


def _note(results: Json) -> str:
    if results["score"] is None:
        return "No MLP was finished, or a figure is not finite."
    error = results.get("score_se", results.get("adjusted_final_layer_score_se"))
    spread = "± one standard error" if error is not None else "no error bar, because there is only one MLP"
    return f"mean over {count(len(results['per_mlp']), 'MLP')}, {spread}"


def _facts(document: Json) -> list[Fact]:
    results, config = document["results"], document["run_config"]
    facts = [
        Fact(
            "final-layer MSE",
            plus_minus(results["final_layer_mse"], results["final_layer_mse_se"]),
            f"{figure(results['final_layer_mse_corrected'])} without the truth's own noise",
        ),
        Fact("all-layers MSE", figure(results["all_layers_mse"]), f"mean over {config['depth']} layers"),
        *_rule_facts(results),
    ]
    ratio = results.get("ratio_to_sampling")
    if ratio is not None:
        facts.append(Fact("against sampling", f"{ratio:.3g}×", f"{against_sampling(ratio)} with the same compute"))
    walls = [row["wall_time_s"] for row in results["per_mlp"]]
    compiled = f"compiled in {results['compile_time_s']:.2g} s"
    facts.append(Fact("time", f"{sum(walls) / len(walls):.3g} s per MLP", compiled))
    failed = results["n_failed_mlps"]
    facts.append(Fact("failed MLPs", f"{failed} of {len(walls)}", "", "bad" if failed else "plain"))
    return facts


def _rule_facts(results: Json) -> list[Fact]:
    """Figures that only some rules have."""
    facts = []
    if "mean_score_multiplier" in results:
        facts.append(Fact("multiplier", figure(results["mean_score_multiplier"]), "max(floor, C/B), mean over MLPs"))
    if "accuracy" in results:
        facts.append(Fact("accuracy", f"{results['accuracy']:.4g} %", "of final-layer neurons within the tolerance"))
        facts.append(Fact("price of time", f"{results['time_deduction']:.4g}", "points off for the mean wall time"))
        facts.append(Fact("price of failures", f"× {results['failure_factor']:.4g}", "factor on the rest"))
    return facts


def _gauge(document: Json) -> list[Block]:
    results, config = document["results"], document["run_config"]
    share, compute = results["mean_compute_utilization"], results["mean_effective_compute"]
    if share is None or compute is None:
        return []
    floor = config["scoring"].get("multiplier_floor")
    seconds = sum(row["residual_wall_time_s"] for row in results["per_mlp"]) / len(results["per_mlp"])
    residual = f", with {seconds:.2g} s of residual time at λ" if seconds else ""
    note = f"{compute:.3g} FLOPs per MLP{residual}."
    if floor is not None and 0 < share < floor:
        note += f" {floor / share:.3g} times as much would not raise the multiplier: its floor is {floor:g}."
    elif share > 1:
        note += " That is over the budget."
    return [Gauge(f"{share:.2%} of the budget spent.", share, floor, note)]


def _error_blocks(results: Json, answers: Answers | None) -> list[Block]:
    return [layer_chart(results, answers.layer_floor if answers is not None else None), case_chart(results)]


def _mlp_table(document: Json) -> Table:
    results, budget = document["results"], document["run_config"]["flop_budget"]
    by_case = case_score(results)
    field, label = by_case["field"], by_case["label"]
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
    cut = f"The first {MAX_ROWS:,} of {total:,}; report.json has all. " if total > MAX_ROWS else ""
    return Table(columns, rows, f"{cut}Click on a column's name to sort by it. {EXPLORE}")
