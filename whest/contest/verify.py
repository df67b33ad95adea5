"""Verify a published contest: by anybody, from its folder alone. Everything in it is a stranger's data.

Each check names the file, the line or the entry that is wrong. A check that can't be carried out is a problem, too.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from whest import __version__
from whest.contest.board import board_files, of_kind
from whest.contest.intake import look_into
from whest.contest.keys import SIGNATURE, fingerprint, is_signed, sha256
from whest.contest.ledger import Ledger
from whest.contest.log import DamagedError, read_head, read_signed, refuse_lost, shown_line
from whest.contest.published import Found, Problem, Published, content_of, open_published, strangers
from whest.contest.receipts import check_receipt, check_receipts
from whest.contest.rules import commitment_to, contest_of, derived_seed
from whest.contest.scoring import FACTS, entry_path, run_facts, run_id
from whest.contest.storage import BOARD, ENTRIES, HEAD, LOG, MANIFEST, RECEIPTS, REPORTS, SIGNED, stray_names
from whest.contest.story import check_story
from whest.contest.terms import unkept_term
from whest.errors import WhestError
from whest.files import LARGEST_SEALED, SEALED, read_bounded
from whest.notation import printable
from whest.tracking.recorded import LARGEST_REPORT, read_report

PAGE = "board.html"
LARGEST_BOARD = 2**26
HEAD_FIELDS = {"n", "sha256", "contest", SIGNATURE}
"""A head has these alone: no other signed document can stand for it."""
SIGNED_FIELDS = {*HEAD_FIELDS, "kind", "files"}
NOT_FROM_LOG = "it is signed, but it does not follow from the log"
OTHER_PAGE = (
    "it does not follow from the log by this version of whest, and the contest says that another one made it: verify "
    "with that one, or remove the page from your copy and read board.json"
)


def verify(folder: Path, key: str | None = None, receipt: Path | None = None) -> tuple[Published | None, list[Problem]]:
    """All checks that need no run. `receipt` is a participant's own copy."""
    opened: list[Published] = []

    def read() -> Found:
        published, problems = open_published(folder)
        opened.extend([] if published is None else [published])
        yield from problems

    problems = at_the_door(LOG, read)
    if not opened:
        return None, problems
    published = opened[0]
    checks: list[tuple[str, Callable[[Published], Iterable[Problem]]]] = [
        (HEAD, check_head),
        (SIGNED, check_board),
        (RECEIPTS, check_receipts),
        (LOG, check_story),
        (LOG, check_decisions),
        (LOG, check_tracks),
        (LOG, check_secret),
        (ENTRIES, check_entries),
        (REPORTS, check_reports),
    ]
    if key is not None:
        checks.insert(0, (MANIFEST, partial(check_key, key=key)))
    if receipt is not None:
        checks.append((str(receipt), partial(check_receipt, path=receipt)))
    for where, check in checks:
        problems += at_the_door(where, partial(check, published))
    return published, problems


def at_the_door(where: str, check: Callable[[], Iterable[Problem]]) -> list[Problem]:
    """What a check finds. Whatever a stranger's data do to it is a problem with a name, too."""
    found: list[Problem] = []
    try:
        found.extend(check())
    except WhestError as error:
        found.append(Problem(where, str(error)))
    except Exception as error:
        found.append(Problem(where, f"it can't be checked ({type(error).__name__}: {str(error)[:200]})"))
    return found


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
    elif set(head) != HEAD_FIELDS or head["contest"] != published.manifest["name"]:
        yield Problem(HEAD, "it is signed, but it is no head of this contest's log")
    elif head["n"] != len(published.lines) - 1:
        yield Problem(shown_line(head["n"] + 1), f"it is not signed yet: {HEAD} ends before it")


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
        made_at = f"it was made at line {signed['n'] + 1} of the log"
        yield Problem(SIGNED, f"{made_at}, which has gone on: run job=host again")
    is_board = set(signed) == SIGNED_FIELDS and signed["kind"] == "board"
    if not is_board or signed["contest"] != published.manifest["name"]:
        yield Problem(SIGNED, "it is signed, but it is no board of this contest")
    made, is_same = board_files(published.manifest, published.lines), is_same_version(published)
    for name in BOARD:
        content = content_of(published.folder / name, LARGEST_BOARD)
        if content is None and name == PAGE and not is_same:
            continue  # left out by its reader, as he was told
        if content is None or sha256(content) != signed["files"].get(name):
            yield Problem(name, "it is missing" if content is None else "it is not the file that was signed")
        elif content != made[name]:
            yield Problem(name, OTHER_PAGE if name == PAGE and not is_same else NOT_FROM_LOG)


def is_same_version(published: Published) -> bool:
    """A page depends on whest's version, and which one made it is the organiser's word."""
    versions = published.manifest["versions"]
    return isinstance(versions, Mapping) and versions.get("whest") == __version__


