"""Failures and printed output on a page. This is a stranger's text: it is shortened and shown as plain text."""

from collections.abc import Mapping, Sequence
from typing import Any

from whest.document import Json, case_key, has_failed
from whest.page.blocks import Block, Code, Text

MAX_KINDS, MAX_NAMES, MAX_CHARACTERS = 8, 12, 6000


def failure_words(flags: Mapping[str, Any]) -> str:
    """The names of a row's failures, or of a suite's failures with their counts."""
    words = [
        name.replace("_", " ") + (f" {value}" if not isinstance(value, bool) else "")
        for name, value in flags.items()
        if value and (name.endswith("_exhausted") or (name == "error" and isinstance(value, int)))
    ]
    return ", ".join([*words, *([flags["error_code"]] if flags.get("error_code") else [])])


def failure_blocks(rows: Sequence[Json]) -> list[Block]:
    """One block per kind of failure, with the first traceback of its kind."""
    failed = [row for row in rows if has_failed(row)]
    kinds = gather(failed, lambda row: (failure_words(row), (row.get("error") or {}).get("message", "")))
    blocks: list[Block] = []
    for (words, message), members in list(kinds.items())[:MAX_KINDS]:
        details = f": {shorten(message, 1000)}" if message else ""
        blocks.append(Text(f"{words}{details} ({_names(members)})", "bad"))
        if members[0].get("traceback"):
            blocks.append(Code(shorten(members[0]["traceback"]), f"{words}: why", is_folded=len(kinds) > 1))
    return [*blocks, *_left(len(kinds), "kinds of failure")]


def output_blocks(rows: Sequence[Json]) -> list[Block]:
    """One block per different output that the estimator printed."""
    printed = gather([row for row in rows if row.get("output")], lambda row: row["output"])
    shown = list(printed.items())[:MAX_KINDS]
    blocks = [Code(shorten(text), f"Printed on {_names(members)}", is_folded=True) for text, members in shown]
    return [*blocks, *_left(len(printed), "outputs")]


def _left(n_found: int, what: str) -> list[Block]:
    return [Text(f"{n_found - MAX_KINDS} more {what} are in report.json.")] if n_found > MAX_KINDS else []


def gather(rows: Sequence[Json], key: Any) -> dict[Any, list[Json]]:
    """The rows of each key, in the order of their first appearance."""
    groups: dict[Any, list[Json]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def shorten(text: str, longest: int = MAX_CHARACTERS) -> str:
    """The beginning and the end of a long text. The last line of a traceback is the important one."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out; report.json has them …\n{text[-half:]}"


def _names(rows: Sequence[Json]) -> str:
    names = [case_key(row)[1] for row in rows[:MAX_NAMES]]
    return ", ".join(names) + (f" and {len(rows) - MAX_NAMES} more" if len(rows) > MAX_NAMES else "")
