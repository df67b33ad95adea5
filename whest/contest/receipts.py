"""Receipts: what a participant is given for an entry, signed, with its places in the log."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whest.contest.keys import Document, is_signed
from whest.contest.log import DamagedError, read_signed
from whest.contest.published import Found, Problem, Published, strangers
from whest.contest.storage import LOG, RECEIPTS

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


def check_receipt(published: Published, path: Path) -> Found:
    """A participant's own receipt: the log must still have what it promised."""
    try:
        receipt = read_signed(path)
    except DamagedError as error:
        yield Problem(str(path), str(error).partition(": ")[2])
        return
    if not is_signed(receipt, published.manifest["public_key"]) or receipt.get("kind") != KIND:
        yield Problem(str(path), "it is no receipt that this contest's key signed")
        return
    hashes = {line["n"]: line["sha256"] for line in published.lines}
    for place in (receipt["line"], *([receipt["scored"]["line"]] if receipt["scored"] else [])):
        if hashes.get(place["n"]) != place["sha256"]:
            promised = f"line {place['n'] + 1} with sha256 {place['sha256'][:16]}…"
            said = f"it promises {promised}, and the log has another or none"
            yield Problem(f"{LOG}, entry {receipt['entry']}", said)


def check_receipts(published: Published) -> Found:
    expected = receipt_files(published.manifest, published.lines)
    for name, document in expected.items():
        try:
            found = read_signed(published.folder / name)
        except DamagedError as error:
            yield Problem(name, str(error).partition(": ")[2])
            continue
        if not is_signed(found, published.manifest["public_key"]):
            yield Problem(name, "its signature is not the contest's, or it was changed")
        elif {**document, "signature": found["signature"]} != found:
            yield Problem(name, "it is signed, but it does not follow from the log")
    yield from strangers(published.folder, RECEIPTS, {Path(name).name for name in expected})
