"""What an organiser with the key could do: change lines, rules and reports of a contest, and sign all of it again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.contests import RULES, fix_secret, organise, put, sealed, sealed_constant
from whest.contest.board import board_files
from whest.contest.keys import Key, canonical, read_secret, sha256
from whest.contest.log import FIRST, line_of, read_lines
from whest.contest.receipts import receipt_files
from whest.contest.scoring import run_facts
from whest.contest.storage import HEAD, LOG, MANIFEST, SIGNED
from whest.contest.verify import verify

Json = dict[str, Any]
Lines = list[Json]


def closed_contest(folder: Path) -> Path:
    """Two honest entries, scored; the contest is closed."""
    put(folder / "inbox", "ada/one.whest", sealed("mean_prop"), 1)
    put(folder / "inbox", "bob/one.whest", sealed_constant(0.5), 2)
    place = fix_secret(folder / "spring")
    organise(*RULES, f"output={place}", f"inbox={folder / 'inbox'}", folder=folder)
    organise(f"output={place}", "host.do=close", folder=folder)
    return place


def forged(
    contest: Path,
    place: Path,
    lines: Callable[[Lines], Lines | None] = lambda lines: None,
    rules: Callable[[Json], None] = lambda manifest: None,
    files: Callable[[Path], object] = lambda folder: None,
    page: Callable[[bytes], bytes] = lambda content: content,
) -> Path:
    """A copy with other lines, rules, files or page, all of it signed by the contest's own key."""
    key = Key(read_secret(contest.with_name("spring.private") / "key"))
    shutil.copytree(contest, place)
    manifest = json.loads((place / MANIFEST).read_text())
    rules(manifest)
    (place / MANIFEST).write_bytes(canonical(manifest) + b"\n")
    told = read_lines((place / LOG).read_bytes())[0]
    told[0]["manifest"] = sha256(canonical(manifest) + b"\n")
    chain: Lines = []
    for line in lines(told) or told:
        body = {name: value for name, value in line.items() if name not in ("n", "before", "sha256")}
        chain.append(line_of(len(chain), chain[-1]["sha256"] if chain else FIRST, body))
    (place / LOG).write_bytes(b"".join(canonical(line) + b"\n" for line in chain))
    last = {"n": chain[-1]["n"], "sha256": chain[-1]["sha256"], "contest": manifest["name"]}
    (place / HEAD).write_bytes(key.signed(last))
    for path in (place / "receipts").iterdir():
        path.unlink()
    for name, document in receipt_files(manifest, chain).items():
        (place / name).write_bytes(key.signed(document))
    files(place)
    try:
        board = board_files(manifest, chain)
    except Exception:  # lines that no board can be made of
        board = {name: (place / name).read_bytes() for name in ("board.json", "board.csv", "board.html")}
    board["board.html"] = page(board["board.html"])
    for name, content in board.items():
        (place / name).write_bytes(content)
    hashes = {name: sha256(content) for name, content in board.items()}
    (place / SIGNED).write_bytes(key.signed({**last, "kind": "board", "files": hashes}))
    return place


def problems(folder: Path) -> list[str]:
    return [str(problem) for problem in verify(folder)[1]]


def with_report(contest: Path, place: Path, entry: str, change: Callable[[Json], None]) -> Path:
    """A report that was changed, with all that the log says of it."""
    report = json.loads((contest / "reports" / f"{entry}-0.json").read_text())
    change(report)
    content = json.dumps(report).encode()
    draft = place.with_name("draft.json")
    draft.write_bytes(content)

    def told(lines: Lines) -> None:
        (line,) = [line for line in lines if line["kind"] == "scored" and line["entry"] == entry]
        line["runs"][0] |= {**run_facts(draft, 0), "report_sha256": sha256(content)}

    return forged(contest, place, told, files=lambda at: (at / "reports" / f"{entry}-0.json").write_bytes(content))
