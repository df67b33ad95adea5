"""Receipts: what a participant is given for an entry, signed, with its places in the log."""

from collections.abc import Mapping, Sequence
from typing import Any

from whest.contest.keys import Document
from whest.contest.storage import RECEIPTS

KIND = "receipt"
"""No other signed document can stand for one."""
TOLD = ("entry", "participant", "file", "file_sha256", "n_bytes", "received_at", "refused")


def receipt_files(manifest: Mapping[str, Any], lines: Sequence[Document]) -> dict[str, Document]:
    """Each receipt by the name of its file. They follow from the log."""
    scored = {line["entry"]: line for line in lines if line["kind"] == "scored"}
    return {
        f"{RECEIPTS}/{line['entry']}.json": _receipt(manifest, line, scored.get(line["entry"]))
        for line in lines
        if line["kind"] == "received"
    }


def _receipt(manifest: Mapping[str, Any], line: Mapping[str, Any], scored: Mapping[str, Any] | None) -> Document:
    told = {name: line[name] for name in TOLD}
    result = None
    if scored is not None:
        scores = [{name: run[name] for name in ("number", "score", "score_se")} for run in scored["runs"]]
        result = {"failed": scored["failed"], "runs": scores, "line": _place(scored)}
    return {"kind": KIND, "contest": manifest["name"], **told, "line": _place(line), "scored": result}


def _place(line: Mapping[str, Any]) -> Document:
    return {"n": line["n"], "sha256": line["sha256"]}