def warnings(published: Published) -> list[str]:
    """What could not be checked, and is no fault."""
    names = [printable(name)[:100] for name in stray_names(published.folder)[:20]]
    told = [f"{name}: it is no file of a contest, and nobody signed it" for name in names]
    if not is_same_version(published):
        version = str(published.manifest["versions"])[:100]
        told = [f"the contest was opened by {version}, and this is whest {__version__}"]
        if not (published.folder / PAGE).exists():
            told.append(f"{PAGE} is not there, and was not checked")
    failed = [line["entry"] for line in of_kind(published.lines, "scored") if line["failed"] is not None]
    if failed:
        when = "rerun=all" if published.secret is not None else "after the closing rerun=all"
        told.append(f"that {', '.join(failed[:10])} failed is the organiser's word: {when} shows it")
    return told


def check_tracks(published: Published) -> Found:
    """All runs have the protocol of the first entry's. With another one a rival would be on a board of its own."""
    first: dict[int, tuple[str, Mapping[str, Any]]] = {}
    for line in of_kind(published.lines, "scored"):
        for run in line["runs"]:
            entry, known = first.setdefault(run["number"], (line["entry"], run))
            for name in ("rule", "version", "protocol", "track", "is_aside"):
                if run[name] != known[name]:
                    said = f"entry {line['entry']} has another {name} than entry {entry}, so that they are not compared"
                    yield Problem(shown_line(line["n"]), said)
                    break


def check_decisions(published: Published) -> Found:
    """Late, too large, the same bytes, too many: whether each entry was rightly taken or refused."""
    ledger = Ledger(contest_of(published.manifest))
    for line in of_kind(published.lines, "received"):
        due = ledger.refusal(line)
        ledger.add(line)
        if due != line["refused"]:
            said = f"entry {line['entry']} was {_taken(line['refused'])}, the rules say {_taken(due)}"
            yield Problem(shown_line(line["n"]), said)


def _taken(refused: str | None) -> str:
    return "taken" if refused is None else f"refused ({refused})"


def check_secret(published: Published) -> Found:
    """The revealed secret against the commitment, which stands in the manifest and in the log's first line."""
    first, told = published.lines[0], published.manifest
    if (first["commitment"], first["public_key"]) != (told["commitment"], told["public_key"]):
        yield Problem(shown_line(0), f"its commitment or key is not that of {MANIFEST}")
    if published.secret is not None and commitment_to(published.secret) != told["commitment"]:
        line = of_kind(published.lines, "closed")[-1]["n"]
        yield Problem(shown_line(line), "the revealed secret is not the one committed to")


def check_entries(published: Published) -> Found:
    """After the closing: each entry's file, by its sha256; and what the log says of it, from the file again."""
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
        elif (name := mistold(published.manifest, line, content)) is not None:
            yield Problem(shown_line(line["n"]), f"its {name} does not follow from {ENTRIES}/{path.name}")
    yield from strangers(published.folder, ENTRIES, {entry_path(Path(), line).name for line in taken})


def mistold(manifest: Mapping[str, Any], line: Mapping[str, Any], content: bytes) -> str | None:
    """The first thing that the log says of an entry and that its file does not."""
    told = {"n_bytes": len(content), "estimator": Path(line["file"]).stem, "description": "", "damage": None}
    if line["file"].endswith(SEALED):
        told |= look_into(content, contest_of(manifest), manifest["rules"])
    return next((name for name, value in told.items() if line[name] != value), None)


def check_reports(published: Published) -> Found:
    """After the closing: each run's report by its sha256, its score again from its rows, its seed from the secret."""
    if published.secret is None:
        return
    names = set()
    received = {line["entry"]: line for line in of_kind(published.lines, "received")}
    for line in of_kind(published.lines, "scored"):
        for run in line["runs"]:
            name = f"{run_id(line['entry'], run['number'])}.json"
            names.add(name)
            path = published.folder / REPORTS / name
            content = content_of(path, LARGEST_REPORT)
            if content is None or sha256(content) != run["report_sha256"]:
                yield Problem(f"{REPORTS}/{name}", "it is missing" if content is None else "it was changed")
            elif (problem := report_problem(published, received[line["entry"]], path, run)) is not None:
                yield Problem(f"{REPORTS}/{name}", problem)
    yield from strangers(published.folder, REPORTS, names)


def report_problem(published: Published, line: Mapping[str, Any], path: Path, run: Mapping[str, Any]) -> str | None:
    secret = published.secret or b""
    facts = run_facts(path, run["number"])
    different = [name for name in FACTS if facts[name] != run[name]]
    if different:
        return f"the log says something else about its {different[0]}"
    report = read_report(path).report
    config = report["run_config"]
    if config["dataset"].get("seed") != derived_seed(secret, "data"):
        return "its data were not drawn from the secret seed"
    if config["seed"] != derived_seed(secret, f"run {run['number']}"):
        return "its seed does not follow from the secret"
    entry = read_bounded(entry_path(published.folder / ENTRIES, line), LARGEST_SEALED)
    return unkept_term(published.manifest, line, entry, report)
