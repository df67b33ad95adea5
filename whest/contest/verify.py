"""Verify a published contest: by anybody, from its folder alone. Everything in it is a stranger's data.

Each check names the file, the line or the entry that is wrong. A check that can't be carried out is a problem, too.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from whest.contest.board import board_files, of_kind
from whest.contest.intake import refusal
from whest.contest.keys import fingerprint, is_signed, sha256
from whest.contest.log import DamagedError, read_head, read_signed, refuse_lost
from whest.contest.published import Found, Problem, Published, content_of, open_published, strangers
from whest.contest.receipts import receipt_files
from whest.contest.rules import commitment_to, contest_of, derived_seed
from whest.contest.scoring import FACTS, entry_path, run_facts, run_id
from whest.contest.storage import BOARD, ENTRIES, HEAD, LOG, MANIFEST, RECEIPTS, REPORTS, SIGNED
from whest.errors import WhestError
from whest.files import LARGEST_SEALED
from whest.tracking.recorded import LARGEST_REPORT, read_report

LARGEST_BOARD = 2**26


def verify(folder: Path, key: str | None = None) -> tuple[Published | None, list[Problem]]:
    """All checks that need no run."""
    published, problems = open_published(folder)
    if published is None:
        return None, problems
    checks: Sequence[Callable[[Published], Found]] = (
        check_head,
        check_board,
        check_receipts,
        check_decisions,
        check_secret,
        check_entries,
        check_reports,
    )
    if key is not None:
        problems += check_key(published, key)
    for check in checks:
        try:
            problems += check(published)
        except WhestError as error:
            problems.append(Problem(check.__name__.removeprefix("check_"), str(error)))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ValidationError) as error:
            words = f"it can't be checked ({type(error).__name__}: {str(error)[:200]})"
            problems.append(Problem(check.__name__.removeprefix("check_"), words))
    return published, problems


def check_key(published: Published, key: str) -> list[Problem]:
    found = fingerprint(published.manifest["public_key"])
    is_known = len(key) >= 16 and found.startswith(key.lower())
    return [] if is_known else [Problem(MANIFEST, f"it is signed by the key {found[:16]}…, and not by {key}")]


def check_head(published: Published) -> Found:
    """The head's signature, and that the log ends where the head says."""
    try:
        head = read_head(published.folder, published.manifest["public_key"])
        refuse_lost(published.lines, head)
    except DamagedError as error:
        where, _, what = str(error).partition(": ")
        yield Problem(where, what)
        return
    if head is None:
        yield Problem(HEAD, "it is missing")
    elif head["n"] != len(published.lines) - 1:
        yield Problem(f"{LOG}, line {head['n'] + 1}", f"it is not signed yet: {HEAD} ends before it")


def check_board(published: Published) -> Found:
    """Its signature, its files, and the same board made again from the log."""
    try:
        signed = read_signed(published.folder / SIGNED)
    except DamagedError as error:
        yield Problem(SIGNED, str(error).removeprefix(f"{SIGNED}: "))
        return
    if not is_signed(signed, published.manifest["public_key"]):
        yield Problem(SIGNED, "its signature is not the contest's")
        return
    if (signed["n"], signed["sha256"]) != (published.lines[-1]["n"], published.lines[-1]["sha256"]):
        yield Problem(SIGNED, f"it was made at line {signed['n']} of the log, which has gone on: run job=host again")
    made = board_files(published.manifest, published.lines, published.folder)
    for name in BOARD:
        content = content_of(published.folder / name, LARGEST_BOARD)
        if content is None or sha256(content) != signed["files"].get(name):
            yield Problem(name, "it is missing" if content is None else "it is not the file that was signed")
        elif name != "board.html" and content != made[name]:  # a page depends on whest's version
            yield Problem(name, "it is signed, but it does not follow from the log")


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


def check_decisions(published: Published) -> Found:
    """Late, too large, the same bytes, too many: whether each entry was rightly taken or refused."""
    contest = contest_of(published.manifest)
    received = of_kind(published.lines, "received")
    for place, line in enumerate(received):
        due = refusal(line, received[:place], contest)
        if due != line["refused"]:
            said = f"entry {line['entry']} was {_taken(line['refused'])}, the rules say {_taken(due)}"
            yield Problem(f"{LOG}, line {line['n']}", said)
    taken = {line["entry"] for line in received if line["refused"] is None}
    scored = [line["entry"] for line in of_kind(published.lines, "scored")]
    for entry in sorted(set(scored)):
        if entry not in taken or scored.count(entry) > 1:
            yield Problem(LOG, f"entry {entry} was scored {scored.count(entry)} times, or was never taken")


def _taken(refused: str | None) -> str:
    return "taken" if refused is None else f"refused ({refused})"


def check_secret(published: Published) -> Found:
    """The revealed secret against the commitment, which stands in the manifest and in the log's first line."""
    first, told = published.lines[0], published.manifest
    if (first["commitment"], first["public_key"]) != (told["commitment"], told["public_key"]):
        yield Problem(f"{LOG}, line 0", f"its commitment or key is not that of {MANIFEST}")
    if published.secret is not None and commitment_to(published.secret) != told["commitment"]:
        line = of_kind(published.lines, "closed")[-1]["n"]
        yield Problem(f"{LOG}, line {line}", "the revealed secret is not the one committed to")


def check_entries(published: Published) -> Found:
    """After the closing: each entry's file, by its sha256."""
    if published.secret is None:
        return
    taken = [line for line in of_kind(published.lines, "received") if line["refused"] is None]
    for line in taken:
        path = entry_path(published.folder / ENTRIES, line)
        content = content_of(path, LARGEST_SEALED)
        if content is None or sha256(content) != line["file_sha256"]:
            yield Problem(
                f"{ENTRIES}/{path.name}", "it is missing" if content is None else "it is not the file that was received"
            )
    yield from strangers(published.folder, ENTRIES, {entry_path(Path(), line).name for line in taken})


def check_reports(published: Published) -> Found:
    """After the closing: each run's report by its sha256, its score again from its rows, its seed from the secret."""
    if published.secret is None:
        return
    names = set()
    for line in of_kind(published.lines, "scored"):
        for run in line["runs"]:
            name = f"{run_id(line['entry'], run['number'])}.json"
            names.add(name)
            path = published.folder / REPORTS / name
            content = content_of(path, LARGEST_REPORT)
            if content is None or sha256(content) != run["report_sha256"]:
                yield Problem(f"{REPORTS}/{name}", "it is missing" if content is None else "it was changed")
            elif (problem := report_problem(published.secret, path, run)) is not None:
                yield Problem(f"{REPORTS}/{name}", problem)
    yield from strangers(published.folder, REPORTS, names)


def report_problem(secret: bytes, path: Path, run: Mapping[str, Any]) -> str | None:
    facts = run_facts(path, run["number"])
    different = [name for name in FACTS if facts[name] != run[name]]
    if different:
        return f"the log says something else about its {different[0]}"
    config = read_report(path).report["run_config"]
    if config["dataset"].get("seed") != derived_seed(secret, "data"):
        return "its data were not drawn from the secret seed"
    if config["seed"] != derived_seed(secret, f"run {run['number']}"):
        return "its seed does not follow from the secret"
    return None
