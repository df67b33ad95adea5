"""The page of an exam run: families, training curve, candidates, questions with their answers."""

from collections.abc import Sequence
from datetime import datetime

from whest.document import Json
from whest.notation import figure
from whest.page.blocks import Axis, Bar, Bars, Block, Cell, Chart, Fact, Gauge, Guide, Series, Table, Text
from whest.page.failures import failure_blocks, output_blocks
from whest.page.flops import flop_blocks
from whest.page.run import PageParts

MAX_ROWS = 1000


def page_parts(document: Json) -> PageParts:
    config, results = document["run_config"], document["results"]
    rows = results["per_case"]
    started = datetime.fromisoformat(document["run_meta"]["run_started_at_utc"])
    return PageParts(
        title=f"{config['estimator']['name']} on {config['dataset']['name']}",
        subtitle=f"{config['n_questions']} questions · budget {config['flop_budget']:.3g} FLOPs · "
        f"seed {config['seed']} · {started:%-d %B %Y, %H:%M} UTC",
        notices=_notices(document),
        note=f"{results['n_right']} of {results['n_questions']} answers are right byte for byte",
        facts=_facts(results),
        gauges=_gauges(document),
        sections={
            "Failures": failure_blocks(rows),
            "By family": [_family_bars(results)] if rows else [],
            "Training": _training_blocks(results),
            "Candidates": _candidate_blocks(results),
            "Where the FLOPs went": flop_blocks(results, max(results["training_steps"], 1), "FLOPs per update")
            if results["training_flops"]
            else [],
            "Questions": _question_blocks(rows),
            "Output": output_blocks(rows),
        },
        provenance={
            "exam": config["dataset"]["exam_sha256"][:16],
            "training text": config["dataset"]["text_sha256"][:16],
            "validation set": config["dataset"]["validation_sha256"][:16],
            "protections": ", ".join(
                name.replace("_", " ") for name, held in config["isolation"]["protections"].items() if held
            ),
        },
    )


def _notices(document: Json) -> list[Block]:
    results, config = document["results"], document["run_config"]
    notices: list[Block] = []
    if document["run_meta"]["status"] == "interrupted":
        done = len(results["per_case"])
        notices.append(Text(f"Interrupted after {done} of {config['n_questions']} questions.", "warn"))
    if results["invalid"]:
        notices.append(Text(f"Invalid, must be run again: {results['invalid']}", "bad"))
    elif results["promoted"] is None and results["per_case"]:
        notices.append(Text(f"Nothing was graded: {results['per_case'][0]['error']['message']}.", "bad"))
    if config["dataset"]["is_demo"]:
        notices.append(Text("This is the demo exam: anybody can make it from its seed.", "warn"))
    return notices


def _facts(results: Json) -> list[Fact]:
    size, seen = results["bundle_gzipped_bytes"], results["validation_score"]
    facts = [
        Fact("bits per byte", figure(results["bits_per_byte"]), "of the right answers; not part of the score"),
        Fact("promoted", f"candidate {results['promoted'] or '–'}", f"of {results['n_candidates']}"),
        Fact("public validation", "–" if seen is None else f"{seen:.3g} %", "not part of the score"),
        Fact("bundle", "–" if size is None else f"{size:,} B", "gzipped, measured by the grader"),
        Fact("parameters", "–" if results["n_params"] is None else f"{results['n_params']:,}"),
        Fact("training", f"{results['training_time_s']:.3g} s", f"{results['training_steps']} updates"),
    ]
    if results.get("constant_bytes") is not None:
        packed = f"{results['program_bytes']:,} B of programs, gzipped"
        facts.append(Fact("constants", f"{results['constant_bytes']:,} B", packed))
    if results.get("mean_wall_time_s") is not None:
        cost = f"costs {results['time_deduction']:.3g} points"
        facts.append(Fact("time", f"{results['mean_wall_time_s']:.3g} s per question", cost))
    return facts


def _gauges(document: Json) -> list[Block]:
    config, results = document["run_config"], document["results"]
    if config["budget_by"] != "flops":
        return []
    share = results["training_flops"] / config["flop_budget"]
    return [Gauge("budget spent on updates", share, note=f"{results['training_flops']:.4g} FLOPs")]


