"""The page of a prequential run: the loss curve, compute, blocks, and predictions on held-out text."""

from datetime import datetime
from itertools import accumulate

from whest.document import Json
from whest.notation import figure
from whest.page.blocks import Axis, Block, Chart, Column, Fact, Gauge, Guide, Series, Table, Text
from whest.page.flops import flop_blocks
from whest.page.run import PageParts
from whest.tasks.prequential.figures import UNIFORM, online_curve


def page_parts(document: Json) -> PageParts:
    config, results = document["run_config"], document["results"]
    rows = results["per_case"]
    return PageParts(
        title=f"{config['estimator']['name']} on {config['dataset']['name']}",
        subtitle=_subtitle(document),
        notices=notices(document),
        note="1/(1 + bits per byte), changed by the held-out text; a single run has no error bar",
        facts=_facts(results) if rows else [],
        gauges=[Gauge("FLOPs of updates", results["flops_used"] / config["flop_budget"])] if rows else [],
        sections={
            "Online loss": _curves(results) if rows else [],
            "Predictions": _examples(results),
            "Where the FLOPs went": flop_blocks(results, max(results["n_batches"], 1), "FLOPs per step")
            if rows
            else [],
            "Blocks": [_blocks(results)] if rows else [],
        },
        provenance={"isolation": "in workers" if config["isolation"]["worker"] else "in this process"},
    )


def notices(document: Json) -> list[Block]:
    """Warnings above the score."""
    config, results = document["run_config"], document["results"]
    found: list[Block] = []
    if document["run_meta"]["status"] == "interrupted":
        found.append(Text(f"Interrupted after {len(results['per_case'])} blocks: it has no score.", "warn"))
    elif results["failure"]:
        found.append(Text(f"Failed, not scored: {results['failure']}.", "bad"))
    if results["step0_anomaly"]:
        found.append(Text(f"{anomaly_words(results['step0_loss'])}: the score is 0.", "bad"))
    if results["memorised"]:
        found.append(Text(f"{gap_words(results['gap'])}: the score is halved.", "bad"))
    if results["n_charged_batches"]:
        found.append(
            Text(f"{results['n_charged_batches']} batches had no finite loss: they count as 16 bits per byte.", "warn")
        )
    if config["is_reference"]:
        found.append(Text("A reference: its work on the host is not counted, so it is never ranked."))
    return found


def anomaly_words(loss: float) -> str:
    return f"The first batch cost {loss:.3g} nats per byte, less than is possible with random weights"


def gap_words(gap: float) -> str:
    return f"Held-out text costs {gap:.3g} bits per byte more than the last batches of the stream"


def _subtitle(document: Json) -> str:
    config, results = document["run_config"], document["results"]
    started = datetime.fromisoformat(document["run_meta"]["run_started_at_utc"])
    return (
        f"{results['covered_bytes']:,} bytes in rows of {config['row_length']} · "
        f"budget {config['flop_budget']:.3g} FLOPs · seed {config['seed']} · {started:%-d %B %Y, %H:%M} UTC"
    )


def _facts(results: Json) -> list[Fact]:
    seconds = sum(row["wall_time_s"] for row in results["per_case"])
    facts = [
        Fact(
            "bits per byte",
            figure4(results["bpb"]),
            f"of {results['covered_bytes']:,} bytes, each before it was learnt",
        ),
        Fact("at the end", figure4(results["train_bpb_converged"]), "bits per byte of the last tenth"),
        Fact("first batch", figure4(results["step0_loss"]), "nats per byte; uniform is 5.545"),
        Fact("steps", f"{results['n_batches']:,}", f"of {results['online']['batch_bytes']:,} bytes"),
        Fact("harness's FLOPs", figure(results["harness_flops"]), "for losses and checks; they are free"),
        Fact("time", f"{seconds:.3g} s", f"compiled in {results['compile_time_s']:.2g} s"),
    ]
    if results.get("constant_bytes") is not None:
        packed = f"{results['program_bytes']:,} B of programs, gzipped"
        facts.append(Fact("constants", f"{results['constant_bytes']:,} B", packed))
    if results["val_bpb"] is not None:
        facts[2:2] = [
            Fact("held out", figure4(results["val_bpb"]), f"{figure4(results['val_bpb_random_init'])} before learning"),
            Fact("gap", figure4(results["gap"]), "held out − at the end", "bad" if results["memorised"] else "plain"),
        ]
    return facts


def figure4(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _curves(results: Json) -> list[Block]:
    first, last = results["per_case"][0]["bpb"], results["per_case"][-1]["bpb"]
    words = f"from {figure(first)} bits per byte in the first block to {figure(last)} in the last"
    return [_loss_chart(results, words), _flops_chart(results, words)]


def _loss_chart(results: Json, words: str) -> Chart:
    """The loss of each batch, and the mean so far, which is the code length."""
    places, bits, so_far = online_curve(results)
    return Chart(
        Axis("bytes read"),
        Axis("bits per byte", low=0.0),
        [
            Series("each batch", places.tolist(), bits.tolist(), "line", "muted", is_faint=True),
            Series("mean so far", places.tolist(), so_far.tolist(), "line"),
        ],
        alt=f"Online loss against bytes read: {words}.",
        caption=f"The loss of each batch before it is learnt: {words}.",
        guides=[Guide("uniform", y=UNIFORM, colour="alarm")],
    )


def _flops_chart(results: Json, words: str) -> Chart:
    """Bits per byte of the blocks, against the FLOPs spent until the end of each."""
    rows = results["per_case"]
    spent = list(accumulate(row["flops_used"] for row in rows))
    blocks = Series("blocks", spent, [row["bpb"] for row in rows], names=[row["case_name"] for row in rows])
    return Chart(
        Axis("FLOPs of updates"),
        Axis("bits per byte of a block"),
        [blocks],
        alt=f"Bits per byte of each block against FLOPs: {words}.",
        caption="Each block, at the FLOPs spent until then.",
    )


def _examples(results: Json) -> list[Block]:
    if not results["examples"]:
        return []
    rows = [
        [
            example["before"].encode("unicode_escape").decode(),
            _byte(example["byte"]),
            example["bits"],
            "  ".join(f"{_byte(byte)} {share:.0%}" for byte, share in example["guesses"]),
        ]
        for example in results["examples"]
    ]
    columns: list[Column | str] = ["text before", "next byte", Column("bits", "the cost of that byte"), "predicted"]
    return [Table(columns, rows, "Places in the held-out text: the next byte, and the learner's likeliest bytes.")]


def _byte(byte: int) -> str:
    return repr(chr(byte)) if 32 < byte < 127 else {32: "space", 10: "newline"}.get(byte, f"0x{byte:02x}")


def _blocks(results: Json) -> Table:
    rows = [
        [row["case_index"], row["case_name"], row["bpb"], row["flops_used"], row["wall_time_s"]]
        for row in results["per_case"]
    ]
    return Table(["#", "block", "bits per byte", "FLOPs", "wall s"], rows, "Blocks of the stream, in order.")
