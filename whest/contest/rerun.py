"""Run a row of a published contest again, from its sealed program and the revealed secret, and compare."""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from whest.contest.board import of_kind
from whest.contest.keys import Document
from whest.contest.published import Published
from whest.contest.rules import contest_of, run_config, sealed_node
from whest.contest.scoring import entry_path, run_id
from whest.contest.storage import ENTRIES, REPORTS
from whest.document import case_rows
from whest.errors import ConfigError, UnprotectedError, WhestError
from whest.tracking.recorded import read_report

CLOSE = 1e-4
"""How far a figure may be off on another processor, whose sums round otherwise. FLOPs must be the same."""
EXACT = (
    "mlp_name flops_used is_correct error_code attempted "
    "budget_exhausted time_exhausted residual_wall_time_exhausted combined_budget_exhausted"
).split()
NEAR = ("final_layer_mse", "accuracy", "loss", "right")
WHOLE = ("score", "score_se")
"""Of a report, and for NO_TIME of each case: compared unless the rule prices the time."""
NO_TIME = ("residual_wall_time_s", "score_multiplier", "adjusted_final_layer_score")
PRICED = ("fherma",)
"""Rules in whose score the clock has a part."""
Verdict = Literal["same", "near", "differs"]


@dataclass(frozen=True)
class Again:
    """One run, made again."""

    run: str
    verdict: Verdict
    words: str


def chosen(published: Published, which: str) -> list[Document]:
    """The scored entries that `rerun=…` names: all, an entry's number, or a participant's."""
    received = {line["entry"]: line for line in of_kind(published.lines, "received")}
    scored = of_kind(published.lines, "scored")
    number = which.zfill(6)
    found = [
        line
        for line in scored
        if which == "all" or line["entry"] == number or received[line["entry"]]["participant"] == which
    ]
    if not found:
        raise ConfigError(
            f"rerun={which} is no scored entry, no participant with one, and not all: board.json lists the entries"
        )
    return found


def run_again(published: Published, which: str, config: Mapping[str, Any]) -> Iterator[Again]:
    """Each chosen run, in a folder that is thrown away."""
    if published.secret is None:
        raise ConfigError(f"rerun={which} needs the secret seed, which is revealed when the contest is closed")
    received = {line["entry"]: line for line in of_kind(published.lines, "received")}
    for line in chosen(published, which):
        entry = received[line["entry"]]
        if line["failed"] is not None:
            yield _fails_again(published, published.secret, entry, config)
        for run in line["runs"]:
            name = run_id(line["entry"], run["number"])
            report, reason = _made(published, published.secret, entry, run["number"], config)
            if report is None:
                yield Again(name, "differs", f"it can't be run: {reason}")
                continue
            before = read_report(published.folder / REPORTS / f"{name}.json").report
            yield compared(name, before, report)


def _fails_again(published: Published, secret: bytes, entry: Mapping[str, Any], config: Mapping[str, Any]) -> Again:
    """An entry that the log calls failed must fail here, too, with one of its seeds."""
    for number in range(contest_of(published.manifest).n_seeds):
        _, reason = _made(published, secret, entry, number, config)
        if reason is not None:
            return Again(run_id(entry["entry"], number), "same", f"it fails here, too: {reason}")
    return Again(run_id(entry["entry"], 0), "differs", "the log says that it failed, and here it runs and has a score")


def _made(
    published: Published, secret: bytes, line: Mapping[str, Any], number: int, config: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, str | None]:
    """One run, in a folder that is thrown away: its report, and why it has no score."""
    with tempfile.TemporaryDirectory() as place:
        return _made_in(Path(place), published, secret, line, number, config)


def _made_in(
    place: Path,
    published: Published,
    secret: bytes,
    line: Mapping[str, Any],
    number: int,
    config: Mapping[str, Any],
) -> tuple[Mapping[str, Any] | None, str | None]:
    from whest.experiment import build
    from whest.experiment import run as carry_out

    node = sealed_node(entry_path(published.folder.absolute() / ENTRIES, line), line["estimator"])
    own = {**config, "outputs_dir": str(place / "outputs"), "participant": line["participant"]}
    rerun_config = run_config(published.manifest, own, secret, number, node)
    try:
        experiment = build(rerun_config, place / "run")
        report = carry_out(experiment, place / "run")
    except (UnprotectedError, OSError, MemoryError):
        raise
    except Exception as error:  # as the host does: a program that breaks a reader has failed
        kind = "" if isinstance(error, WhestError) else f"{type(error).__name__}: "
        return None, kind + " ".join(str(error).split())[:300]
    if report.meta.status == "interrupted":
        raise KeyboardInterrupt
    return report.to_json(), report.problem


def compared(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Again:
    """The two reports: the protocol and the FLOPs are the same, errors to rounding, whatever the clock said."""
    if before["run_meta"]["protocol_hash"] != after["run_meta"]["protocol_hash"]:
        return Again(name, "differs", "it has another protocol here: another version of whest, or other data")
    timed = after["run_config"]["scoring"]["name"] in PRICED
    old, new = figures(before["results"], timed), figures(after["results"], timed)
    if len(old) != len(new):
        return Again(name, "differs", f"it has {len(new)} figures here and {len(old)} in its report")
    worst = 0.0
    for (what, left), (name_here, right) in zip(old, new, strict=True):
        if what != name_here:
            return Again(name, "differs", f"it has {name_here} here, and {what} in its report")
        if what in EXACT and left != right:
            return Again(name, "differs", f"{what} is {right} here and {left} in its report")
        worst = max(worst, distance(left, right))
    if worst > CLOSE:
        return Again(name, "differs", f"a figure is off by {worst:.2g} of its value")
    score = before["results"]["score"]
    if worst > 0:
        return Again(name, "near", f"score {score:.6g}, figures within {worst:.1g} of their values")
    return Again(name, "same", f"score {score:.6g}, every figure the same")


def figures(results: Mapping[str, Any], timed: bool = False) -> Sequence[tuple[str, Any]]:
    """The figures of each case and of the whole that no clock has a part in."""
    rows, more = case_rows(results), () if timed else NO_TIME
    found = [(name, row[name]) for row in rows for name in (*EXACT, *NEAR, *more) if name in row]
    found += [] if timed else [(name, results.get(name)) for name in WHOLE]
    losses = results.get("online", {}).get("loss", []) if isinstance(results.get("online"), Mapping) else []
    whole = [("flops_used", results["flops_used"])] if "flops_used" in results else []
    return [*found, *whole, *(("loss", loss) for loss in losses)]


def distance(left: Any, right: Any) -> float:
    """How far two figures are apart, as a share of the larger."""
    if left == right:
        return 0.0
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in (left, right)):
        return math.inf
    return abs(left - right) / max(abs(left), abs(right))