def _family_bars(results: Json) -> Bars:
    """The share of right answers by family, the best on top."""
    bars = [
        Bar(name, share := count["right"] / count["asked"], f"{share:.0%} · {count['right']} of {count['asked']}")
        for name, count in results["families"].items()
    ]
    return Bars(sorted(bars, key=lambda bar: -bar.value), "Right answers by family.", full=1.0)


def _training_blocks(results: Json) -> list[Block]:
    losses = results["training"]["losses"]
    if not losses:
        return []
    words = f"Bits per byte of training text, from {losses[0][1]:.3g} to {losses[-1][1]:.3g}"
    calls = [
        [
            event["number"],
            f"{event['asked_at_s']:.1f}",
            _left(event),
            event.get("steps"),
            event.get("flops_used"),
            event.get("reason", ""),
        ]
        for event in results["training"]["history"]
        if event["event"] in ("call", "refusal")
    ]
    columns = ["call", "asked at, s", "budget", "updates", "FLOPs", "refused"]
    return [_loss_chart(results, words), Table(columns, calls, "Training calls.")]


def _loss_chart(results: Json, words: str) -> Chart:
    """Bits per byte of batches before their update. Lines are candidates; the solid one was graded."""
    steps, bits = zip(*results["training"]["losses"], strict=True)
    candidates = [event for event in results["training"]["history"] if event["event"] == "candidate"]
    guides = [_candidate_guide(event, event["number"] == results["promoted"]) for event in candidates]
    series = Series("loss of a batch", steps, bits, "line")
    y = Axis("bits per byte of training text", low=0.0)
    return Chart(Axis("update", is_integer=True), y, [series], f"{words}.", f"{words}.", guides, size="wide")


def _candidate_guide(event: Json, is_graded: bool) -> Guide:
    name = f"candidate {event['number']}{' (graded)' if is_graded else ''}"
    return Guide(name, event["steps"], colour="alarm" if is_graded else "muted", is_dashed=not is_graded)


def _left(event: Json) -> str:
    if event.get("flops_left") is not None:
        return f"{event['flops_left']:.4g} FLOPs left"
    return f"{event['seconds_left']:.0f} s left" if event.get("seconds_left") is not None else ""


def _candidate_blocks(results: Json) -> list[Block]:
    history = results["training"]["history"]
    promoted = [event["candidate"] for event in history if event["event"] == "promotion"]
    rows = [
        [
            event["number"],
            event["steps"],
            f"{100 * event['validation_right'] / event['validation_asked']:.3g}",
            event["gzipped_bytes"],
            event["sha256"][:12],
            _standing(event["number"], results["promoted"], promoted),
        ]
        for event in history
        if event["event"] == "candidate"
    ]
    columns = ["candidate", "updates", "validation, %", "bytes gzipped", "sha256", ""]
    words = "The candidate promoted last is graded; the validation set has no effect on this."
    return [Table(columns, rows, words)] if rows else []


def _standing(number: int, graded: int | None, promoted: Sequence[int]) -> str | Cell:
    if number == graded:
        return Cell("graded", tone="good")
    return "promoted earlier" if number in promoted else ""


def _question_blocks(rows: Sequence[Json]) -> list[Block]:
    if not rows:
        return []
    if "prefix" not in rows[0]:
        hidden = Text("The questions of your own exam are not shown; task.reveal=true shows them.")
        return [hidden, _question_table(rows, "Every question.")]
    return [_question_table(rows, "Every question with its answer. Click on a column's name to sort by it.")]


def _question_table(rows: Sequence[Json], caption: str) -> Table:
    texts = [name for name in ("prefix", "answer", "given") if name in rows[0]]
    cells = [
        [
            row["case_name"],
            row["family"],
            Cell("right", tone="good") if row["right"] else Cell(row.get("error_code", "wrong"), tone="bad"),
            *(("–" if row[name] is None else row[name].replace("\n", "⏎")) for name in texts),
            None if row["bits"] is None else round(row["bits"], 2),
        ]
        for row in rows[:MAX_ROWS]
    ]
    return Table(["question", "family", "", *texts, "bits of the answer"], cells, caption)
