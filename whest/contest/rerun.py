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
from whest.contest.rules import run_config, sealed_node
from whest.contest.scoring import entry_path, run_id
from whest.contest.storage import ENTRIES, REPORTS
from whest.document import case_rows
from whest.errors import ConfigError, UnprotectedError, WhestError
from whest.tracking.recorded import read_report

CLOSE = 1e-4
"""How far a figure may be off on another processor, whose sums round otherwise. FLOPs must be the same."""
EXACT = ("flops_used", "is_correct")
NEAR = ("final_layer_mse", "accuracy", "loss")
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
    scored = [line for line in of_kind(published.lines, "scored") if line["failed"] is None]
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
        for run in line["runs"]:
            with tempfile.TemporaryDirectory() as place:
                yield _again(published, published.secret, received[line["entry"]], run, config, Path(place))


def _again(
    published: Published,
    secret: bytes,
    line: Mapping[str, Any],
    run: Mapping[str, Any],
    config: Mapping[str, Any],
    place: Path,
) -> Again:
    from whest.experiment import build
    from whest.experiment import run as carry_out

    name = run_id(line["entry"], run["number"])
    node = sealed_node(entry_path(published.folder.absolute() / ENTRIES, line), line["estimator"])
    own = {**config, "outputs_dir": str(place / "outputs"), "participant": line["participant"]}
    rerun_config = run_config(published.manifest, own, secret, run["number"], node)
    try:
        experiment = build(rerun_config, place / "run")
        report = carry_out(experiment, place / "run")
    except UnprotectedError:
        raise
    except WhestError as error:
        return Again(name, "differs", f"it can't be run: {' '.join(str(error).split())[:300]}")
    if report.meta.status == "interrupted":
        raise KeyboardInterrupt
    before = read_report(published.folder / REPORTS / f"{name}.json").report
    return compared(name, before, report.to_json())


def compared(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Again:
    """The two reports: the protocol and the FLOPs are the same, errors to rounding, whatever the clock said."""
    if before["run_meta"]["protocol_hash"] != after["run_meta"]["protocol_hash"]:
        return Again(name, "differs", "it has another protocol here: another version of whest, or other data")
    old, new = figures(before["results"]), figures(after["results"])
    if len(old) != len(new):
        return Again(name, "differs", f"it has {len(new)} figures here and {len(old)} in its report")
    worst = 0.0
    for (what, left), (_, right) in zip(old, new, strict=True):
        if what in EXACT and left != right:
            return Again(name, "differs", f"{what} is {right} here and {left} in its report")
        worst = max(worst, distance(left, right))
    if worst > CLOSE:
        return Again(name, "differs", f"a figure is off by {worst:.2g} of its value")
    score = before["results"]["score"]
    if worst > 0:
        return Again(name, "near", f"score {score:.6g}, figures within {worst:.1g} of their values")
    return Again(name, "same", f"score {score:.6g}, every figure the same")


def figures(results: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    """The figures of each case that no clock has a part in."""
    rows = case_rows(results)
    found = [(name, row[name]) for row in rows for name in (*EXACT, *NEAR) if name in row]
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
